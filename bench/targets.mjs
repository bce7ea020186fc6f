/**
 * What a suite is meant to reach, and whether it did. A suite exports `targets`:
 *
 *   { id, title, figure, of, to, better: 'more' | 'less', must, aim }
 *
 * What is judged is the median of the series `of` ÷ that of the series `to`; without `to`, the median itself. `must`
 * or `aim` may be left out.
 */

/** Six digits are more than any clock is good for, and keep the files readable. */
export const rounded = (number) => Number(number.toPrecision(6))

/** Null where it says nothing: one of them was not measured, or there is nothing to divide by. */
export function ratio(of, to) {
  if (of === undefined || to === undefined || to.median === 0) return null
  return of.median / to.median
}

/** One for each target whose figures were measured. */
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
