/** The sums of the benchmark: what it divides by what, and what it calls reached. */
import { describe, expect, it, test } from 'vitest'

type Row = {
  id: string
  title: string
  unit: string
  better: 'more' | 'less'
  series: string
  ratioTo?: string
  runs: number[]
  cpuRuns?: Record<string, number>[]
  besideRuns?: number[]
}
type Medians = { median: number; runs: number[] }
type Measured = Row & { median: number; ratio?: number; cpu?: Record<string, Medians>; beside?: Medians }
type Target = {
  id: string
  title: string
  figure: string
  of: string
  to?: string
  unit?: string
  isCpu?: boolean
  better: 'more' | 'less'
  must?: number
  aim?: number
}
type Verdict = Target & { is: number; mustReached?: boolean; aimReached?: boolean }
type Report = Record<string, unknown> & { rows: Measured[] }

const bench = async <T>(file: string): Promise<T> =>
  (await import(new URL(`../../bench/${file}`, import.meta.url).href)) as T

const { json, median, ratioOf, ratioText, ratioTitle, table, withMedians } = await bench<{
  json: (report: unknown) => string
  median: (numbers: number[]) => number
  ratioOf: (figure: Measured[], series: string[]) => number | null
  ratioText: (value: number) => string
  ratioTitle: (rows: Row[]) => string
  table: (report: Report) => string
  withMedians: (rows: Row[]) => Measured[]
}>('report.mjs')
const { verdictsOn, verdictText } = await bench<{
  verdictsOn: (targets: Target[], rows: Measured[]) => Verdict[]
  verdictText: (verdict: Partial<Verdict>) => string
}>('targets.mjs')
const { change, differences } = await bench<{
  change: (before?: number, now?: number) => string
  differences: (
    report: { rows: Measured[] },
    earlier: { rows: Measured[]; machine: typeof MACHINE },
  ) => string
}>('difference.mjs')
const { chart } = await bench<{ chart: (report: Report) => string }>('chart.mjs')
const { inFlight } = await bench<{
  inFlight: <T>(items: T[], width: number, work: (item: T) => Promise<void>) => Promise<void>
}>('load.mjs')
const { rateIn } = await bench<{ rateIn: (csv: string) => number }>('redis-raw.mjs')
const { growthChart } = await bench<{ growthChart: (report: Report) => string }>('growth-chart.mjs')
const suites = [
  await bench<{ figureIds: string[]; targets?: Target[] }>('growth.mjs'),
  await bench<{ figureIds: string[]; targets?: Target[] }>('cluster.mjs'),
  await bench<{ figureIds: string[]; targets?: Target[] }>('http.mjs'),
  await bench<{ figureIds: string[]; targets: Target[] }>('redis.mjs'),
  await bench<{ figureIds: string[]; targets?: Target[] }>('in-process.mjs'),
  await bench<{ figureIds: string[]; targets?: Target[] }>('embedded.mjs'),
  await bench<{ figureIds: string[]; targets?: Target[] }>('timeout-center.mjs'),
]
type Step = { figure: { id: string }; series: string }
const { planOf, stepsOf } = await bench<{
  stepsOf: (plan: Step[], nth: number) => Step[]
  planOf: (
    suite: string,
    figures: { id: string; rows: { id: string }[]; count: number }[],
    contenders: { series: string; figures?: string[] }[],
    wanted: string[],
  ) => Step[]
}>('queue-suite.mjs')

const bulk = { id: 'bulk', title: 'bulk schedule', unit: 'tasks/s', better: 'more' } as const
const p99 = { id: 'p99', title: 'lateness', unit: 'ms', better: 'less' } as const

const ROWS = withMedians([
  { ...bulk, series: 'Tocsin', ratioTo: 'BullMQ', runs: [300, 100, 240] },
  { ...bulk, series: 'BullMQ', runs: [20, 10, 30] },
  { ...bulk, series: 'raw', runs: [200, 200, 200] },
  { ...p99, series: 'Tocsin', ratioTo: 'BullMQ', runs: [5, 5, 5] },
  { ...p99, series: 'BullMQ', runs: [100, 80, 120] },
])
const MACHINE = {
  date: '2026-11-16T00:00:00.000Z',
  cpu: 'c',
  cores: 2,
  memoryGiB: 1,
  platform: 'p',
  node: '20',
}

