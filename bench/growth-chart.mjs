/**
 * Draws the suite 'growth' as lines: a column for each kind of store, a row for each kind of work. Below each point stands
 * the CPU time per task.
 */
import { heading } from './chart.mjs'
import { describeRuns, describeVersions, figureText, ratioText, seriesOf } from './report.mjs'
import { INK, line, LINE, MARGIN, px, QUIET, svg, text, WIDTH } from './svg.mjs'
import { ratio } from './targets.mjs'

const GAP = 26
const PLOT_HEIGHT = 112
/** Within a panel: space for the numbers of the first and the last point. */
const INSET = 26
const PANEL_HEIGHT = PLOT_HEIGHT + 110

const OURS = '#c2751d'
const RAW = '#8b97a3'

/** '1,000,000 pending' → 1000000 */
const sizeOf = (series) => Number(series.replaceAll(/\D/g, ''))

export function growthChart(report) {
  const { title, machine, rows, runs, versions = {} } = report
  const sizes = seriesOf(rows)
    .map(sizeOf)
    .toSorted((a, b) => a - b)
  const ours = [...new Set(rows.filter(({ rawOf }) => rawOf === undefined).map(({ id }) => id))]
  const stores = [...new Set(ours.map(storeOf))]
  const width = (WIDTH - 2 * MARGIN - 2 * GAP) / 3
  const parts = [
    ...heading(title, machine),
    text(MARGIN, 86, describeVersions(versions), { size: 12, fill: QUIET }),
    ...legend(110),
  ]
  let bottom = 0
  for (const [column, store] of stores.entries()) {
    const left = MARGIN + column * (width + GAP)
    parts.push(text(left, 148, titleOf(rows, store)[0], { size: 15, weight: 600 }))
    for (const [row, id] of ours.filter((any) => storeOf(any) === store).entries()) {
      const top = 172 + row * PANEL_HEIGHT
      parts.push(...panel(rows, id, sizes, { left, top, width }))
      bottom = Math.max(bottom, top + PANEL_HEIGHT)
    }
  }
  const measured =
    runs === 1 ? 'One run.' : `Points: ${describeRuns(report)}. Thin lines: from the lowest to the highest.`
  const footer = [
    measured,
    'Tasks per second, by how many other tasks are pending. Bold: with the most ÷ with the fewest, measured in turns.',
    'Under each point: CPU time per task in µs, of all processes together.',
  ]
  for (const [i, words] of footer.entries())
    parts.push(text(MARGIN, bottom + 10 + i * 18, words, { size: 12, fill: QUIET }))
  return svg(bottom + 10 + footer.length * 18, title, parts)
}

const storeOf = (id) => id.split('-')[1]

/** 'Redis: bulk schedule' → 'Redis' and 'bulk schedule'. */
const titleOf = (rows, store) => rows.find(({ id }) => storeOf(id) === store).title.split(': ')

function legend(y) {
  return [
    `<path d="M${MARGIN} ${y - 4}h22" stroke="${OURS}" stroke-width="2.5"/>`,
    text(MARGIN + 30, y, 'Tocsin', { size: 13 }),
    `<path d="M${MARGIN + 100} ${y - 4}h22" stroke="${RAW}" stroke-width="1.8" stroke-dasharray="4 3"/>`,
    text(MARGIN + 130, y, 'the store without Tocsin, same tasks and indexes', { size: 13 }),
  ]
}

