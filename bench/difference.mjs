/** What has changed since an earlier report of the same suite: rates, and CPU times per task by process. */
import { aligned, figureText, processesOf } from './report.mjs'

export function differences({ rows }, earlier) {
  const processes = [...processesOf([...rows, ...earlier.rows]), 'sum']
  const lines = rows.flatMap((row) => {
    const before = earlier.rows.find(({ id, series }) => id === row.id && series === row.series)
    if (before === undefined) return []
    const cpu = processes.map((name) => change(before.cpu?.[name]?.median, row.cpu?.[name]?.median))
    return [{ row, cells: [row.series, `${change(before.median, row.median)} ${row.unit}`, ...cpu] }]
  })
  const titled = lines.map(({ row, cells }, i) => [
    lines[i - 1]?.row.id === row.id ? '' : row.title,
    ...cells,
  ])
  const columns = processes.map((name) => `CPU µs, ${name}`)
  return [
    `Since ${earlier.machine.date}, before → now; CPU µs per task:`,
    '',
    ...aligned([['', '', '', ...columns], ...titled]),
    '',
  ].join('\n')
}

/** '20 → 15 (−25 %)'; nothing where one of them was not measured. */
export function change(before, now) {
  if (before === undefined || now === undefined) return ''
  const numbers = `${figureText(before)} → ${figureText(now)}`
  if (before === 0) return numbers
  const percent = Math.round((now / before - 1) * 100)
  return `${numbers} (${percent < 0 ? '−' : '+'}${Math.abs(percent)} %)`
}
