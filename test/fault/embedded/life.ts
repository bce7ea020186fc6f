/** Lives of programs/embedded/life.mjs on one file, in a folder that goes with them. */
import { chmodSync, existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { eventually } from '../helpers.ts'
import type { History } from './history.ts'
import { type Program, startProgram } from '../program.ts'

export const TOPIC = 'embedded'

export interface LifeOptions {
  readonly path: string
  readonly [name: string]: unknown
}

/** A folder for ledgers, gone when its block ends. */
export function temporaryFolder(base = tmpdir()): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(base, 'tocsin-embedded-'))
  const remove = () => {
    // A test may have made it read-only, and only root can remove files from such a folder.
    if (existsSync(path)) chmodSync(path, 0o700)
    rmSync(path, { recursive: true, force: true })
  }
  return { path, [Symbol.dispose]: remove }
}

export function startLife(options: LifeOptions, preloads: readonly string[] = []): Promise<Program> {
  return startProgram('embedded/life', { open: {}, topic: TOPIC, ...options }, preloads)
}

/** A life that adds nothing and delivers what is left; then it closes, and its process ends by itself. */
export async function drain(history: History, options: LifeOptions, withinMs = 20_000): Promise<void> {
  await using program = await startLife({ ...options, lanes: 0 })
  const seen = () => new Set(program.of('end').map((entry) => `${entry.key}#${(entry as { v?: number }).v}`))
  await program.untilCount('ready', 1)
  const owed = history.waiting().map(({ key, v }) => `${key}#${v}`)
  await eventually('all is delivered', () => owed.every((name) => seen().has(name)), withinMs).catch(
    // The history says it better: which are lost.
    () => {},
  )
  await program.close()
  history.add(program.entries())
}