test.each([
  [[3], 3],
  [[3, 1, 2], 2],
  [[10, 9, 1, 2], 5.5],
])('the median of %j is %d', (numbers, expected) => expect(median(numbers)).toBe(expected))

describe('a ratio', () => {
  it('is that of the row which asks for it, by medians, and is in the file', () => {
    expect(ROWS.map(({ ratio }) => ratio)).toEqual([12, undefined, undefined, 0.05, undefined])
    expect(ratioOf(ROWS.slice(0, 3), ['Tocsin', 'BullMQ', 'raw'])).toBe(12)
    expect(ratioTitle(ROWS)).toBe('Tocsin ÷ BullMQ')
    expect(json({ rows: ROWS })).toContain('"runs": [300, 100, 240]')
  })

  it('is the last series by the first where no row asks, and for rates alone', () => {
    const few = { series: 'few', runs: [200] }
    const many = { series: 'many', runs: [100] }
    const two = (shape: typeof bulk | typeof p99) =>
      withMedians([few, many].map((row) => ({ ...shape, ...row })))
    expect(ratioOf(two(bulk), ['few', 'many'])).toBe(0.5)
    expect(ratioOf(two(p99), ['few', 'many'])).toBeNull()
    expect(ratioOf(two(bulk).slice(0, 1), ['few'])).toBeNull()
    expect(ratioTitle(two(bulk))).toBe('ratio')
  })

  it('is none where there is nothing to divide by', () => {
    const [us, them] = withMedians([
      { ...p99, series: 'Tocsin', ratioTo: 'BullMQ', runs: [1] },
      { ...p99, series: 'BullMQ', runs: [0] },
    ]) as [Measured, Measured]
    expect(us).not.toHaveProperty('ratio')
    expect(ratioOf([us, them], ['Tocsin', 'BullMQ'])).toBeNull()
    expect(ratioOf([us], ['Tocsin'])).toBeNull()
  })

  test.each([
    [0.0123, '0.012'],
    [0.125, '0.13'],
    [1.2, '1.20'],
    [12.34, '12.3'],
    [0, '0'],
  ])('%d is written %s', (value, expected) => expect(ratioText(value)).toBe(expected))
})

