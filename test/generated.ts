/** How many generated cases there are to be: ten times as many in `npm run test:long`, a hundred times in `npm run test:release`. */
export function generated(usually: number): number {
  const long = process.env['TOCSIN_LONG']
  return usually * (long === undefined ? 1 : long === 'release' ? 100 : 10)
}
