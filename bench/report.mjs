/** Formats the rows of figures as a table. */
import { describeMachine } from './machine.mjs'
import { amountText, limitText, ratio, rounded, targetText, verdictText } from './targets.mjs'

export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

export function withMedians(rows) {
  const all = rows.map(({ runs, cpuRuns = [], besideRuns, tookS, ...row }) => ({
    ...row,
    median: rounded(median(runs)),
    runs: runs.map(rounded),
    ...(besideRuns === undefined ? {} : { beside: medianOf(besideRuns) }),
    ...(cpuRuns.length === 0 ? {} : { cpu: cpuOf(cpuRuns) }),
    ...(tookS === undefined ? {} : { tookS: Math.round(tookS) }),
  }))
  return all.map((row) => withRatio(row, all))
}

/** CPU time per task in µs by process, and of all together. */
function cpuOf(cpuRuns) {
  const names = [...new Set(cpuRuns.flatMap(Object.keys))]
  const sums = cpuRuns.map((cpu) => Object.values(cpu).reduce((sum, micros) => sum + micros, 0))
  return {
    ...Object.fromEntries(names.map((name) => [name, medianOf(cpuRuns.map((cpu) => cpu[name] ?? 0))])),
    sum: medianOf(sums),
  }
}

const medianOf = (runs) => ({ median: rounded(median(runs)), runs: runs.map(rounded) })

/** Adds the quotient to a row that has `ratioTo`, so that the stored file contains it. */
function withRatio({ runs, ...row }, all) {
  const other = all.find(({ id, series }) => id === row.id && series === row.ratioTo)
  const quotient = ratio(row, other)
  return { ...row, ...(quotient === null ? {} : { ratio: rounded(quotient) }), runs }
}

/** Rounds to three digits: the fourth is noise. */
export function figureText(value) {
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  if (digits > 0) return String(Number(value.toFixed(Math.min(digits, 2))))
  const step = 10 ** Math.max(0, Math.floor(Math.log10(Math.abs(value))) - 2)
  return (Math.round(value / step) * step).toLocaleString('en-US')
}

export const seriesOf = (rows) => [...new Set(rows.map(({ series }) => series))]

/** Groups the rows by figure, in the order of the suite. */
export function figuresOf(rows) {
  const figures = new Map()
  for (const row of rows) figures.set(row.id, [...(figures.get(row.id) ?? []), row])
  return [...figures.values()]
}

/**
 * Divides the row that has `ratioTo` by the series that it names; if no row has it, the last series by the first, for
 * rates. Returns null if there is nothing to divide.
 */
export function ratioOf(figure, series) {
  const of = (name) => figure.find((row) => row.series === name)
  const asked = figure.find(({ ratioTo }) => ratioTo !== undefined)
  if (asked !== undefined) return ratio(asked, of(asked.ratioTo))
  if (series.length < 2 || !figure[0].unit.endsWith('/s')) return null
  return ratio(of(series.at(-1)), of(series[0]))
}

/** The heading of the ratio: what is divided by what, if a row has `ratioTo`. */
export function ratioTitle(rows) {
  const asked = rows.find(({ ratioTo }) => ratioTo !== undefined)
  return asked === undefined ? 'ratio' : `${asked.series} ÷ ${asked.ratioTo}`
}

export function ratioText(value) {
  return value < 0.1 ? String(Number(value.toPrecision(2))) : value.toFixed(value < 10 ? 2 : 1)
}

/** Says how often the figures were measured. Some are measured once, since they count instead of measuring a speed. */
export function describeRuns({ runs, rows }) {
  if (runs === 1) return 'one run'
  const once = figuresOf(rows).filter((figure) => figure.every((row) => row.runs.length === 1))
  const titles = once.map(([{ title }]) => `'${title}'`).join(', ')
  return titles === '' ? `median of ${runs} runs` : `median of ${runs} runs; ${titles}: one run`
}

/** 'Redis 7.0.15, BullMQ 6.7.0' */
export const describeVersions = (versions) =>
  Object.entries(versions)
    .map(([name, version]) => `${name} ${version}`)
    .join(', ')

