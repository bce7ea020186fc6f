/** The figures of the suite 'redis': those of any queue, and what its tasks take in Redis. */
import { queueFigures } from './queue-figures.mjs'
import { restingBytes } from './redis-server.mjs'

const MEMORY = {
  id: 'redis-memory',
  title: 'Redis memory per pending task',
  unit: 'bytes',
  better: 'less',
}

export const FIGURES = queueFigures('redis').map((figure) =>
  figure.id === 'redis-bulk' ? withMemory(figure) : figure,
)

/** `place` is the port of the server. */
function withMemory(figure) {
  return {
    ...figure,
    rows: [...figure.rows, MEMORY],
    async measure(queue, given) {
      const { place, count } = given
      const emptyBytes = await restingBytes(place)
      const measured = await figure.measure(queue, given)
      return { ...measured, 'redis-memory': ((await restingBytes(place)) - emptyBytes) / count }
    },
  }
}
