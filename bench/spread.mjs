const DAY_MS = 24 * 3_600_000
const SPAN_MS = 30 * DAY_MS
const startMs = Date.now() + DAY_MS

/** When the nth task is due: spread over 30 days from tomorrow, in no order, the same in each run. */
export const dueMsOf = (n) =>
  startMs + Math.floor(((Math.imul(n + 1, 2_246_822_519) >>> 0) / 2 ** 32) * SPAN_MS)
