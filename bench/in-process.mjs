/**
 * Tocsin alone, timers in the memory of one process, through the public API. Each measurement has a process of its
 * own (bench/in-process-run.mjs).
 */
import { getHeapStatistics } from 'node:v8'
import { answerOf } from './child.mjs'
import { FIGURES } from './in-process-figures.mjs'

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

export async function run({ runs, pending = PENDING, figureIds: wanted, progress }) {
  const figures = FIGURES.filter(({ id }) => wanted.includes(id))
  const rows = new Map()
  const steps = runs * figures.length * pending.length
  let step = 0
  // Each run measures all figures before the next begins, so that a slow minute of the machine affects all of them.
  for (let nth = 1; nth <= runs; nth++)
    for (const figure of figures)
      for (const count of pending) {
        const series = `${count.toLocaleString('en-US')} pending`
        progress(`${++step} of ${steps}: run ${nth}, ${figure.id}, ${series}`)
        const measured = await measure(figure.id, count)
        for (const { id, title: text, unit, better } of figure.rows) {
          const row = rows.get(`${id} ${series}`) ?? { id, title: text, unit, better, series, runs: [] }
          rows.set(`${id} ${series}`, row)
          row.runs.push(measured[id])
        }
      }
  return [...rows.values()]
}

function measure(figureId, pending) {
  return answerOf('in-process-run.mjs', [figureId, String(pending)], {
    what: `${figureId} with ${pending} pending`,
    execArgv: [`--max-old-space-size=${HEAP_MIB}`],
  })
}
