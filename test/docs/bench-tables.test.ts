import { describe, expect, it } from 'vitest'
// @ts-expect-error -- a script without types
import * as script from '../../scripts/bench-tables.mjs'
import { read } from './markdown.ts'

type Result = { suite: string; file: string } & Record<string, unknown>
type Results = Map<string, Result>
type Target = Record<string, unknown>

const { newestResults, targetTable, withBenchTables, withTargets } = script as {
  newestResults: () => Results
  targetTable: (results: Results, suites?: { name: string; targets: Target[] }[]) => string
  withBenchTables: (readme: string, results?: Results) => string
  withTargets: (readme: string, results?: Results) => string
}

const EMPTY = '<!-- bench -->\n<!-- /bench -->'

const tasks = { unit: 'tasks/s', better: 'more' }
const redis: Result = {
  suite: 'redis',
  file: '2026-12-01-redis',
  runs: 5,
  machine: { date: '2026-12-01T10:00:00.000Z', cpu: 'an EPYC', cores: 2, node: '20.20.2' },
  versions: { Redis: '7.0.15', BullMQ: '6.7.0' },
  remarks: ['The machine was busy.'],
  rows: [
    {
      ...tasks,
      id: 'redis-bulk',
      series: 'Tocsin',
      median: 192_345,
      cpu: { node: { median: 4 }, sum: { median: 5.25 } },
    },
    { ...tasks, id: 'redis-bulk', series: 'BullMQ', median: 21_500 },
    { ...tasks, id: 'redis-bulk', series: 'raw Redis', median: 300_000 },
    { ...tasks, id: 'redis-burst', series: 'Tocsin', median: 71_234, count: 50_000 },
    { id: 'redis-lateness-p50', series: 'BullMQ', unit: 'ms', median: 39 },
    { id: 'redis-lateness-p99', series: 'BullMQ', unit: 'ms', median: 93 },
  ],
}
const results: Results = new Map([['redis', redis]])

it('the README prints what bench/results says: if not, `npm run docs`', () => {
  const readme = read('README.md')
  expect(readme).toBe(withBenchTables(readme))
  expect(readme).toContain('| schedule in bulk, tasks/s |')
})

it('bench/README.md prints every target, with what the results say: if not, `npm run docs`', () => {
  const readme = read('bench/README.md')
  expect(readme).toBe(withTargets(readme))
  for (let n = 1; n <= 18; n++) expect(readme).toContain(`\n| P${n} | `)
})

it('the newest result of a suite counts', () => {
  for (const { suite, file } of newestResults().values())
    expect(file).toMatch(new RegExp(`^\\d{4}-\\d\\d-\\d\\d-${suite}$`))
})

describe('a table', () => {
  it('has rows and columns for what was measured alone, with versions, CPU times and remarks', () => {
    expect(withBenchTables(EMPTY, results).split('\n')).toEqual([
      '<!-- bench -->',
      'On Redis 7.0.15 without persistence, against peers at the best settings we found:',
      '',
      '| | Tocsin | BullMQ 6.7 |',
      '|---|---|---|',
      '| schedule in bulk, tasks/s | 192,000 | 21,500 |',
      '| – its CPU time per task, all processes, µs | 5.25 | |',
      '| 50,000 due at one instant, drained and settled, /s | 71,200 | |',
      '| lateness at 1,000 tasks/s, p50 / p99 | | 39 / 93 ms |',
      '',
      '2 cores of an EPYC, Node.js 20, medians of 5 alternating runs, 2026-12-01. The machine was busy. [All',
      'numbers](bench/results/2026-12-01-redis.json).',
      '',
      '![Chart of these figures](bench/results/2026-12-01-redis.svg)',
      '',
      '`npm run bench` measures on your machine. [bench/](bench/README.md) explains each figure and its limits.',
      '<!-- /bench -->',
    ])
  })

  it('of targets is in the order of their numbers, and tells what was missed and what is not measured', () => {
    const target = { better: 'more', figure: 'redis-bulk', of: 'Tocsin' }
    const suites = [
      { name: 'other', targets: [{ ...target, id: 'P10', title: 'other', must: 1 }] },
      {
        name: 'redis',
        targets: [
          { ...target, id: 'P9', title: 'bulk', to: 'BullMQ', must: 8, aim: 12 },
          { ...target, id: 'P2', title: 'raw', to: 'raw Redis', must: 0.8, aim: 1 },
          { ...target, id: 'P2', title: 'CPU', better: 'less', isCpu: true, unit: 'µs', must: 6, aim: 5.25 },
        ],
      },
    ]
    const link = '[redis](results/2026-12-01-redis.json)'
    expect(targetTable(results, suites).split('\n').slice(2)).toEqual([
      `| P2 | raw, Tocsin ÷ raw Redis | ≥ 0.8× | ≥ 1× | 0.641× | **missed** | ${link} |`,
      `| P2 | CPU, Tocsin | ≤ 6 µs | ≤ 5.25 µs | 5.25 µs | aim reached | ${link} |`,
      `| P9 | bulk, Tocsin ÷ BullMQ | ≥ 8× | ≥ 12× | 8.95× | must reached | ${link} |`,
      '| P10 | other, Tocsin | ≥ 1 | | | not measured yet | other |',
    ])
  })
})
