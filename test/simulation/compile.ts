import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

/**
 * Compiles the simulator into a folder of its own: it runs many times as fast as what the test runner makes of it. The folder
 * is inside the project, so that packages resolve. The caller removes it.
 */
export function compile(): { readonly folder: string; remove(): void } {
  const folder = mkdtempSync(`${root}node_modules/.tocsin-simulation-`)
  const args = ['node_modules/typescript/bin/tsc', '-p', 'test/simulation', '--outDir', folder]
  const { status, stdout } = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8' })
  if (status !== 0) throw new Error(`the simulator does not compile:\n${stdout}`)
  return { folder, remove: () => rmSync(folder, { recursive: true, force: true }) }
}
