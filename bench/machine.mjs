/** Describes the machine of a measurement, without its name or owner. */
import { readFile } from 'node:fs/promises'
import { availableParallelism, cpus, totalmem } from 'node:os'

export async function machine() {
  const { version } = JSON.parse(await readFile(new URL('../package.json', import.meta.url), 'utf8'))
  return {
    date: new Date().toISOString(),
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    platform: `${process.platform} ${process.arch}`,
    node: process.versions.node,
    tocsin: version,
  }
}

export function describeMachine({ cpu, cores, memoryGiB, platform, node }) {
  return `${cpu}, ${cores} ${cores === 1 ? 'core' : 'cores'}, ${memoryGiB} GiB, ${platform}, Node.js ${node}`
}
