import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * The simulator as the compiler emits it, in a folder of its own: many times as fast as what the test runner makes of it.
 * Inside the project, or it would not find its packages. Whoever asks for one removes it.
 */
export function compile(): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(`${root}node_modules/.tocsin-simulation-`)
  const args = ['node_modules/typescript/bin/tsc', '-p', 'test/simulation', '--outDir', folder]
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`the simulator does not compile:\n${stdout}`)
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}
