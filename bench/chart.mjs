/** Draws the rows of a report as bars. */
import { describeMachine } from './machine.mjs'
import {
  describeRuns,
  describeVersions,
  figuresOf,
  figureText,
  ratioOf,
  ratioText,
  ratioTitle,
  seriesOf,
} from './report.mjs'
import { INK, LINE, MARGIN, px, QUIET, rect, svg, text, WIDTH } from './svg.mjs'

const LABEL_WIDTH = 288
const VALUE_WIDTH = 170
const BAR_HEIGHT = 14
const BAR_GAP = 3
const FIGURE_GAP = 16
const PANEL_GAP = 26

const COLOURS = ['#e6b566', '#a65a0e', '#4a6fa5', '#7d8b99', '#5b8c5a', '#8a5a83']

const UNITS = {
  'tasks/s': 'tasks per second; longer is better',
  ms: 'milliseconds; shorter is better',
  bytes: 'bytes; shorter is better',
}

/** The title of a chart, and the machine. */
export function heading(title, machine) {
  const where = `tocsin ${machine.tocsin} · ${machine.date.slice(0, 10)} · ${describeMachine(machine)}`
  return [
    text(MARGIN, 46, title, { size: 20, weight: 600 }),
    text(MARGIN, 68, where, { size: 12, fill: QUIET }),
  ]
}

export function chart(report) {
  const { title, machine, rows, runs, versions } = report
  const series = seriesOf(rows)
  const figures = figuresOf(rows)
  const parts = heading(title, machine)
  let y = 96
  if (versions !== undefined) {
    parts.push(text(MARGIN, 86, describeVersions(versions), { size: 12, fill: QUIET }))
    y += 18
  }
  parts.push(...legend(series, y))
  y += 16
  for (const unit of new Set(rows.map((row) => row.unit))) {
    const panel = panelOf(
      figures.filter(([{ unit: own }]) => own === unit),
      series,
      y + PANEL_GAP,
    )
    parts.push(...panel.parts)
    y = panel.y
  }
  const measured = describeRuns(report)
  const times = runs === 1 ? 'One run.' : `Bars: ${measured}. Thin lines: from the lowest to the highest.`
  parts.push(text(MARGIN, y + 22, times, { size: 12, fill: QUIET }))
  if (rows.some(({ cpu }) => cpu !== undefined)) {
    y += 18
    parts.push(
      text(MARGIN, y + 22, 'µs: CPU time per task, of all processes together.', { size: 12, fill: QUIET }),
    )
  }
  return svg(y + 44, title, parts)
}

function legend(series, y) {
  let x = MARGIN
  return series.flatMap((name, i) => {
    const parts = [rect(x, y - 11, 12, 12, colour(i), 2), text(x + 18, y, name, { size: 13 })]
    x += 18 + name.length * 7 + 18
    return parts
  })
}

/** All figures of one unit, on one scale. */
function panelOf(figures, series, top) {
  const { unit } = figures[0][0]
  const longest = Math.max(...figures.flat().flatMap((row) => row.runs))
  const left = MARGIN + LABEL_WIDTH
  const room = WIDTH - MARGIN - left - VALUE_WIDTH
  const scale = (value) => (longest === 0 ? 0 : (Math.max(0, value) / longest) * room)
  const parts = [
    text(MARGIN, top, UNITS[unit] ?? unit, { size: 12, fill: QUIET }),
    `<line x1="${MARGIN}" y1="${top + 9}" x2="${WIDTH - MARGIN}" y2="${top + 9}" stroke="${LINE}"/>`,
  ]
  if (ratioOf(figures[0], series) !== null)
    parts.push(
      text(WIDTH - MARGIN, top, ratioTitle(figures.flat()), { size: 12, fill: QUIET, anchor: 'end' }),
    )
  let y = top + 24
  for (const figure of figures) {
    const height = figure.length * (BAR_HEIGHT + BAR_GAP) - BAR_GAP
    parts.push(text(MARGIN, y + height / 2 + 4.5, figure[0].title, { size: 13 }))
    const ratio = ratioOf(figure, series)
    if (ratio !== null) {
      const style = { size: 13, anchor: 'end', weight: 600 }
      parts.push(text(WIDTH - MARGIN, y + height / 2 + 4.5, ratioText(ratio), style))
    }
    for (const row of figure) {
      parts.push(...barOf(row, left, y, scale, colour(series.indexOf(row.series))))
      y += BAR_HEIGHT + BAR_GAP
    }
    y += FIGURE_GAP - BAR_GAP
  }
  return { parts, y }
}

function barOf(row, left, y, scale, fill) {
  const middle = y + BAR_HEIGHT / 2
  const lowest = Math.min(...row.runs)
  const highest = Math.max(...row.runs)
  const end = left + Math.max(scale(row.median), scale(highest))
  const spread = `<line x1="${px(left + scale(lowest))}" y1="${middle}" x2="${px(left + scale(highest))}" y2="${middle}" stroke="${INK}" stroke-opacity="0.55"/>`
  return [
    // A bar of almost 0 stays visible.
    rect(left, y, Math.max(1.5, scale(row.median)), BAR_HEIGHT, fill, 2),
    ...(highest > lowest ? [spread] : []),
    text(px(end + 8), middle + 4.5, figureText(row.median), { size: 12 }),
    ...(row.cpu === undefined
      ? []
      : [
          text(px(end + 14 + widthOf(figureText(row.median))), middle + 4.5, cpuText(row), {
            size: 12,
            fill: QUIET,
          }),
        ]),
  ]
}

const cpuText = ({ cpu }) => `${figureText(cpu.sum.median)} µs`
/** About; of digits, 12 pixels high. */
const widthOf = (digits) => digits.length * 6.6

const colour = (index) => COLOURS[index % COLOURS.length]
