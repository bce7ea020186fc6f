/** One measurement, in a process of its own: `node --expose-gc bench/in-process-run.mjs <figure> <pending>`. */
import { Tocsin } from 'tocsin'
import { cpuWatch, thisProcess } from './cpu.mjs'
import { FIGURES } from './in-process-figures.mjs'
import { bytesInUse, orders } from './load.mjs'

const WARM_UP_PENDING = 20_000

const [figureId, pending] = process.argv.slice(2)
const figure = FIGURES.find(({ id }) => id === figureId)

// Warms up the compiler: otherwise the series that is measured with fewer pending tasks would be at a disadvantage.
const warmUpCount = Math.ceil(figure.count / 10)
await withPending(WARM_UP_PENDING, (topic, given) => figure.measure(topic, { ...given, count: warmUpCount }))
const measured = await withPending(Number(pending), (topic, given) =>
  figure.measure(topic, { ...given, count: figure.count }),
)

// Started by hand (for a profile with --cpu-prof, say) there is no parent process to send it to.
if (process.send === undefined) console.log(measured)
else process.send(measured)
process.disconnect?.()

/** Opens a new Tocsin with this many tasks due in 30 days, and measures the memory of one of them. */
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
  const watch = cpuWatch([thisProcess()])
  const result = await work(topic, { pending: pendingCount, bytesPerTask, watch })
  await toc.close()
  return result
}
