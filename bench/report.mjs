/** Rows of figures as a table for people. */
import { describeMachine } from './machine.mjs'

export function median(numbers) {
  const sorted = numbers.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}

/** Six digits are more than any clock is good for, and keep the files readable. */
const rounded = (number) => Number(number.toPrecision(6))

export function withMedians(rows) {
  return rows.map(({ runs, ...row }) => ({ ...row, median: rounded(median(runs)), runs: runs.map(rounded) }))
}

/** Rates to three digits: the fourth is noise. */
export function figureText(value) {
  if (value === 0) return '0'
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))))
  if (digits > 0) return String(Number(value.toFixed(Math.min(digits, 2))))
  const step = 10 ** Math.max(0, Math.floor(Math.log10(Math.abs(value))) - 2)
  return (Math.round(value / step) * step).toLocaleString('en-US')
}

export const seriesOf = (rows) => [...new Set(rows.map(({ series }) => series))]

/** The rows of each figure, in the order in which the suite gave them. */
export function figuresOf(rows) {
  const figures = new Map()
  for (const row of rows) figures.set(row.id, [...(figures.get(row.id) ?? []), row])
  return [...figures.values()]
}

/** The last series by the first, for rates; null where that says nothing. */
export function ratioOf(figure, series) {
  const first = figure.find((row) => row.series === series[0])
  const last = figure.find((row) => row.series === series.at(-1))
  if (series.length < 2 || !first || !last || !first.unit.endsWith('/s')) return null
  return last.median / first.median
}

/** All runs of a figure on one line: as the formatter of this repository wants it, and as a reader does. */
export function json(report) {
  const text = JSON.stringify(report, null, 2)
  return `${text.replaceAll(/\[\s+([-\d.,\s]+?)\s+\]/g, (_, numbers) => `[${numbers.split(/,\s+/).join(', ')}]`)}\n`
}

export function table(report) {
  const { title, notes, runs, machine, rows, tookS } = report
  const series = seriesOf(rows)
  const figures = figuresOf(rows)
  const head = ['', '', ...series, ...(series.length > 1 ? ['ratio'] : [])]
  const body = figures.map((figure) => {
    const cell = (name) => figure.find((row) => row.series === name)
    const values = series.map((name) => (cell(name) === undefined ? '' : figureText(cell(name).median)))
    const ratio = ratioOf(figure, series)
    return [figure[0].title, figure[0].unit, ...values, ...(ratio === null ? [] : [ratio.toFixed(2)])]
  })
  const times = runs === 1 ? 'one run' : `median of ${runs} runs`
  return [
    '',
    `${title}; tocsin ${machine.tocsin}, ${machine.date.slice(0, 10)}, ${times}, ${tookS} s`,
    describeMachine(machine),
    '',
    ...aligned([head, ...body]),
    '',
    ...notes,
    '',
  ].join('\n')
}

/** Two columns of text, then numbers to the right. */
function aligned(lines) {
  const widths = lines[0].map((_, column) => Math.max(...lines.map((line) => (line[column] ?? '').length)))
  return lines.map((line) =>
    line
      .map((cell, column) => (column < 2 ? cell.padEnd(widths[column]) : cell.padStart(widths[column])))
      .join('   ')
      .trimEnd(),
  )
}
