/**
 * The figures of the suite 'timeout-center': those of any queue, how soon an emptied Redis is full again, and what far
 * tasks take in Redis.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { rateOf } from './load.mjs'
import { peer } from './peers.mjs'
import { tidy } from './postgres-server.mjs'
import { expectLeft, queueFigures, tasksFor } from './queue-figures.mjs'
import { restingBytes } from './redis-server.mjs'
import { postgresOf, tidied } from './tidied.mjs'

const SUITE = 'timeout-center'
/** Half of what other suites take: seconds of work, and a whole run in a quarter of an hour. */
const COUNT = 100_000
/** Within the hour that is resident in Redis by default, and after the end of the measurement. */
const SOON_MS = 1_800_000
/** The interval at which the keys in Redis are counted. */
const ASK_MS = 10

/** Scheduled before the memory of Redis is read for the first time: the topic itself takes some. */
const FIRST_COUNT = 1_000
const FAR_MS = 30 * 24 * 3_600_000

export const FIGURES = [...queueFigures(SUITE).flatMap(ours), rebuild(), farMemory()]

/** Single calls and cancelling are measured in other suites. As on Redis, a warm-up has as many tasks as are measured. */
function ours(figure) {
  switch (figure.id) {
    case `${SUITE}-bulk`:
      return [{ ...figure, count: COUNT, warmUpShare: 1 }]
    case `${SUITE}-burst`:
      return [{ ...tidied(figure), count: COUNT, warmUpShare: 1 }]
    case `${SUITE}-lateness`:
      return [tidied(figure)]
    default:
      return []
  }
}

function rebuild() {
  const id = `${SUITE}-rebuild`
  return {
    id,
    rows: [{ id, title: 'Redis emptied, filled from PostgreSQL', unit: 'tasks/s', better: 'more' }],
    count: COUNT,
    measure: async (queue, given) => ({ [id]: await rebuilt(queue, given) }),
  }
}

/** Whole bytes: what Redis keeps for a topic is some kilobytes, however many tasks it has. */
function farMemory() {
  const id = `${SUITE}-far-memory`
  return {
    id,
    rows: [{ id, title: 'Redis memory per task due in 30 days', unit: 'bytes', better: 'less' }],
    count: COUNT,
    // It does not depend on the speed of the machine.
    isOnce: true,
    async measure(queue, { place, count }) {
      const port = Number(new URL(redisOf(place)).port)
      const tasks = tasksFor(queue, FIRST_COUNT + count, () => Date.now() + FAR_MS)
      await queue.scheduleMany(tasks.slice(0, FIRST_COUNT))
      const beforeBytes = await restingBytes(port)
      await queue.scheduleMany(tasks.slice(FIRST_COUNT))
      await expectLeft(queue, FIRST_COUNT + count)
      return { [id]: Math.round(((await restingBytes(port)) - beforeBytes) / count) }
    },
  }
}

/** Measures from FLUSHALL until every task is in Redis again. The consumer of the topic refills it. */
async function rebuilt(queue, { place, count, watch }) {
  const Redis = peer('ioredis')
  const redis = new Redis(redisOf(place))
  const stop = await queue.consume(() => {
    throw new Error('a task fired early')
  }, 1)
  const atMs = Date.now() + SOON_MS
  await queue.scheduleMany(tasksFor(queue, count, () => atMs))
  await expectLeft(queue, count)
  await tidy(postgresOf(place))
  const lanes = await sortedSets(redis)
  while ((await membersIn(redis, lanes)) < count) await sleep(ASK_MS)
  const rated = await rateOf(count, watch, async () => {
    await redis.flushall()
    while ((await membersIn(redis, lanes)) < count) await sleep(ASK_MS)
  })
  await expectLeft(queue, count)
  await stop()
  redis.disconnect()
  return rated
}

/** The keys of the lanes: their names are the same after the refill. */
async function sortedSets(redis) {
  const names = []
  for await (const some of redis.scanStream({ type: 'zset', count: 1_000 })) names.push(...some)
  return names
}

async function membersIn(redis, names) {
  const pipeline = redis.pipeline()
  for (const name of names) pipeline.zcard(name)
  return (await pipeline.exec()).reduce((sum, [, members]) => sum + members, 0)
}

const redisOf = (place) => place.split(' ')[1]