describe('a verdict', () => {
  const target = {
    id: 'P1',
    title: 'bulk',
    figure: 'bulk',
    of: 'Tocsin',
    to: 'BullMQ',
    better: 'more',
  } as const
  const late = { id: 'P4', title: 'late', figure: 'p99', of: 'Tocsin', unit: 'ms', better: 'less' } as const

  test.each<[string, Target, Partial<Verdict>]>([
    [
      'both reached, the aim to the dot',
      { ...target, must: 8, aim: 12 },
      { mustReached: true, aimReached: true },
    ],
    ['must alone', { ...target, must: 8, aim: 12.1 }, { is: 12, mustReached: true, aimReached: false }],
    ['neither', { ...target, must: 13, aim: 14 }, { mustReached: false, aimReached: false }],
    ['to another series', { ...target, to: 'raw', must: 0.8, aim: 1.3 }, { is: 1.2, aimReached: false }],
    ['less is better', { ...late, to: 'BullMQ', must: 1 / 8, aim: 1 / 20 }, { is: 0.05, aimReached: true }],
    ['less, missed', { ...late, to: 'BullMQ', must: 0.04 }, { mustReached: false }],
    ['the figure itself', { ...late, aim: 5 }, { is: 5, aimReached: true }],
  ])('%s', (_, given, expected) =>
    expect(verdictsOn([given], ROWS)).toMatchObject([{ ...given, ...expected }]),
  )

  it('says nothing of a limit that is not set, nor of what was not measured', () => {
    expect(verdictsOn([{ ...late, aim: 5 }], ROWS)[0]).not.toHaveProperty('mustReached')
    expect(
      verdictsOn(
        [
          { ...target, to: 'nobody' },
          { ...target, figure: 'none' },
          { ...late, of: 'x' },
        ],
        ROWS,
      ),
    ).toEqual([])
  })

  test.each<[string, Partial<Verdict>]>([
    ['aim reached', { must: 1, mustReached: true, aim: 2, aimReached: true }],
    ['must reached', { must: 1, mustReached: true, aim: 2, aimReached: false }],
    ['must reached', { must: 1, mustReached: true }],
    ['MISSED', { must: 1, mustReached: false, aim: 2, aimReached: false }],
    ['aim missed', { aim: 2, aimReached: false }],
  ])('is "%s" of %j', (expected, verdict) => expect(verdictText(verdict)).toBe(expected))

  it('may be about the CPU time of all processes', () => {
    const cpuRuns = [
      { node: 10, Redis: 2 },
      { node: 12, Redis: 1 },
      { node: 30, Redis: 3 },
    ]
    const rows = withMedians([{ ...bulk, series: 'Tocsin', runs: [1, 2, 3], cpuRuns }])
    expect(rows[0]?.cpu).toMatchObject({ node: { median: 12 }, Redis: { median: 2 }, sum: { median: 13 } })
    const about = { ...late, figure: 'bulk', isCpu: true, unit: 'µs' }
    expect(verdictsOn([{ ...about, must: 13, aim: 12 }], rows)).toMatchObject([
      { is: 13, mustReached: true, aimReached: false },
    ])
    expect(verdictsOn([{ ...about, must: 13 }], ROWS)).toEqual([])
  })

  it('divides by what was measured in turns with it, where a row has that', () => {
    const rows = withMedians([
      { ...bulk, series: 'few', runs: [100, 100, 100, 20, 20, 20] },
      { ...bulk, series: 'many', runs: [18, 18, 18], besideRuns: [20, 20, 20] },
    ])
    expect(verdictsOn([{ ...target, of: 'many', to: 'few', must: 0.7, aim: 0.95 }], rows)).toMatchObject([
      { is: 0.9, mustReached: true, aimReached: false },
    ])
  })

  it('stands under the table, in words', () => {
    const targets = verdictsOn(
      [
        { ...target, must: 8, aim: 20 },
        { ...late, aim: 5 },
      ],
      ROWS,
    )
    const versions = { Redis: '7.0.15', BullMQ: '6.7.0' }
    const report = {
      title: 't',
      notes: [],
      runs: 3,
      tookS: 1,
      machine: MACHINE,
      versions,
      rows: ROWS,
      targets,
    }
    const lines = table(report).split('\n')
    expect(lines).toContainEqual('Redis 7.0.15, BullMQ 6.7.0')
    expect(lines.find((line) => line.startsWith('bulk schedule'))).toMatch(/240 +20 +200 +12\.0$/)
    expect(lines.find((line) => line.startsWith('P1'))).toMatch(
      /bulk, Tocsin ÷ BullMQ +≥ 8× +≥ 20× +12× +must reached$/,
    )
    expect(lines.find((line) => line.startsWith('P4'))).toMatch(/late, Tocsin +≤ 5 ms +5 ms +aim reached$/)
    const picture = chart(report)
    for (const words of ['Tocsin ÷ BullMQ', '>12.0<', '>0.05<', 'Redis 7.0.15'])
      expect(picture).toContain(words)
  })
})

test('a figure that was measured once is not called a median of all runs', () => {
  const rows = withMedians([
    { ...bulk, series: 'Tocsin', runs: [1, 2, 3] },
    { ...p99, series: 'Tocsin', runs: [5] },
  ])
  const report = { title: 't', notes: [], runs: 3, tookS: 1, machine: MACHINE, rows }
  const words = `median of 3 runs; '${p99.title}': one run`
  expect(table(report)).toContain(words)
  expect(chart(report)).toContain(`Bars: ${words}.`)
  expect(chart({ ...report, rows: ROWS })).toContain('Bars: median of 3 runs. Thin')
})

