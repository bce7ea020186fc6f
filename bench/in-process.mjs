/**
 * Tocsin alone, timers in the memory of one process, through the public API. Each measurement has a process of its
 * own (bench/in-process-run.mjs).
 */
import { getHeapStatistics } from 'node:v8'
import { answerOf } from './child.mjs'
import { FIGURES } from './in-process-figures.mjs'
import { rowsOf } from './queue-suite.mjs'

/** In MiB, enough for 5,000,000 tasks. Set explicitly, since the default of Node.js depends on the machine. */
const HEAP_MIB = 8_192
const heapMibByDefault = Math.round(getHeapStatistics().heap_size_limit / 2 ** 20)

export const name = 'in-process'
export const title = 'Timers in the memory of one process'
export const figureIds = FIGURES.map(({ id }) => id)
export const notes = [
  `Node.js ran with --max-old-space-size=${HEAP_MIB} (MiB of heap; its own limit here is ${heapMibByDefault}).`,
  'Ratio: rates with the most tasks pending ÷ with the fewest. What each figure means: bench/README.md.',
]

const PENDING = [100_000, 5_000_000]

export function run({ runs, pending = PENDING, figureIds: wanted, progress }) {
  const plan = FIGURES.filter(({ id }) => wanted.includes(id)).flatMap((figure) =>
    pending.map((count) => ({
      figure,
      series: `${count.toLocaleString('en-US')} pending`,
      measure: () => measure(figure.id, count),
    })),
  )
  return rowsOf(plan, { runs, progress })
}

function measure(figureId, pending) {
  return answerOf('in-process-run.mjs', [figureId, String(pending)], {
    what: `${figureId} with ${pending} pending`,
    execArgv: [`--max-old-space-size=${HEAP_MIB}`],
  })
}
