/**
 * `npm run bench`: runs the suites, prints a table for each, and keeps the figures and a chart in bench/results.
 *
 *   npm run bench -- --runs 1                  a quick look: one run instead of the median of 5
 *   npm run bench -- --pending 100000          only with this many tasks pending; may be given more than once
 *   npm run bench -- --count 20000             with so many tasks to each figure, in suites that compare queues
 *   npm run bench -- --only redis              only this suite, or this figure (its id is in the JSON)
 *   npm run bench -- --out some/folder         keeps the results there
 *
 *   npm run bench -- --quick                   Tocsin alone with few tasks, in two minutes: before and after a change
 *   npm run bench -- --quick --against a.json  also what has changed since a result that was kept with --out
 *
 * Without --out only a complete run is written to bench/results: a quick one must not overwrite it.
 *
 * A suite is a module that exports `name`, `title` and `run(options)`, which returns rows, one per figure and series
 * ('100,000 pending'; or the contender, if peers are compared):
 *
 *   { id, title, unit, better: 'more' | 'less', series, runs: [number, …] }
 *
 * A row may name the series that it is divided by, as `ratioTo`. A suite may also export `versions` (of the contenders,
 * by name) and `targets` (bench/targets.mjs).
 */
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { chart } from './chart.mjs'
import * as cluster from './cluster.mjs'
import { whyNoCpu } from './cpu.mjs'
import { differences } from './difference.mjs'
import * as embedded from './embedded.mjs'
import * as growth from './growth.mjs'
import * as http from './http.mjs'
import * as inProcess from './in-process.mjs'
import { machine } from './machine.mjs'
import * as quick from './quick.mjs'
import * as redis from './redis.mjs'
import { json, table, withMedians } from './report.mjs'
import { verdictsOn } from './targets.mjs'
import * as timeoutCenter from './timeout-center.mjs'

const SUITES = [inProcess, redis, embedded, timeoutCenter, cluster, http, growth]
const RUNS = '5'
const QUICK_RUNS = '1'

const { values } = parse({
  runs: { type: 'string' },
  pending: { type: 'string', multiple: true },
  count: { type: 'string' },
  only: { type: 'string', multiple: true },
  out: { type: 'string' },
  quick: { type: 'boolean' },
  against: { type: 'string' },
})

function parse(options) {
  try {
    return parseArgs({ options })
  } catch (error) {
    return refuse(
      `${error.message}. Options: ${Object.keys(options)
        .map((name) => `--${name}`)
        .join(' ')}`,
    )
  }
}

const narrowed = [values.runs, values.pending, values.count, values.only, values.quick]
const isWhole = narrowed.every((value) => value === undefined)
const out = values.out ?? (isWhole ? fileURLToPath(new URL('results', import.meta.url)) : null)
const runs = wholeNumber(values.runs ?? (values.quick ? QUICK_RUNS : RUNS), '--runs')
const pending = values.pending?.map((value) => wholeNumber(value, '--pending'))
const count = values.count === undefined ? undefined : wholeNumber(values.count, '--count')
const earlier = values.against === undefined ? null : await readReport(values.against)
const offered = values.quick ? [quick] : SUITES
const suites = offered.filter(({ name, figureIds }) => wants(name) || figureIds.some(wants))
if (suites.length === 0) {
  const known = offered.flatMap(({ name, figureIds }) => [name, ...figureIds])
  refuse(`--only ${values.only.join(' ')}: there is no such suite or figure. There is: ${known.join(', ')}`)
}

for (const suite of suites) {
  const figureIds = wants(suite.name) ? suite.figureIds : suite.figureIds.filter(wants)
  const where = await machine()
  const startedMs = performance.now()
  const rows = withMedians(await suite.run({ runs, pending, count, figureIds, progress }))
  const tookS = Math.round((performance.now() - startedMs) / 1000)
  progress('')
  const report = {
    suite: suite.name,
    title: suite.title,
    notes: suite.notes,
    runs,
    tookS,
    machine: where,
    ...(suite.versions === undefined ? {} : { versions: suite.versions }),
    ...(whyNoCpu() === undefined ? {} : { cpuAbsent: whyNoCpu() }),
    rows,
    ...(suite.targets === undefined ? {} : { targets: verdictsOn(suite.targets, rows) }),
  }
  console.log(table(report))
  if (earlier?.suite === suite.name) console.log(differences(report, earlier))
  if (out === null) console.log('Not kept, because it is not a whole run; --out <folder> keeps it.')
  else await keep(report, out, suite.chart ?? chart)
}

async function keep(given, folder, draw) {
  const file = join(folder, `${given.machine.date.slice(0, 10)}-${given.suite}`)
  await mkdir(folder, { recursive: true })
  await writeFile(`${file}.json`, json(given))
  await writeFile(`${file}.svg`, draw(given))
  console.log(`Kept in ${relative('.', file)}.json and .svg`)
}

async function readReport(file) {
  try {
    return JSON.parse(await readFile(file, 'utf8'))
  } catch (error) {
    return refuse(`--against ${file}: ${error.message}`)
  }
}

function wants(name) {
  return values.only === undefined || values.only.includes(name)
}

/** Prints progress to standard error, so that the tables can be redirected; in one line if that is a terminal. */
function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K${text}`)
  else if (text !== '') process.stderr.write(`${text}\n`)
}

function wholeNumber(value, option) {
  const number = Number(value)
  if (!Number.isInteger(number) || number < 1) refuse(`${option} ${value}: expected a whole number from 1`)
  return number
}

function refuse(message) {
  console.error(message)
  process.exit(2)
}
