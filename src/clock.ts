/**
 * The only access to time. No other file of src/ reads a clock or sets a timer (a lint rule checks it), so that the whole
 * engine runs on a virtual clock in tests.
 */
export interface Clock {
  /** Wall clock, ms since 1970. It may step forward and back: use it to decide what is due, never to measure a wait. */
  now(): number
  /** Monotonic clock in ms, with an arbitrary zero. Leases, deadlines and sleeps are measured by it. */
  monotonicNow(): number
  /**
   * Calls `ring` once, `delayMs` from now at the earliest. Returns a function that cancels the timer. A background timer
   * does not keep the process alive.
   */
  after(delayMs: number, ring: () => void, isBackground?: boolean): () => void
  /** Lets the event loop serve timers and I/O before going on. */
  turn(): Promise<void>
}

/** Node fires a timer of more than 2^31 - 1 ms after 1 ms, so a longer wait takes several timers. */
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
    // Node's timers have whole milliseconds and fire up to 1 ms early: then sleep for the rest.
    const wake = () => (performance.now() < dueMs ? sleep() : ring())
    sleep()
    return () => clearTimeout(timer)
  },
  turn: () => new Promise((resolve) => setImmediate(resolve)),
}

/** Resolves after `delayMs`, or as soon as `signal` aborts. Never rejects. */
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

/** Settles as `answer` does, or rejects with `late()` after `withinMs`. A later answer is ignored. */
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
