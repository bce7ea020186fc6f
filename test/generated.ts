/** True in `npm run test:long` and `npm run test:release`. */
export const isLong = process.env['TOCSIN_LONG'] !== undefined

/** How many generated cases to run: `usually`, `long` in `npm run test:long`, ten times `long` in `npm run test:release`. */
export function generated(usually: number, long = usually * 10): number {
  if (!isLong) return usually
  return process.env['TOCSIN_LONG'] === 'release' ? long * 10 : long
}
