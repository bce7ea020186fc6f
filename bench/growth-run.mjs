/**
 * A store that grows, in a process of its own: `node --expose-gc bench/growth-run.mjs <JSON>`, with
 * `{ store, place, warmUpPlace, processes }`: see bench/places.mjs. Answers each message of its parent process:
 *
 *   { fillTo: 1_000_000 }     once so many tasks are pending, by Tocsin and without it
 *   { measure: 50_000 }       the result of each figure, with so many tasks more; afterwards they are gone
 */
import { open } from './contenders/tocsin.mjs'
import { cpuWatch, thisProcess } from './cpu.mjs'
import { openPostgres, openRedis, openSqlite } from './growth-raw.mjs'
import { keyOf, orders, rateOf, tallyTo } from './load.mjs'
import { tidy } from './postgres-server.mjs'
import { bulk, cancelled, drained, TooSlow } from './queue-figures.mjs'
import { dueMsAmong, dueMsOf } from './spread.mjs'

const RAW = { redis: openRedis, postgres: openPostgres, embedded: openSqlite }
const WARM_UP = 5_000

// The parent process is gone, and the servers with it.
process.on('disconnect', () => process.exit())

const { store, place, warmUpPlace, processes } = JSON.parse(process.argv[2])

const warmUp = await opened(warmUpPlace)
await warmUp.measure(WARM_UP)
await warmUp.close()
const growing = await opened(place)
process.on('message', (message) => void answer(message))
process.send('ready')

/** An error ends this process: the parent process is told by its exit. */
async function answer({ fillTo, measure }) {
  process.send(fillTo === undefined ? await growing.measure(measure) : await growing.fillTo(fillTo))
}

async function opened(where) {
  const queue = await open(where, {})
  const raw = await RAW[store](where)
  const watch = cpuWatch([thisProcess(), ...processes])
  let pending = 0

  /** A stream: an array of ten million tasks would take gigabytes. */
  function* tasksFrom(from, count) {
    for (const task of orders(from, count, (n) => ({ atMs: dueMsOf(n) }))) yield queue.taskOf(task)
  }

  async function fillTo(size) {
    const more = size - pending
    await queue.scheduleMany({ values: () => tasksFrom(pending, more) })
    await raw.insert(pending, more, dueMsOf)
    pending = size
    if (store === 'postgres') await tidy(where.split(' ')[0])
    return { pending: await queue.left() }
  }

  /** The tasks that are measured have the keys after those of the pending ones, which are not counted. */
  const numberOf = (key) => Number(key.slice('order-'.length))
  const shifted = (key) => keyOf(pending + numberOf(key))
  const beside = {
    ...queue,
    taskOf: (task) => queue.taskOf({ ...task, key: shifted(task.key) }),
    cancel: (key) => queue.cancel(shifted(key)),
    left: async () => (await queue.left()) - pending,
  }
  const far = {
    ...beside,
    taskOf: (task) => beside.taskOf({ ...task, atMs: dueMsAmong(numberOf(task.key), pending) }),
  }

  async function measure(count) {
    const given = { count, watch, slack: 1 }
    const inserted = await bulk(far, given)
    const rawInserted = await rateOf(count, watch, () =>
      raw.insert(pending, count, (n) => dueMsAmong(n - pending, pending)),
    )
    const removed = await cancelled(far, given)
    const rawRemoved = await rateOf(count, watch, () => raw.remove(pending, count))
    return {
      [`growth-${store}-bulk`]: inserted,
      [`growth-${store}-raw-insert`]: rawInserted,
      [`growth-${store}-drain`]: await drain(given),
      [`growth-${store}-cancel`]: removed,
      [`growth-${store}-raw-delete`]: rawRemoved,
    }
  }

  async function drain(given) {
    try {
      return await drained(beside, given)
    } catch (error) {
      if (!(error instanceof TooSlow) || given.slack > 9) throw error
      const tally = tallyTo(await beside.left())
      const stop = beside.consume(() => tally.note(1), 200)
      await tally.reached
      await stop()
      return drain({ ...given, slack: given.slack * 3 })
    }
  }

  const close = async () => {
    await raw.close()
    await queue.close()
  }
  return { fillTo, measure, close }
}
