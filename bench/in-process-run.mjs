/** One measurement, in a process of its own: `node --expose-gc bench/in-process-run.mjs <figure> <pending>`. */
import { Tocsin } from 'tocsin'
import { FIGURES } from './in-process-figures.mjs'
import { bytesInUse, orders } from './load.mjs'

const WARM_UP_PENDING = 20_000

const [figureId, pending] = process.argv.slice(2)
const figure = FIGURES.find(({ id }) => id === figureId)

// Lets the compiler see the code that will be measured, so that few pending tasks are no disadvantage to many.
const warmUpCount = Math.ceil(figure.count / 10)
await withPending(WARM_UP_PENDING, (topic, given) => figure.measure(topic, { ...given, count: warmUpCount }))
const measured = await withPending(Number(pending), (topic, given) =>
  figure.measure(topic, { ...given, count: figure.count }),
)

// By hand (for a profile with --cpu-prof, say) there is nobody to send it to.
if (process.send === undefined) console.log(measured)
else process.send(measured)
process.disconnect?.()

/** A new Tocsin with so many tasks due in 30 days, and what one of them weighs. */
async function withPending(pendingCount, work) {
  const toc = await Tocsin.open({ timetable: 'memory:' })
  const topic = toc.topic('orders')
  const before = await bytesInUse()
  await topic.scheduleMany(orders(0, pendingCount))
  const after = await bytesInUse()
  const bytesPerTask = {
    process: (after.process - before.process) / pendingCount,
    heap: (after.heap - before.heap) / pendingCount,
  }
  const result = await work(topic, { pending: pendingCount, bytesPerTask })
  await toc.close()
  return result
}