/** One kind of work in one store, on a scale of its own that begins at 0. */
function panel(rows, id, sizes, { left, top, width }) {
  const of = (any) =>
    rows.filter((row) => row.id === any).toSorted((a, b) => sizeOf(a.series) - sizeOf(b.series))
  const own = of(id)
  const rawId = rows.find(({ rawOf }) => rawOf === id)?.id
  const raw = rawId === undefined ? [] : of(rawId)
  const highest = Math.max(...[...own, ...raw].flatMap(({ runs }) => runs)) * 1.18
  const floor = top + 22 + PLOT_HEIGHT
  const y = (value) => floor - (value / highest) * PLOT_HEIGHT
  const [first, last] = [Math.log(sizes[0]), Math.log(sizes.at(-1))]
  const share = (size) => (first === last ? 0.5 : (Math.log(size) - first) / (last - first))
  const x = ({ series }) => left + INSET + share(sizeOf(series)) * (width - 2 * INSET)
  const quotient = own.length > 1 ? ratio(own.at(-1), own[0]) : null
  const [, work] = own[0].title.split(': ')
  const rawWork = raw[0]?.title.split(': ')[1]
  return [
    text(left, top, work, { size: 13 }),
    ...(rawWork === undefined ? [] : [text(left, top + 15, `dashed: ${rawWork}`, { size: 11, fill: QUIET })]),
    ...(quotient === null
      ? []
      : [text(left + width, top, ratioText(quotient), { size: 13, weight: 600, anchor: 'end' })]),
    line(left, floor, left + width, floor, LINE),
    ...area(own, x, y, floor),
    ...drawn(raw, { x, y, colour: RAW, isRaw: true, other: own, floor }),
    ...drawn(own, { x, y, colour: OURS, isRaw: false, other: raw, floor }),
    ...own.map((row) =>
      text(x(row), floor + 16, shortSize(sizeOf(row.series)), { size: 11, fill: QUIET, anchor: 'middle' }),
    ),
    ...cpuTexts(own, x, floor + 34, OURS),
    ...cpuTexts(raw, x, floor + 49, QUIET),
  ]
}

function drawn(points, { x, y, colour, isRaw, other, floor }) {
  if (points.length === 0) return []
  const path = points.map((row, i) => `${i === 0 ? 'M' : 'L'}${px(x(row))} ${px(y(row.median))}`).join('')
  const dash = isRaw ? ' stroke-width="1.8" stroke-dasharray="4 3"' : ' stroke-width="2.5"'
  const spreads = points
    .filter(({ runs }) => runs.length > 1)
    .map((row) => {
      const [low, high] = [Math.min(...row.runs), Math.max(...row.runs)]
      return `<path d="M${px(x(row))} ${px(y(low))}V${px(y(high))}" stroke="${colour}" stroke-opacity="0.5"/>`
    })
  const numbered = isRaw ? points.filter((_, i) => i === 0 || i === points.length - 1) : points
  return [
    `<path d="${path}" fill="none" stroke="${colour}" stroke-linejoin="round"${dash}/>`,
    ...spreads,
    ...points.map(
      (row) => `<circle cx="${px(x(row))}" cy="${px(y(row.median))}" r="${isRaw ? 2 : 3}" fill="${colour}"/>`,
    ),
    // The numbers of the upper line stand above it, those of the lower one below, so that they do not meet.
    ...numbered.map((row) => {
      const across = other.find(({ series }) => series === row.series)
      const isUpper = across === undefined || row.median >= across.median
      const isAbove = isUpper || y(row.median) > floor - 22
      return text(x(row), y(row.median) + (isAbove ? -9 : 17), shortRate(row.median), {
        size: 11,
        fill: isRaw ? QUIET : INK,
        anchor: 'middle',
      })
    }),
  ]
}

function area(points, x, y, floor) {
  const top = points.map((row) => `L${px(x(row))} ${px(y(row.median))}`).join('')
  const [first, last] = [px(x(points[0])), px(x(points.at(-1)))]
  return [`<path d="M${first} ${px(floor)}${top}L${last} ${px(floor)}Z" fill="${OURS}" fill-opacity="0.08"/>`]
}

const cpuTexts = (points, x, y, fill) =>
  points
    .filter(({ cpu }) => cpu !== undefined)
    .map((row, i) =>
      text(x(row), y, `${figureText(row.cpu.sum.median)}${i === 0 ? ' µs' : ''}`, {
        size: 11,
        fill,
        anchor: 'middle',
      }),
    )

const shortSize = (size) => (size < 1_000_000 ? `${size / 1_000}k` : `${size / 1_000_000}M`)
const shortRate = (rate) => (rate < 10_000 ? figureText(rate) : `${figureText(rate / 1_000)}k`)
