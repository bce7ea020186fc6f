/** The figures of `--quick`: those of any queue, with as few tasks as the CPU time can be told from noise. */
import { queueFigures } from './queue-figures.mjs'
import { tidied } from './tidied.mjs'

const COUNTS = {
  'quick-bulk': 50_000,
  'quick-cancel': 30_000,
  'quick-burst': 50_000,
  'quick-lateness': 3_000,
}

export const FIGURES = queueFigures('quick')
  .filter(({ id }) => id in COUNTS)
  .map((figure) => ({ ...tidied(figure), count: COUNTS[figure.id] }))
