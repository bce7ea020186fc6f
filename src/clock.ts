/**
 * The only access to time. No other file of src/ reads a clock or sets a timer; a lint rule checks this. So tests can
 * run the whole engine on a virtual clock.
 */
export interface Clock {
  /** The wall clock, in ms since 1970. It may step forward and back. Use it for due times, never to measure a wait. */
  now(): number
  /** The monotonic clock, in ms since an arbitrary moment. It measures leases, deadlines and sleeps. */
  monotonicNow(): number
  /**
   * Calls `ring` once, not earlier than `delayMs` from now. Returns a function that cancels the timer. With
   * `isBackground`, the timer does not keep the process alive.
   */
  after(delayMs: number, ring: () => void, isBackground?: boolean): () => void
  /** Resolves after the event loop has served timers and I/O. */
  turn(): Promise<void>
}

/** The longest delay of setTimeout: Node reduces a longer delay to 1 ms. So a longer wait needs several timers. */
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
    // Node's timers count whole milliseconds and may fire up to 1 ms early. Then sleep for the remaining time.
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

/** Resolves at a time of the monotonic clock; at once if the time has passed. */
export async function sleepUntil(clock: Clock, atMs: number): Promise<void> {
  const leftMs = atMs - clock.monotonicNow()
  if (leftMs > 0) await sleep(clock, leftMs)
}

/**
 * Calls `expire` once `withinMs` has passed and the event loop has served the I/O that waited. Returns a function that
 * cancels the timeout. While the event loop is blocked, neither timers nor answers are served, and afterwards timers
 * come first. So a plain timer would report an answer as missing that has already arrived.
 */
export function timeout(clock: Clock, withinMs: number, expire: () => void): () => void {
  let isCancelled = false
  const cancel = clock.after(withinMs, () => {
    void clock.turn().then(() => {
      if (!isCancelled) expire()
    })
  })
  return () => {
    isCancelled = true
    cancel()
  }
}

/** Settles like `answer`, but rejects with `late()` if `answer` takes longer than `withinMs`. Then ignores `answer`. */
export function withDeadline<T>(
  clock: Clock,
  withinMs: number,
  answer: Promise<T>,
  late: () => Error,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const cancel = timeout(clock, withinMs, () => reject(late()))
    void answer.then(resolve, reject).finally(cancel)
  })
}
