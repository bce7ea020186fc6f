/** The figures of the suite 'redis': those of any queue, and what its tasks take in Redis. */
import { queueFigures } from './queue-figures.mjs'
import { restingBytes } from './redis-server.mjs'

const MEMORY = {
  id: 'redis-memory',
  title: 'Redis memory per pending task',
  unit: 'bytes',
  better: 'less',
}

/** Tocsin is done within a second, before V8 has compiled its code, and BullMQ needs five: each is measured warm. */
export const FIGURES = queueFigures('redis')
  .map((figure) => ({ warmUpShare: 1, ...figure }))
  .map((figure) => (figure.id === 'redis-bulk' ? withMemory(figure) : figure))

/** `place` is the port of the server, which is empty when it is prepared. A warm-up is not prepared, and measures no memory. */
function withMemory(figure) {
  return {
    ...figure,
    rows: [...figure.rows, MEMORY],
    prepare: (place) => restingBytes(place),
    async measure(queue, given) {
      const { place, count, prepared: emptyBytes } = given
      const measured = await figure.measure(queue, given)
      if (emptyBytes === undefined) return measured
      return { ...measured, 'redis-memory': ((await restingBytes(place)) - emptyBytes) / count }
    },
  }
}
