const DAY_MS = 24 * 3_600_000
const startMs = Date.now() + DAY_MS
/** Ten million tasks take 30 days. */
const STEP_MS = (30 * DAY_MS) / 10_000_000

/** When the nth pending task is due: one after another, from tomorrow. */
export const dueMsOf = (n) => Math.floor(startMs + n * STEP_MS)

/** When the nth task more is due: anywhere among so many pending ones, in no order, the same in each run. */
export const dueMsAmong = (n, pending) =>
  Math.floor(startMs + ((Math.imul(n + 1, 2_246_822_519) >>> 0) / 2 ** 32) * pending * STEP_MS)
