/** The figures of the suite 'embedded': half as many tasks as in Redis, because every contender writes to a disk. */
import { queueFigures } from './queue-figures.mjs'

const COUNTS = {
  'embedded-bulk': 100_000,
  'embedded-single': 50_000,
  'embedded-cancel': 50_000,
  'embedded-burst': 100_000,
}

export const FIGURES = queueFigures('embedded').map((figure) => ({
  ...figure,
  count: COUNTS[figure.id] ?? figure.count,
}))
