/**
 * The figures that are measured on a queue, of any contender and storage. Each is measured on an empty queue of one
 * contender (bench/contenders), and returns for each of its rows a number, or `{ value, cpu }` with the CPU time per task
 * by process. The arguments of calls are made before the clock starts, for all contenders. `warmUpShare` is the part of its tasks
 * that a warm-up has, if that is not a tenth. `prepare(place)`, if there is one, runs before the warm-up; what it returns is given to
 * the measurement as `prepared`, and to the warm-up not.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { inPieces, keyOf, orders, percentile, rateOf, shuffled, tallyTo } from './load.mjs'

const HOUR_MS = 3_600_000
const IN_FLIGHT = 5_000
const BURST_CONCURRENCY = 200
const STEADY_CONCURRENCY = 64
/** One task is due every millisecond: ten seconds. */
const LATENESS_COUNT = 10_000
/** CPU times are read this long before the first task is due. */
const WATCH_BEFORE_MS = 50
/** The interval at which a queue is asked whether its last outcomes are recorded. */
const ASK_MS = 2

const rate = (id, title) => ({ id, title, unit: 'tasks/s', better: 'more' })

/** The figures of a suite, whose name their ids begin with. */
export const queueFigures = (suite) => [
  {
    id: `${suite}-bulk`,
    rows: [rate(`${suite}-bulk`, 'bulk schedule')],
    count: 200_000,
    measure: async (queue, given) => ({ [`${suite}-bulk`]: await bulk(queue, given) }),
  },
  {
    id: `${suite}-single`,
    rows: [rate(`${suite}-single`, 'single schedule calls, concurrent')],
    count: 100_000,
    measure: async (queue, given) => ({ [`${suite}-single`]: await single(queue, given) }),
  },
  {
    id: `${suite}-cancel`,
    rows: [rate(`${suite}-cancel`, 'cancel by key, concurrent')],
    count: 100_000,
    measure: async (queue, given) => ({ [`${suite}-cancel`]: await cancelled(queue, given) }),
  },
  {
    id: `${suite}-burst`,
    rows: [rate(`${suite}-burst`, 'burst, drained and settled')],
    count: 200_000,
    measure: async (queue, given) => ({ [`${suite}-burst`]: await drained(queue, given) }),
  },
  {
    id: `${suite}-lateness`,
    rows: [
      { id: `${suite}-lateness-p50`, title: 'lateness at 1,000 tasks/s, p50', unit: 'ms', better: 'less' },
      { id: `${suite}-lateness-p99`, title: 'lateness at 1,000 tasks/s, p99', unit: 'ms', better: 'less' },
    ],
    count: LATENESS_COUNT,
    // A new process runs code that is not compiled for a second or two. These tasks alone would make the p99.
    warmUpShare: 0.7,
    async measure(queue, given) {
      const { latenessesMs, cpu } = await steadyLatenesses(queue, given)
      return {
        [`${suite}-lateness-p50`]: percentile(latenessesMs, 0.5),
        [`${suite}-lateness-p99`]: { value: percentile(latenessesMs, 0.99), cpu },
      }
    },
  },
]

export async function bulk(queue, { count, watch }) {
  const tasks = tasksFor(queue, count)
  const rated = await rateOf(count, watch, () => queue.scheduleMany(tasks))
  await expectLeft(queue, count)
  return rated
}

export async function single(queue, { count, watch }) {
  const pieces = inPieces(tasksFor(queue, count), IN_FLIGHT)
  const rated = await rateOf(count, watch, async () => {
    for (const tasks of pieces) await Promise.all(tasks.map((task) => queue.schedule(task)))
  })
  await expectLeft(queue, count)
  return rated
}

export async function cancelled(queue, { count, watch }) {
  await queue.scheduleMany(tasksFor(queue, count))
  // Not in the order of scheduling.
  const keys = shuffled(Array.from({ length: count }, (_, n) => keyOf(n)))
  let done = 0
  const rated = await rateOf(count, watch, async () => {
    for (const piece of inPieces(keys, IN_FLIGHT)) {
      const answers = await Promise.all(piece.map((key) => queue.cancel(key)))
      done += answers.filter(Boolean).length
    }
  })
  if (done !== count) throw new Error(`${done} of ${count} were cancelled`)
  await expectLeft(queue, 0)
  return rated
}

