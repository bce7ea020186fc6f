/**
 * Runs before each file of tests and fails it if it leaves a timer, a socket, a server, a child process or a worker
 * behind. A leak in a test is a leak in `stop()`: the process of a user would not end.
 */
import type { Worker } from 'node:worker_threads'
import { afterAll } from 'vitest'
import { held, newlyHeld, type Held } from './resources.ts'
import { describeOpen, TimerLedger, type Timers } from './timer-ledger.ts'

/** A closed socket takes a few turns of the event loop to go; a leaked one never goes. */
const CLOSING_MS_MAX = 1_000
const LOOK_EVERY_MS = 10

const real = { setTimeout: globalThis.setTimeout, setImmediate: globalThis.setImmediate }
const turn = (): Promise<void> => new Promise((resolve) => real.setImmediate(() => resolve()))
const pause = (ms: number): Promise<void> => new Promise((resolve) => real.setTimeout(resolve, ms))

const ledger = new TimerLedger()
ledger.watch(globalThis as unknown as Timers)

// `process.getActiveResourcesInfo()` does not list workers; this event reports each one.
let workers = 0
process.on('worker', (worker: Worker) => {
  workers += 1
  worker.once('exit', () => {
    workers -= 1
  })
})

// The standard streams open at first use. Use them now, or the first test that prints would look like a leak.
void process.stdout
void process.stderr

const look = (): Held => held(process.getActiveResourcesInfo(), workers)
const atStart = look()

// Registered before any hook of the file itself, and so run after all of them.
afterAll(async () => {
  // Promises that the last test settled may clear their timers in a later turn.
  await turn()
  await turn()
  const open = ledger.open()
  if (open.length > 0) throw new Error(describeOpen(open))

  for (let waitedMs = 0; newlyHeld(atStart, look()).length > 0; waitedMs += LOOK_EVERY_MS) {
    if (waitedMs >= CLOSING_MS_MAX) {
      throw new Error(`still open at the end of the file: ${newlyHeld(atStart, look()).join(', ')}`)
    }
    await pause(LOOK_EVERY_MS)
  }
})
