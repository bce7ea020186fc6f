/**
 * Writes the performance tables of README.md, and the targets in bench/README.md, from the newest result of each suite in
 * bench/results: `npm run docs`. A test holds them equal, so that no figure in a document is typed by hand.
 *
 * A result may have `remarks`: sentences that were added to the file afterwards, about circumstances of the run.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import * as cluster from '../bench/cluster.mjs'
import * as embedded from '../bench/embedded.mjs'
import * as growth from '../bench/growth.mjs'
import * as http from '../bench/http.mjs'
import * as redis from '../bench/redis.mjs'
import { figureText } from '../bench/report.mjs'
import { amountText, limitText, targetText, verdictsOn, verdictText } from '../bench/targets.mjs'
import * as timeoutCenter from '../bench/timeout-center.mjs'

const root = new URL('../', import.meta.url)
const RESULTS = new URL('bench/results/', root)

const BENCH = /(<!-- bench -->\n)[\s\S]*?(<!-- \/bench -->)/
const TARGETS = /(<!-- targets -->\n)[\s\S]*?(<!-- \/targets -->)/

/** Suites with targets, in which a row of the table may be. */
const SUITES = [redis, embedded, timeoutCenter, growth, cluster, http]

const WIDTH = 130

/** Older results do not say how many tasks they measured. */
const COUNT = 200_000

const bulk = (suite) => [
  { title: 'schedule in bulk, tasks/s', of: `${suite}-bulk` },
  { title: '– its CPU time per task, all processes, µs', cpuOf: `${suite}-bulk` },
]
const single = (suite) => ({ title: 'single schedule calls, concurrent, /s', of: `${suite}-single` })
const cancel = (suite) => ({ title: 'cancel by key, concurrent, /s', of: `${suite}-cancel` })
const burst = (suite) => [
  {
    title: ({ count = COUNT }) => `${number(count)} due at one instant, drained and settled, /s`,
    of: `${suite}-burst`,
  },
  { title: '– its CPU time per task, all processes, µs', cpuOf: `${suite}-burst` },
]
const lateness = (prefix) => ({
  title: 'lateness at 1,000 tasks/s, p50 / p99',
  of: `${prefix}lateness-p50`,
  and: `${prefix}lateness-p99`,
})

/**
 * The section of a suite: what stands above its table; the titles of series, where they are not their names; and the rows,
 * each of one figure, of two (`and`), or of a CPU time. Rows and columns without a figure are left out.
 */
const SECTIONS = [
  {
    suite: 'in-process',
    intro: () =>
      'In the memory of one process (`memory:`), with 100-byte payloads, validation and outcomes on:',
    rows: [
      { title: 'schedule in bulk, tasks/s', of: 'bulk-stream' },
      { title: '`schedule()` calls, concurrent, /s', of: 'single' },
      { title: '`cancel()` by key, concurrent, /s', of: 'cancel' },
      { title: `${number(COUNT)} due at one instant, drained and settled, /s`, of: 'burst' },
      { title: '– its CPU time per task, µs', cpuOf: 'burst' },
      { title: 'the same in batches, /s', of: 'burst-batch' },
      lateness(''),
    ],
  },
  {
    suite: 'redis',
    intro: ({ Redis }) =>
      `On Redis ${Redis} without persistence, against peers at the best settings we found:`,
    without: ['raw Redis'],
    rows: [
      ...bulk('redis'),
      single('redis'),
      cancel('redis'),
      ...burst('redis'),
      lateness('redis-'),
      { title: 'bytes of Redis per pending task', of: 'redis-memory' },
    ],
  },
  {
    suite: 'embedded',
    intro: () =>
      'The embedded default is durable: each call is on disk before it resolves. BullMQ runs on a Redis without persistence, bunqueue in its embedded durable mode:',
    rows: [
      ...bulk('embedded'),
      single('embedded'),
      cancel('embedded'),
      ...burst('embedded'),
      lateness('embedded-'),
    ],
  },
  {
    suite: 'http',
    intro: () =>
      'Bulk over HTTP, one NDJSON POST from a client process, beside the library on the same store:',
    rows: [
      { title: 'schedule in bulk on Redis, tasks/s', of: 'http-redis-bulk' },
      { title: '– its CPU time per task, all processes, µs', cpuOf: 'http-redis-bulk' },
      { title: 'schedule in bulk in the embedded file, tasks/s', of: 'http-embedded-bulk' },
      { title: '– its CPU time per task, all processes, µs', cpuOf: 'http-embedded-bulk' },
    ],
  },
  {
    suite: 'timeout-center',
    intro: ({ PostgreSQL }) =>
      `PostgreSQL ${PostgreSQL} with default settings, with and without Redis, against queues on PostgreSQL and a cron job that scans a table. graphile-worker runs with a local queue of 5,000 jobs and deletes finished jobs; Tocsin keeps their history, but for \`retention: 0\`:`,
    columns: {
      'Tocsin without Redis': 'without Redis',
      'Tocsin, retention 0': '`retention: 0`',
    },
    rows: [
      ...bulk('timeout-center'),
      ...burst('timeout-center'),
      lateness('timeout-center-'),
      { title: 'an emptied Redis refilled, tasks/s', of: 'timeout-center-rebuild' },
    ],
  },
  {
    suite: 'growth',
    intro: () =>
      'With up to ten million other tasks pending; with PostgreSQL, Redis is the timetable. `raw` is the same store without Tocsin, filled with as many tasks under the same indexes:',
    rows: growth.figureIds
      .filter((id) => id.split('-').length > 2)
      .map((id) => ({ title: ({ title }) => `${title}, /s`, of: id })),
  },
]

