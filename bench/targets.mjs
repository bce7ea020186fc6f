/**
 * Targets of a suite, and whether they were reached. A suite exports `targets`:
 *
 *   { id, title, figure, of, to, better: 'more' | 'less', must, aim }
 *
 * A verdict compares the median of the series `of` ÷ that of the series `to`, or without `to` the median itself. `must` or
 * `aim` may be omitted.
 */

/** Rounds to six digits: more than any clock provides, and readable in the files. */
export const rounded = (number) => Number(number.toPrecision(6))

/** Returns null if one of them was not measured, or the divisor is 0. */
export function ratio(of, to) {
  if (of === undefined || to === undefined || to.median === 0) return null
  return of.median / to.median
}

/** Returns a verdict for each target whose figures were measured. */
export function verdictsOn(targets, rows) {
  return targets.flatMap((target) => {
    const is = valueOf(target, rows)
    if (is === null) return []
    return [{ ...target, is: rounded(is), ...reached('must', target, is), ...reached('aim', target, is) }]
  })
}

function valueOf({ figure, of, to }, rows) {
  const row = (series) => rows.find((any) => any.id === figure && any.series === series)
  return to === undefined ? (row(of)?.median ?? null) : ratio(row(of), row(to))
}

function reached(which, { [which]: limit, better }, is) {
  if (limit === undefined) return {}
  return { [`${which}Reached`]: better === 'more' ? is >= limit : is <= limit }
}