export function tasksFor(queue, count, dueMs = () => Date.now() + HOUR_MS) {
  return [...orders(0, count, (n) => ({ atMs: dueMs(n) }))].map(queue.taskOf)
}

/** Checks that nothing was lost: a queue that loses half of the tasks is fast. */
export async function expectLeft(queue, count) {
  const left = await queue.left()
  if (left !== count) throw new Error(`${left} tasks are left where there should be ${count}`)
}

/** The rate at which this contender schedules on this machine: measured by the warm-up. Until then a low estimate. */
let schedulesPerSecond = 0
const LOW_ESTIMATE = 10_000
/** That of contenders whose warm-up is of full size. All of them schedule more, and tens of seconds would pass otherwise. */
const LOW_ESTIMATE_OF_ALL = 25_000

/** Schedules tasks that are due from an instant far enough ahead: all are scheduled before, and a pause follows. */
async function scheduleAhead(queue, count, startMs, dueMs) {
  const startedMs = Date.now()
  await queue.scheduleMany(tasksFor(queue, count, dueMs))
  await expectLeft(queue, count)
  await queue.settleDown?.()
  if (Date.now() >= startMs) throw new TooSlow('the first task was due before the last was scheduled')
  schedulesPerSecond = (count * 1000) / (Date.now() - startedMs)
  globalThis.gc()
}

/** The machine had other work to do: bench/queue-suite.mjs measures again, with more `slack`. */
export class TooSlow extends Error {}

/**
 * The time that the tasks would take at 1.7 times the rate of the warm-up, and 1.2 seconds: after a small warm-up a
 * contender is at least twice as fast. After one of the same size it is as fast again. With `slack` so many times that.
 */
const farEnoughMs = ({ count, slack, warmUpShare }) => {
  const isFull = warmUpShare === 1
  const perSecond = schedulesPerSecond || (isFull ? LOW_ESTIMATE_OF_ALL : LOW_ESTIMATE)
  return Math.ceil(Date.now() + slack * (1_200 + ((isFull ? 1.2 : 0.6) * count * 1000) / perSecond))
}

/** All due at one instant: tasks per second from that instant until every outcome is recorded. */
export async function drained(queue, { count, slack, warmUpShare, watch }) {
  const atMs = farEnoughMs({ count, slack, warmUpShare })
  await scheduleAhead(queue, count, atMs, () => atMs)
  const tally = tallyTo(count)
  const stop = await queue.consume(() => tally.note(1), BURST_CONCURRENCY)
  if (Date.now() >= atMs) throw new TooSlow('the worker was not up before the burst was due')
  await sleep(atMs - WATCH_BEFORE_MS - Date.now())
  watch.start()
  await tally.reached
  // The last handler has ended; its outcome may not be recorded yet.
  while ((await queue.left()) > 0) await sleep(ASK_MS)
  const tookMs = Date.now() - atMs
  const cpu = watch.stop(count)
  await stop()
  if (tally.count !== count) throw new Error(`${tally.count} calls for ${count} tasks`)
  return { value: (count * 1000) / tookMs, cpu }
}

/** One due every millisecond, by our own list of what is due when; the worker is there before the first task is. */
async function steadyLatenesses(queue, { count, slack, warmUpShare, watch }) {
  const latenessesMs = []
  const tally = tallyTo(count)
  const startMs = farEnoughMs({ count, slack, warmUpShare })
  const stop = await queue.consume((key) => {
    latenessesMs.push(Date.now() - startMs - Number(key.slice('order-'.length)))
    tally.note(1)
  }, STEADY_CONCURRENCY)
  await scheduleAhead(queue, count, startMs, (n) => startMs + n)
  await sleep(startMs - WATCH_BEFORE_MS - Date.now())
  watch.start()
  await tally.reached
  const cpu = watch.stop(count)
  await stop()
  if (queue.isNeverEarly && latenessesMs.some((ms) => ms < 0)) throw new Error('a task fired early')
  return { latenessesMs, cpu }
}
