/**
 * Targets of a suite, and whether they were reached. A suite exports `targets`:
 *
 *   { id, title, figure, of, to, unit, isCpu, better: 'more' | 'less', must, aim }
 *
 * A verdict compares the median of the series `of` ÷ that of the series `to`, or without `to` the median itself, in `unit`.
 * With `isCpu` it is the CPU time per task of all processes. `must` or `aim` may be omitted.
 */

/** Rounds to six digits: more than any clock provides, and readable in the files. */
export const rounded = (number) => Number(number.toPrecision(6))

/**
 * Returns null if one of them was not measured, or the divisor is 0. A row with `beside` was measured in turns with the
 * other one: its divisor is the median of these turns.
 */
export function ratio(of, to) {
  if (of === undefined || to === undefined) return null
  const divisor = of.beside?.median ?? to.median
  return divisor === 0 ? null : of.median / divisor
}

/** Returns a verdict for each target whose figures were measured. */
export function verdictsOn(targets, rows) {
  return targets.flatMap((target) => {
    const is = valueOf(target, rows)
    if (is === null) return []
    return [{ ...target, is: rounded(is), ...reached('must', target, is), ...reached('aim', target, is) }]
  })
}

function valueOf({ figure, of, to, isCpu }, rows) {
  const row = (series) => rows.find((any) => any.id === figure && any.series === series)
  if (isCpu) return row(of)?.cpu?.sum.median ?? null
  return to === undefined ? (row(of)?.median ?? null) : ratio(row(of), row(to))
}

function reached(which, { [which]: limit, better }, is) {
  if (limit === undefined) return {}
  return { [`${which}Reached`]: better === 'more' ? is >= limit : is <= limit }
}

/** What a target is about: 'burst, Tocsin ÷ BullMQ'. */
export const targetText = ({ title, of, to }) =>
  to === undefined ? `${title}, ${of}` : `${title}, ${of} ÷ ${to}`

/** '≥ 8', '≤ 30 µs', or nothing where there is no such limit. */
export function limitText({ better, unit, to }, limit) {
  if (limit === undefined) return ''
  return `${better === 'more' ? '≥' : '≤'} ${amountText({ unit, to }, limit)}`
}

export function amountText({ unit, to }, amount) {
  const digits = Number(amount.toPrecision(3)).toLocaleString('en-US', { maximumSignificantDigits: 3 })
  if (to !== undefined) return `${digits}×`
  return unit === undefined ? digits : `${digits} ${unit}`
}

/** In one word or two. */
export function verdictText({ must, mustReached, aim, aimReached }) {
  if (aim !== undefined && aimReached) return 'aim reached'
  if (must === undefined) return 'aim missed'
  return mustReached ? 'must reached' : 'MISSED'
}
