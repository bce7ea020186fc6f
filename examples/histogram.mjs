/** What the demonstration counts and draws. Nothing here knows a clock or a terminal: numbers in, lines of text out. */

const BUCKETS = [
  { label: '0 ms', fromMs: 0 },
  { label: '1 ms', fromMs: 1 },
  { label: '2 ms', fromMs: 2 },
  { label: '3–4 ms', fromMs: 3 },
  { label: '5–9 ms', fromMs: 5 },
  { label: '10–19 ms', fromMs: 10 },
  { label: '20–49 ms', fromMs: 20 },
  { label: '50+ ms', fromMs: 50 },
]

/** Later than this is counted as this; only the maximum is exact beyond it. */
const COUNTED_MS_MAX = 10_000

const EIGHTHS_WIDE = ['', '▏', '▎', '▍', '▌', '▋', '▊', '▉']
const EIGHTHS_HIGH = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█']

/** How late things were. A counter per millisecond, so that asking for a percentile sorts nothing. */
export class Lateness {
  #counters = new Uint32Array(COUNTED_MS_MAX + 1)
  count = 0
  /** Below 0 ms. A timer may be late; early is a bug. */
  early = 0
  maxMs = 0

  add(latenessMs) {
    const ms = Math.max(0, Math.floor(latenessMs))
    this.#counters[Math.min(ms, COUNTED_MS_MAX)]++
    this.count++
    if (latenessMs < 0) this.early++
    if (ms > this.maxMs) this.maxMs = ms
  }

  /** The smallest lateness that this share of all (0.99 for p99) did not exceed. */
  percentileMs(share) {
    const wanted = Math.max(1, Math.ceil(this.count * share))
    let seen = 0
    for (let ms = 0; ms <= COUNTED_MS_MAX; ms++) {
      seen += this.#counters[ms]
      if (seen >= wanted) return ms === COUNTED_MS_MAX ? this.maxMs : ms
    }
    return 0
  }

  buckets() {
    return BUCKETS.map(({ label, fromMs }, i) => {
      const endMs = BUCKETS[i + 1]?.fromMs ?? COUNTED_MS_MAX + 1
      return { label, count: this.#counters.subarray(fromMs, endMs).reduce((sum, one) => sum + one, 0) }
    })
  }
}

/** Colours as functions of text; without colour they change nothing. */
export function paints(coloured) {
  const paint = (code) => (text) => (coloured && text !== '' ? `\x1b[${code}m${text}\x1b[0m` : text)
  return {
    strong: paint('1'),
    quiet: paint('2'),
    // Bronze, as bells are: readable on light and on dark.
    accent: paint('38;5;172'),
    good: paint('32'),
    bad: paint('1;31'),
  }
}

export const figure = (number) => number.toLocaleString('en-US')

/** `width` columns for the whole; whatever is not nothing is at least a sliver. */
export function bar(value, most, width) {
  if (value <= 0 || most <= 0) return ''
  const eighths = Math.max(1, Math.round((Math.min(value, most) / most) * width * 8))
  return '█'.repeat(Math.floor(eighths / 8)) + EIGHTHS_WIDE[eighths % 8]
}

/** A row per bucket: its name, its bar, its number. */
export function histogram(buckets, width, paint) {
  const labelWidth = Math.max(...buckets.map(({ label }) => label.length))
  const numberWidth = Math.max(...buckets.map(({ count }) => figure(count).length))
  const barWidth = width - labelWidth - numberWidth - 3
  const most = Math.max(...buckets.map(({ count }) => count))
  return buckets.map(({ label, count }) => {
    const drawn = bar(count, most, barWidth)
    const number = figure(count).padStart(numberWidth)
    const gap = ' '.repeat(barWidth - drawn.length + 1)
    return `${paint.quiet(label.padStart(labelWidth))}  ${paint.accent(drawn)}${gap}${count === 0 ? paint.quiet(number) : number}`
  })
}

/** Columns side by side, `rows` lines high, with what lies before `now` (0 to 1 of the width) in colour. */
export function timeline(counts, now, rows, paint) {
  const most = Math.max(1, ...counts)
  const passed = Math.max(0, Math.min(counts.length, Math.floor(now * counts.length)))
  const heights = counts.map((count) =>
    count === 0 ? 0 : Math.max(1, Math.round((count / most) * rows * 8)),
  )
  const lines = Array.from({ length: rows }, (_, row) => {
    const below = (rows - 1 - row) * 8
    const line = heights.map((height) => EIGHTHS_HIGH[Math.max(0, Math.min(8, height - below))])
    return paint.accent(line.slice(0, passed).join('')) + paint.quiet(line.slice(passed).join(''))
  })
  // Without colour only this line tells the past from the future.
  const axis = '━'.repeat(passed) + (passed < counts.length ? '●' : '')
  return [...lines, paint.accent(axis) + paint.quiet('─'.repeat(counts.length - axis.length))]
}

/** What is wrong with how it ended, a sentence each; nothing, if all is well. */
export function problemsOf({ expected, closed, twice, early, closedThoughPaid }) {
  const problems = []
  if (early > 0) problems.push(`${figure(early)} fired early`)
  if (closed < expected) problems.push(`${figure(expected - closed)} of ${figure(expected)} never fired`)
  if (twice > 0) problems.push(`${figure(twice)} fired twice`)
  if (closedThoughPaid > 0) problems.push(`${figure(closedThoughPaid)} fired although they were cancelled`)
  return problems
}
