/**
 * The figures of the suite 'in-process'. Each is measured on a topic with default settings and `pending` tasks due in
 * 30 days, and returns for each of its rows a number, or `{ value, cpu }` with the CPU time per task.
 */
import { setImmediate as turn, setTimeout as sleep } from 'node:timers/promises'
import { inPieces, keyOf, orders, percentile, rateOf, shuffled, tallyTo } from './load.mjs'

const COUNT = 200_000
const ARRAY = 1_000
const IN_FLIGHT = 10_000
const CONCURRENCY = 200
/** CPU time is read this long before a burst is due. */
const WATCH_BEFORE_MS = 50

const rate = (id, title) => [{ id, title, unit: 'tasks/s', better: 'more' }]

export const FIGURES = [
  {
    id: 'bulk-array',
    rows: rate('bulk-array', 'bulk schedule, arrays of 1,000'),
    count: COUNT,
    async measure(topic, { pending, count, watch }) {
      const arrays = inPieces([...orders(pending, count)], ARRAY)
      const rated = await rateOf(count, watch, async () => {
        for (const tasks of arrays) await topic.scheduleMany(tasks)
      })
      return { 'bulk-array': rated }
    },
  },
  {
    id: 'bulk-stream',
    rows: rate('bulk-stream', 'bulk schedule, a stream'),
    count: COUNT,
    async measure(topic, { pending, count, watch }) {
      return { 'bulk-stream': await rateOf(count, watch, () => topic.scheduleMany(orders(pending, count))) }
    },
  },
  {
    id: 'single',
    rows: rate('single', 'single schedule() calls, concurrent'),
    count: COUNT,
    async measure(topic, { pending, count, watch }) {
      const pieces = inPieces([...orders(pending, count)], IN_FLIGHT)
      const rated = await rateOf(count, watch, async () => {
        for (const tasks of pieces) await Promise.all(tasks.map((task) => topic.schedule(task)))
      })
      return { single: rated }
    },
  },
  {
    id: 'cancel',
    rows: rate('cancel', 'cancel() by key, concurrent'),
    count: COUNT,
    async measure(topic, { pending, count, watch }) {
      // Cancels extra tasks, so that the number of pending ones stays the same; not in the order of scheduling.
      await topic.scheduleMany(orders(pending, count))
      const keys = shuffled(Array.from({ length: count }, (_, i) => keyOf(pending + i)))
      let cancelled = 0
      const rated = await rateOf(count, watch, async () => {
        for (const piece of inPieces(keys, IN_FLIGHT)) {
          const answers = await Promise.all(piece.map((key) => topic.cancel(key)))
          cancelled += answers.filter(({ outcome }) => outcome === 'cancelled').length
        }
      })
      if (cancelled !== count) throw new Error(`${cancelled} of ${count} were cancelled`)
      return { cancel: rated }
    },
  },
  {
    id: 'burst',
    rows: rate('burst', 'burst, drained and settled, 200 at a time'),
    count: COUNT,
    async measure(topic, given) {
      const consume = (note) => topic.consume(async () => note(1), { concurrency: CONCURRENCY })
      return { burst: await drained(topic, given, consume) }
    },
  },
  {
    id: 'burst-batch',
    rows: rate('burst-batch', 'burst, drained and settled, in batches'),
    count: COUNT,
    async measure(topic, given) {
      const consume = (note) => topic.consumeBatch(async (tasks) => note(tasks.length))
      return { 'burst-batch': await drained(topic, given, consume) }
    },
  },
  {
    id: 'lateness',
    rows: [
      { id: 'lateness-p50', title: 'lateness at 1,000 tasks/s, p50', unit: 'ms', better: 'less' },
      { id: 'lateness-p99', title: 'lateness at 1,000 tasks/s, p99', unit: 'ms', better: 'less' },
    ],
    count: 5_000,
    async measure(topic, given) {
      const { latenessesMs, cpu } = await steadyLatenesses(topic, given)
      return {
        'lateness-p50': percentile(latenessesMs, 0.5),
        'lateness-p99': { value: percentile(latenessesMs, 0.99), cpu },
      }
    },
  },
  {
    id: 'memory',
    rows: [
      { id: 'memory-process', title: 'process memory per pending task', unit: 'bytes', better: 'less' },
      { id: 'memory-heap', title: 'of which JavaScript heap and buffers', unit: 'bytes', better: 'less' },
    ],
    count: 0,
    async measure(_topic, { bytesPerTask }) {
      return { 'memory-process': bytesPerTask.process, 'memory-heap': bytesPerTask.heap }
    },
  },
]

/** All due at one instant: tasks per second from that instant until every outcome is recorded. */
async function drained(topic, { pending, count, watch }, consume) {
  globalThis.gc()
  // Time enough to schedule them all before the first is due.
  const dueMs = Date.now() + 1_000 + count / 40
  await topic.scheduleMany(orders(pending, count, () => ({ at: dueMs })))
  const tally = tallyTo(count)
  const consumer = consume(tally.note)
  if (Date.now() >= dueMs) throw new Error('this machine is too slow to schedule the burst before it is due')
  await sleep(dueMs - WATCH_BEFORE_MS - Date.now())
  watch.start()
  await tally.reached
  // The last handler has ended; its outcome may not be recorded yet.
  for (let counts = await topic.counts(); counts.claimed > 0 || counts.pending > pending;) {
    await turn()
    counts = await topic.counts()
  }
  const tookMs = Date.now() - dueMs
  const cpu = watch.stop(count)
  await consumer.stop()
  if (tally.count !== count) throw new Error(`${tally.count} calls for ${count} tasks`)
  return { value: (count * 1000) / tookMs, cpu }
}

/** One due every millisecond, by our own list of what is due when. */
async function steadyLatenesses(topic, { pending, count, watch }) {
  globalThis.gc()
  const startMs = Date.now() + 1_000
  const latenessesMs = []
  const tally = tallyTo(count)
  const consumer = topic.consume(async ({ key }) => {
    const n = Number(key.slice('order-'.length))
    latenessesMs.push(Date.now() - (startMs + n - pending))
    tally.note(1)
  })
  await topic.scheduleMany(orders(pending, count, (n) => ({ at: startMs + n - pending })))
  watch.start()
  await tally.reached
  const cpu = watch.stop(count)
  await consumer.stop()
  if (latenessesMs.some((ms) => ms < 0)) throw new Error('a task fired early')
  return { latenessesMs, cpu }
}
