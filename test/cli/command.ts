/** The compiled `tocsin` as a process of its own, in a folder of its own. `npm test` has built dist before. */
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type GuardedChild, spawnGuarded } from '../real-servers/guarded-child.ts'

const MAIN = fileURLToPath(new URL('../../dist/cli/main.js', import.meta.url))
const TELL_EXIT = fileURLToPath(new URL('./programs/tell-exit.mjs', import.meta.url))
const WITHIN_MS = 60_000
const LOOK_EVERY_MS = 10

export interface Ended {
  /** Null: a signal ended it. */
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface CommandOptions {
  readonly env?: Readonly<Record<string, string>>
}

/** Stop it with `await using`. */
export async function startCommand(
  args: readonly string[],
  { env = {} }: CommandOptions = {},
): Promise<RunningCommand> {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-cli-'))
  const files = await Promise.all(['stdout', 'stderr'].map((name) => open(join(folder, name), 'a')))
  try {
    // Nothing of ours that the tests' own environment may have.
    const ours = Object.keys(process.env).filter((name) => name.startsWith('TOCSIN_'))
    const settings = [
      ...ours.flatMap((name) => ['-u', name]),
      ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
    ]
    const stdio = ['ignore' as const, ...files.map(({ fd }) => fd)]
    const command = [process.execPath, '--import', TELL_EXIT, MAIN, ...args]
    return new RunningCommand(folder, await spawnGuarded('env', [...settings, ...command], { folder, stdio }))
  } finally {
    for (const file of files) await file.close()
  }
}

/** To its end. */
export async function runCommand(args: readonly string[], options?: CommandOptions): Promise<Ended> {
  await using command = await startCommand(args, options)
  return await command.ended()
}

export class RunningCommand implements AsyncDisposable {
  readonly folder: string
  readonly #child: GuardedChild

  constructor(folder: string, child: GuardedChild) {
    this.folder = folder
    this.#child = child
  }

  read(name: 'stdout' | 'stderr'): Promise<string> {
    return readFile(join(this.folder, name), 'utf8')
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.signal(signal)
  }

  /** What matched, once it was said. */
  async said(name: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpExecArray> {
    return this.#until(`said ${pattern}`, async () => pattern.exec(await this.read(name)))
  }

  async ended(): Promise<Ended> {
    await this.#until('ended', async () => (this.#child.isRunning() ? null : true), false)
    const code = await readFile(join(this.folder, 'exit-code'), 'utf8').catch(() => null)
    return {
      code: code === null ? null : Number(code),
      stdout: await this.read('stdout'),
      stderr: await this.read('stderr'),
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#child.end('SIGKILL')
    await rm(this.folder, { recursive: true, force: true })
  }

  async #until<T>(what: string, look: () => Promise<T | null>, mustRun = true): Promise<T> {
    const deadline = performance.now() + WITHIN_MS
    for (;;) {
      const isRunning = this.#child.isRunning()
      const found = await look()
      if (found !== null) return found
      const output = async () => `${await this.read('stdout')}\n${await this.read('stderr')}`
      if (mustRun && !isRunning) throw new Error(`it ended before it ${what}:\n${await output()}`)
      if (performance.now() > deadline)
        throw new Error(`it has not ${what} within ${WITHIN_MS} ms:\n${await output()}`)
      await sleep(LOOK_EVERY_MS)
    }
  }
}