/** Prints all runs of a figure on one line, as the formatter of this repository does. */
export function json(report) {
  const text = JSON.stringify(report, null, 2)
  return `${text.replaceAll(/\[\s+([-\d.,\s]+?)\s+\]/g, (_, numbers) => `[${numbers.split(/,\s+/).join(', ')}]`)}\n`
}

export function table(report) {
  const { title, notes, machine, rows, tookS, versions = {}, targets = [] } = report
  const series = seriesOf(rows)
  const figures = figuresOf(rows)
  const head = ['', '', ...series, ...(series.length > 1 ? [ratioTitle(rows)] : [])]
  const body = figures.map((figure) => {
    const cell = (name) => figure.find((row) => row.series === name)
    const values = series.map((name) => (cell(name) === undefined ? '' : figureText(cell(name).median)))
    const quotient = ratioOf(figure, series)
    return [figure[0].title, figure[0].unit, ...values, ...(quotient === null ? [] : [ratioText(quotient)])]
  })
  return [
    '',
    `${title}; tocsin ${machine.tocsin}, ${machine.date.slice(0, 10)}, ${describeRuns(report)}, ${tookS} s`,
    describeMachine(machine),
    ...(Object.keys(versions).length === 0 ? [] : [describeVersions(versions)]),
    '',
    ...aligned([head, ...body]),
    '',
    ...cpuLines(report),
    ...(targets.length === 0 ? [] : [...aligned(verdictLines(targets)), '']),
    ...timeLines(figures),
    ...notes,
    '',
  ].join('\n')
}

/** One line for each figure and series that has CPU times: its rate, µs per task by process, and their sum. */
function cpuLines({ rows, cpuAbsent }) {
  if (cpuAbsent !== undefined) return [cpuAbsent, '']
  const processes = processesOf(rows)
  if (processes.length === 0) return []
  const lines = rows
    .filter(({ cpu }) => cpu !== undefined)
    .map(({ title, unit, series, median: value, cpu }, i, all) => [
      all[i - 1]?.title === title ? '' : title,
      series,
      `${figureText(value)} ${unit}`,
      ...[...processes, 'sum'].map((name) => (cpu[name] === undefined ? '' : figureText(cpu[name].median))),
    ])
  return [...aligned([['CPU µs per task', '', '', ...processes, 'sum'], ...lines]), '']
}

/** The processes whose CPU time was read, in the order of a request's way. */
export function processesOf(rows) {
  const ORDER = ['node', 'Bun', 'redis-benchmark', 'server', 'PostgreSQL', 'Redis']
  const names = new Set(rows.flatMap(({ cpu = {} }) => Object.keys(cpu)))
  return [...ORDER.filter((name) => names.has(name)), ...names].filter(
    (name, i, all) => name !== 'sum' && all.indexOf(name) === i,
  )
}

function verdictLines(verdicts) {
  return [
    ['target', '', 'must', 'aim', 'reached', ''],
    ...verdicts.map((verdict) => [
      verdict.id,
      targetText(verdict),
      limitText(verdict, verdict.must),
      limitText(verdict, verdict.aim),
      amountText(verdict, verdict.is),
      verdictText(verdict),
    ]),
  ]
}

/** How long each figure took, servers and warm-ups included. */
function timeLines(figures) {
  const timed = figures.filter((figure) => figure.some(({ tookS = 0 }) => tookS > 0))
  if (timed.length === 0) return []
  const parts = timed.map((figure) => {
    const seconds = figure.reduce((sum, { tookS = 0 }) => sum + tookS, 0)
    return `${figure[0].id} ${seconds} s (${figure.map(({ series, tookS = 0 }) => `${series} ${tookS}`).join(', ')})`
  })
  return ['Time, servers and warm-ups included:', ...parts.map((part) => `  ${part}`), '']
}

/** Aligns two columns of text to the left, and the numbers after them to the right. */
export function aligned(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines.map((line) =>
    line
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join('   ')
      .trimEnd(),
  )
}
