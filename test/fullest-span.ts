/** Returns how many of these times, which are in order, lie in the fullest span of this length, wherever it begins. */
export function fullestSpan(times: readonly number[], spanMs: number): number {
  let most = 0
  for (let first = 0, last = 0; last < times.length; last++) {
    while ((times[last] ?? 0) - (times[first] ?? 0) >= spanMs) first++
    most = Math.max(most, last - first + 1)
  }
  return most
}
