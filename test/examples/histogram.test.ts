import { expect, test } from 'vitest'

type Paint = Record<'strong' | 'quiet' | 'accent' | 'good' | 'bad', (text: string) => string>
type Bucket = { label: string; count: number }
type Ending = Record<'expected' | 'closed' | 'twice' | 'early' | 'closedThoughPaid', number>
type Drawing = {
  Lateness: new () => {
    count: number
    early: number
    maxMs: number
    add: (latenessMs: number) => void
    percentileMs: (share: number) => number
    buckets: () => Bucket[]
  }
  paints: (coloured: boolean) => Paint
  bar: (value: number, most: number, width: number) => string
  histogram: (buckets: Bucket[], width: number, paint: Paint) => string[]
  timeline: (counts: number[], now: number, rows: number, paint: Paint) => string[]
  problemsOf: (ending: Ending) => string[]
}

const { Lateness, paints, bar, histogram, timeline, problemsOf } = (await import(
  new URL('../../examples/histogram.mjs', import.meta.url).href
)) as Drawing

const plain = paints(false)

function latenessOf(...all: number[]) {
  const lateness = new Lateness()
  for (const ms of all) lateness.add(ms)
  return lateness
}

test('each lateness falls into its bucket, at both edges', () => {
  const lateness = latenessOf(0, 0.9, 1, 2, 3, 4, 5, 9, 10, 19, 20, 49, 50, 9_999, 10_000, 60_000)
  expect(lateness.buckets().map(({ label, count }) => [label, count])).toEqual([
    ['0 ms', 2],
    ['1 ms', 1],
    ['2 ms', 1],
    ['3–4 ms', 2],
    ['5–9 ms', 2],
    ['10–19 ms', 2],
    ['20–49 ms', 2],
    ['50+ ms', 4],
  ])
  expect(lateness.count).toBe(16)
  expect(lateness.maxMs).toBe(60_000)
})

test('a percentile is the smallest lateness that so many did not exceed', () => {
  const hundred = latenessOf(...Array.from({ length: 100 }, (_, i) => i))
  expect(hundred.percentileMs(0.5)).toBe(49)
  expect(hundred.percentileMs(0.99)).toBe(98)
  expect(hundred.percentileMs(1)).toBe(99)
  expect(latenessOf(7).percentileMs(0.5)).toBe(7)
  expect(latenessOf().percentileMs(0.99)).toBe(0)
  expect(latenessOf(60_000).percentileMs(0.5)).toBe(60_000)
})

test('early is counted, and never as less than no lateness', () => {
  const lateness = latenessOf(-1, -0.5, 0, 3)
  expect(lateness.early).toBe(2)
  expect(lateness.maxMs).toBe(3)
  expect(lateness.buckets()[0]).toEqual({ label: '0 ms', count: 3 })
})

test('a bar is as long as its share, and never invisible', () => {
  expect(bar(10, 10, 4)).toBe('████')
  expect(bar(5, 10, 4)).toBe('██')
  expect(bar(1, 10, 5)).toBe('▌')
  expect(bar(1, 1_000_000, 5)).toBe('▏')
  expect(bar(0, 10, 5)).toBe('')
  expect(bar(0, 0, 5)).toBe('')
})

test('a histogram has a row per bucket, all as wide as asked', () => {
  const buckets = [
    { label: '0 ms', count: 1_200 },
    { label: '10–19 ms', count: 600 },
    { label: '50+ ms', count: 0 },
  ]
  expect(histogram(buckets, 30, plain)).toEqual([
    '    0 ms  ██████████████ 1,200',
    '10–19 ms  ███████          600',
    '  50+ ms                     0',
  ])
})

test('a timeline stands on its axis, which shows where we are', () => {
  expect(timeline([0, 1, 16, 8], 0.5, 2, plain)).toEqual(['  █ ', ' ▁██', '━━●─'])
  expect(timeline([4, 4], -1, 1, plain).at(-1)).toBe('●─')
  expect(timeline([4, 4], 2, 1, plain).at(-1)).toBe('━━')
  expect(timeline([0, 0], 0, 1, plain)).toEqual(['  ', '●─'])
})

test('colour is added around text, and only when asked for', () => {
  expect(paints(true).bad('x')).toBe('\x1b[1;31mx\x1b[0m')
  expect(paints(true).bad('')).toBe('')
  expect(Object.values(plain).map((paint) => paint('x'))).toEqual(['x', 'x', 'x', 'x', 'x'])
})

test('whatever is wrong at the end is said', () => {
  const well = { expected: 19_500, closed: 19_500, twice: 0, early: 0, closedThoughPaid: 0 }
  expect(problemsOf(well)).toEqual([])
  expect(problemsOf({ ...well, early: 1 })).toEqual(['1 fired early'])
  expect(problemsOf({ ...well, closed: 18_000 })).toEqual(['1,500 of 19,500 never fired'])
  expect(problemsOf({ ...well, twice: 2, closedThoughPaid: 3 })).toEqual([
    '2 fired twice',
    '3 fired although they were cancelled',
  ])
})