/** The newest result of each suite, by name: file names begin with the date. */
export function newestResults() {
  const results = new Map()
  for (const file of readdirSync(RESULTS)
    .filter((name) => name.endsWith('.json'))
    .toSorted()) {
    const report = JSON.parse(readFileSync(new URL(file, RESULTS), 'utf8'))
    results.set(report.suite, { ...report, file: file.slice(0, -'.json'.length) })
  }
  return results
}

export function withBenchTables(readme, results = newestResults()) {
  const sections = SECTIONS.filter(({ suite }) => results.has(suite)).map((section) =>
    sectionText(section, results.get(section.suite)),
  )
  const end =
    '`npm run bench` measures on your machine. [bench/](bench/README.md) explains each figure and its limits.'
  return readme.replace(BENCH, (_, before, after) => `${before}${[...sections, end].join('\n\n')}\n${after}`)
}

function sectionText({ intro, ...section }, report) {
  const { versions = {}, remarks = [], file } = report
  const path = `bench/results/${file}`
  return [
    wrapped(intro(versions)),
    tableText(section, report),
    wrapped(`${[runText(report), ...remarks].join(' ')} [All numbers](${path}.json).`),
    `![Chart of these figures](${path}.svg)`,
  ].join('\n\n')
}

/** 'Two cores of …, Node.js 20, medians of 5 alternating runs, 2026-11-16.' */
function runText({ machine, runs }) {
  const { cores, cpu, node, date } = machine
  const times = runs === 1 ? 'one run' : `medians of ${runs} alternating runs`
  return `${cores} ${cores === 1 ? 'core' : 'cores'} of ${cpu}, Node.js ${node.split('.')[0]}, ${times}, ${date.slice(0, 10)}.`
}

function tableText({ rows, columns = {}, without = [] }, report) {
  const at = (id, series) => report.rows.find((row) => row.id === id && row.series === series)
  const all = [...new Set(report.rows.map(({ series }) => series))].filter((name) => !without.includes(name))
  // Ours first, then the columns that have a title here, then the others.
  const titled = [all[0], ...Object.keys(columns)]
  const order = (name) => (titled.includes(name) ? titled.indexOf(name) : titled.length)
  const lines = rows.map((row) => ({
    row,
    cells: all.map((series) => cellText(row, (id) => at(id, series))),
  }))
  const shown = all
    .map((name, i) => ({ name, i }))
    .filter(({ i }) => lines.some(({ cells }) => cells[i] !== ''))
    .toSorted((a, b) => order(a.name) - order(b.name))
  const version = (name) => report.versions?.[name]?.split('.').slice(0, 2).join('.')
  const head = shown.map(({ name }) => [columns[name] ?? name, version(name)].filter(Boolean).join(' '))
  const body = lines
    .filter(({ cells }) => cells.some((cell) => cell !== ''))
    .map(({ row, cells }) => [titleText(row, report), ...shown.map(({ i }) => cells[i])])
  return markdownTable([['', ...head], ...body])
}

function titleText({ title, of }, { rows }) {
  return typeof title === 'string' ? title : title(rows.find(({ id }) => id === of))
}

function cellText({ of, and, cpuOf }, at) {
  if (cpuOf !== undefined) return at(cpuOf)?.cpu === undefined ? '' : figureText(at(cpuOf).cpu.sum.median)
  const values = [of, and].filter((id) => id !== undefined).map((id) => at(id)?.median)
  if (values.includes(undefined)) return ''
  return and === undefined ? figureText(values[0]) : `${values.map(figureText).join(' / ')} ${at(of).unit}`
}

/** The targets of all suites, and what the newest results say of them. */
export function withTargets(readme, results = newestResults()) {
  return readme.replace(TARGETS, (_, before, after) => `${before}${targetTable(results)}\n${after}`)
}

export function targetTable(results, suites = SUITES) {
  const lines = suites.flatMap(({ name, targets }) =>
    targets.map((target) => ({ target, line: targetLine(name, target, results.get(name)) })),
  )
  const nth = ({ target }) => Number(target.id.slice(1))
  return markdownTable([
    ['id', 'what', 'must', 'aim', 'reached', 'verdict', 'suite'],
    ...lines.toSorted((a, b) => nth(a) - nth(b)).map(({ line }) => line),
  ])
}

function targetLine(suite, target, result) {
  const [verdict] = result === undefined ? [] : verdictsOn([target], result.rows)
  const limits = [limitText(target, target.must), limitText(target, target.aim)]
  const what = [target.id, targetText(target), ...limits]
  if (verdict === undefined) return [...what, '', 'not measured yet', suite]
  const text = verdictText(verdict)
  const words = text === 'MISSED' ? '**missed**' : text
  return [...what, amountText(target, verdict.is), words, `[${suite}](results/${result.file}.json)`]
}

function markdownTable([head, ...body]) {
  const line = (cells) => `|${cells.map((cell) => (cell === '' ? ' ' : ` ${cell} `)).join('|')}|`
  return [line(head), `|${head.map(() => '---').join('|')}|`, ...body.map(line)].join('\n')
}

/** In lines of at most `WIDTH` characters. */
function wrapped(text) {
  const lines = ['']
  for (const word of text.split(' ')) {
    const longer = `${lines.at(-1)} ${word}`.trim()
    if (longer.length <= WIDTH) lines[lines.length - 1] = longer
    else lines.push(word)
  }
  return lines.join('\n')
}

function number(value) {
  return value.toLocaleString('en-US')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const [file, update] of [
    ['README.md', withBenchTables],
    ['bench/README.md', withTargets],
  ]) {
    const path = new URL(file, root)
    writeFileSync(path, update(readFileSync(path, 'utf8')))
  }
}
