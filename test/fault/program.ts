/**
 * A program of programs/ as a process of its own. It appends a line to a file for each event, and tests judge only by that
 * file: not by the engine's logs, nor by what a process reports about itself when it ends.
 */
import { closeSync, existsSync, fstatSync, openSync, readSync } from 'node:fs'
import { mkdtemp, open, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type GuardedChild, spawnGuarded } from '../real-servers/guarded-child.ts'

const LOOK_EVERY_MS = 10
const WITHIN_MS = 30_000
const OUTPUT_TAIL = 2_000

/** A line of the file. Which fields it has depends on the event: see the program. */
export interface Entry {
  readonly event: string
  /** By the machine's clock. */
  readonly nowMs: number
  readonly key: string
  readonly dueMs: number
  readonly deliveries: number
  readonly latenessMs: number
  readonly outcome: string
  readonly name: string
  readonly doing: string
  readonly code: string | null
  readonly retryable: boolean | null
  readonly level: string
  readonly message: string
  readonly ms: number
  readonly stale: number
}

export interface ProgramOptions {
  /** What Tocsin.open gets. */
  readonly open: Record<string, unknown>
  readonly topic: string
  readonly config?: Record<string, unknown>
  readonly [name: string]: unknown
}

/** Starts programs/<name>.mjs. `flags` are of Node. The caller stops it: `stop()`, or `await using`. */
export async function startProgram(
  name: string,
  options: ProgramOptions,
  preloads: readonly string[] = [],
  flags: readonly string[] = [],
): Promise<Program> {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-fault-'))
  const records = join(folder, 'records')
  const output = await open(join(folder, 'output'), 'a')
  try {
    const imports = preloads.flatMap((preload) => ['--import', programFile(preload)])
    const args = [...flags, ...imports, programFile(name), JSON.stringify({ ...options, records })]
    const stdio = ['ignore' as const, output.fd, output.fd]
    return new Program(name, folder, await spawnGuarded(process.execPath, args, { folder, stdio }))
  } finally {
    await output.close()
  }
}

function programFile(name: string): string {
  return fileURLToPath(new URL(`./programs/${name}.mjs`, import.meta.url))
}

export class Program implements AsyncDisposable {
  readonly #name: string
  readonly #folder: string
  readonly #child: GuardedChild
  readonly #entries: Entry[] = []
  #readBytes = 0
  #isStopped = false

  constructor(name: string, folder: string, child: GuardedChild) {
    this.#name = name
    this.#folder = folder
    this.#child = child
  }

  /** Everything recorded so far. Reads synchronously, so that concurrent callers cannot interleave. */
  entries(): readonly Entry[] {
    const bytes = readFrom(join(this.#folder, 'records'), this.#readBytes)
    // The last line may be half written.
    const whole = bytes.lastIndexOf('\n') + 1
    this.#readBytes += whole
    for (const line of bytes.toString('utf8', 0, whole).split('\n'))
      if (line !== '') this.#entries.push(JSON.parse(line) as Entry)
    return this.#entries
  }

  of(event: string): Entry[] {
    return this.entries().filter((entry) => entry.event === event)
  }

  /** Waits until `holds` returns true for what was recorded. Throws if the program ends before. */
  async until(
    what: string,
    holds: (entries: readonly Entry[]) => boolean,
    withinMs = WITHIN_MS,
  ): Promise<readonly Entry[]> {
    const deadline = performance.now() + withinMs
    for (;;) {
      const isRunning = this.#child.isRunning()
      const entries = this.entries()
      if (holds(entries)) return entries
      if (!isRunning) throw new Error(`${this.#name} ended before ${what}:\n${await this.#tail()}`)
      if (performance.now() > deadline)
        throw new Error(`${this.#name}: not ${what} within ${withinMs} ms:\n${await this.#tail()}`)
      await sleep(LOOK_EVERY_MS)
    }
  }

  /** Waits until `event` was recorded `count` times. */
  untilCount(event: string, count: number, withinMs = WITHIN_MS): Promise<readonly Entry[]> {
    const isEnough = (entries: readonly Entry[]) =>
      entries.filter((one) => one.event === event).length >= count
    return this.until(`${count} × ${event}`, isEnough, withinMs)
  }

  signal(signal: NodeJS.Signals): void {
    this.#child.signal(signal)
  }

  /** Sends SIGTERM. The program closes its Tocsin, records that, and exits by itself. */
  async close(): Promise<void> {
    this.signal('SIGTERM')
    await this.untilCount('closed', 1)
    await this.until('ended by itself after close()', () => !this.#child.isRunning())
  }

  /** Sends SIGKILL. What was recorded stays readable. */
  async kill(): Promise<void> {
    await this.#child.end('SIGKILL')
  }

  async stop(): Promise<void> {
    if (this.#isStopped) return
    this.#isStopped = true
    await this.kill()
    await rm(this.#folder, { recursive: true, force: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #tail(): Promise<string> {
    const output = await readFile(join(this.#folder, 'output'), 'utf8').catch(() => '')
    const last = this.#entries.slice(-5).map((entry) => JSON.stringify(entry))
    return `${output.slice(-OUTPUT_TAIL)}\nits last records:\n${last.join('\n')}`
  }
}

function readFrom(path: string, position: number): Buffer {
  if (!existsSync(path)) return Buffer.alloc(0)
  const file = openSync(path, 'r')
  try {
    const bytes = Buffer.alloc(fstatSync(file).size - position)
    readSync(file, bytes, 0, bytes.length, position)
    return bytes
  } finally {
    closeSync(file)
  }
}
