/**
 * One measurement, in a process of its own: `node --expose-gc bench/queue-run.mjs <JSON>`, with
 * `{ suite, figure, contender, place, warmUpPlace, processes, settings, count, slack }`: see bench/places.mjs. Sends the
 * result of the figure, or `{ tooSlow: why }`.
 */
import { cpuWatch, thisProcess } from './cpu.mjs'
import { TooSlow } from './queue-figures.mjs'

// The parent process is gone, and the servers with it: without this, clients would reconnect for ever.
process.on('disconnect', () => process.exit())

/** The part of a figure's tasks that a warm-up has, if the figure does not say otherwise. */
const WARM_UP_SHARE = 0.1

const { suite, figure: figureId, contender, place, warmUpPlace, ...given } = JSON.parse(process.argv[2])
const { FIGURES } = await import(`./${suite}-figures.mjs`)
const { open } = await import(`./contenders/${contender}.mjs`)
const figure = FIGURES.find(({ id }) => id === figureId)
const { isOnce = false, warmUpShare = WARM_UP_SHARE } = figure

const measured = await measure()

// Started by hand (for a profile with --cpu-prof, say) there is no parent process to send it to.
if (process.send === undefined) console.log(measured)
else process.send(measured, () => process.exit())

async function measure() {
  try {
    const prepared = await figure.prepare?.(place)
    // Warms up the compiler; a figure that is measured once does not depend on it. Between the warm-up and the measurement
    // there is no pause: in an idle second V8 gives back memory, and then collects garbage more often for a while.
    if (!isOnce) await measureIn(warmUpPlace, Math.ceil(given.count * warmUpShare))
    return await measureIn(place, given.count, prepared)
  } catch (error) {
    if (error instanceof TooSlow) return { tooSlow: error.message }
    throw error
  }
}

async function measureIn(where, count, prepared) {
  const queue = await open(where, given.settings ?? {})
  const watch = cpuWatch([thisProcess(), ...(queue.processes ?? []), ...(given.processes ?? [])])
  const slack = given.slack ?? 1
  const result = await figure.measure(queue, { place: where, count, slack, warmUpShare, watch, prepared })
  await queue.close()
  return result
}