describe('what has changed since an earlier run', () => {
  test.each([
    [20, 15, '20 → 15 (−25 %)'],
    [1_000, 1_500, '1,000 → 1,500 (+50 %)'],
    [0, 3, '0 → 3'],
    [undefined, 3, ''],
    [3, undefined, ''],
  ])('from %s to %s', (before, now, expected) => expect(change(before, now)).toBe(expected))

  it('is told of rates and CPU times, for what both measured', () => {
    const run = (rate: number, micros: number): Measured[] =>
      withMedians([
        { ...bulk, series: 'Tocsin', runs: [rate], cpuRuns: [{ node: micros, Redis: 2 }] },
        { ...bulk, series: `only at ${rate}`, runs: [rate] },
      ])
    const text = differences({ rows: run(200, 8) }, { rows: run(100, 10), machine: MACHINE })
    expect(text).toMatch(
      /Tocsin +100 → 200 \(\+100 %\) tasks\/s +10 → 8 \(−20 %\) +2 → 2 \(\+0 %\) +12 → 10 \(−17 %\)/,
    )
    expect(text).not.toContain('only at')
  })
})

test('growth is drawn as lines, with the store alone beside it', () => {
  const sizes = ['100,000 pending', '10,000,000 pending']
  const rows = sizes.flatMap((series, i) => [
    {
      ...bulk,
      id: 'growth-redis-bulk',
      title: 'Redis: bulk',
      series,
      runs: [200 - 100 * i],
      cpuRuns: [{ node: 7 }],
    },
    {
      ...bulk,
      id: 'growth-redis-raw',
      rawOf: 'growth-redis-bulk',
      title: 'Redis: raw ZADD',
      series,
      runs: [400],
    },
  ])
  const picture = growthChart({ title: 't', machine: MACHINE, runs: 1, rows: withMedians(rows) })
  for (const words of ['>Redis<', '>bulk<', '>dashed: raw ZADD<', '>0.50<', '>100k<', '>10M<', '>7 µs<'])
    expect(picture).toContain(words)
  expect(picture).not.toContain('NaN')
})

test('every target is about a figure of its suite', () => {
  for (const { figureIds, targets = [] } of suites)
    for (const { figure } of targets) expect(figureIds).toContain(figure)
})

test('each run begins with another contender, and a figure that counts is measured once', () => {
  const [rate, once] = [
    { id: 'rate', rows: [] },
    { id: 'once', rows: [], isOnce: true },
  ]
  const plan = ['us', 'them', 'raw'].map((series) => ({ figure: rate, series }))
  const all = [...plan, { figure: once, series: 'us' }]
  const series = (nth: number) => stepsOf(all, nth).map((step) => step.series)
  expect([series(1), series(2), series(3), series(4)]).toEqual([
    ['us', 'them', 'raw', 'us'],
    ['them', 'raw', 'us'],
    ['raw', 'us', 'them'],
    ['us', 'them', 'raw'],
  ])
})

test('everybody has a turn at every figure that is wanted, but for those who take part in some alone', () => {
  const figure = (id: string, ...rows: string[]) => ({ id, rows: rows.map((row) => ({ id: row })), count: 1 })
  const figures = [figure('bulk', 'bulk', 'memory'), figure('burst', 'burst'), figure('late', 'p50', 'p99')]
  const contenders = [{ series: 'us' }, { series: 'them', figures: ['bulk', 'burst'] }]
  const turns = planOf('a suite', figures, contenders, ['memory', 'p99'])
  expect(turns.map((turn) => [turn.figure.id, turn.series])).toEqual([
    ['bulk', 'us'],
    ['bulk', 'them'],
    ['late', 'us'],
  ])
})

test('so many are in flight at a time, and each is worked on once', async () => {
  const done: number[] = []
  let now = 0
  let most = 0
  await inFlight([1, 2, 3, 4, 5], 2, async (item) => {
    most = Math.max(most, ++now)
    await Promise.resolve()
    now--
    done.push(item)
  })
  expect([most, done]).toEqual([2, [1, 2, 3, 4, 5]])
})

test('the rate is read from what redis-benchmark prints', () => {
  const head = '"test","rps","avg_latency_ms"'
  expect(rateIn(`${head}\n"ZADD due 1 ""x""","370370.34","0.1"\n`)).toBe(370_370.34)
  expect(() => rateIn(head)).toThrow(/printed no rate/)
})
