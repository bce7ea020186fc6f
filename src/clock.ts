/**
 * The only door to time. Nothing else in src/ reads a clock or sets a timer (a lint rule holds it), so that the
 * whole engine runs on a virtual clock in tests.
 */
export interface Clock {
  /** Wall clock, ms since 1970. It may step, forward and back: it decides what is due, never how long to wait. */
  now(): number
  /** Never steps; its zero means nothing. Leases, deadlines and sleeps go by it. */
  monotonicNow(): number
  /**
   * Calls `ring` once, `delayMs` from now at the earliest. The answer calls it off. A process need not stay alive for a
   * timer that is only background work.
   */
  after(delayMs: number, ring: () => void, isBackground?: boolean): () => void
  /** Lets the event loop serve timers and I/O before going on. */
  turn(): Promise<void>
}

/** Node fires a timer set for more than 2^31 - 1 ms after 1 ms instead, so long waits are slept in pieces. */
const LONGEST_TIMER_MS = 2 ** 31 - 1

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonicNow: () => performance.now(),
  after(delayMs, ring, isBackground = false) {
    const dueMs = performance.now() + delayMs
    let timer: NodeJS.Timeout
    const sleep = () => {
      const leftMs = Math.max(0, Math.ceil(dueMs - performance.now()))
      timer = setTimeout(wake, Math.min(leftMs, LONGEST_TIMER_MS))
      if (isBackground) timer.unref()
    }
    // Node's timers go by whole milliseconds and ring up to one too early: then sleep for what is left.
    const wake = () => (performance.now() < dueMs ? sleep() : ring())
    sleep()
    return () => clearTimeout(timer)
  },
  turn: () => new Promise((resolve) => setImmediate(resolve)),
}

/** Resolves after `delayMs`, or at once when `signal` aborts; it never rejects. */
export function sleep(
  clock: Clock,
  delayMs: number,
  signal?: AbortSignal,
  isBackground = false,
): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const done = () => {
      cancel()
      signal?.removeEventListener('abort', done)
      resolve()
    }
    const cancel = clock.after(delayMs, done, isBackground)
    signal?.addEventListener('abort', done, { once: true })
  })
}

/** What `answer` brings, or an error when that takes longer than `withinMs`. What comes later is not listened to. */
export function withDeadline<T>(
  clock: Clock,
  withinMs: number,
  answer: Promise<T>,
  late: () => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = clock.after(withinMs, () => reject(late()))
    void answer.then(resolve, reject).finally(cancel)
  })
}
