/** The figures of the suite 'timeout-center': those of any queue, and how soon an emptied Redis is full again. */
import { setTimeout as sleep } from 'node:timers/promises'
import { rateOf } from './load.mjs'
import { peer } from './peers.mjs'
import { tidy } from './postgres-server.mjs'
import { expectLeft, queueFigures, tasksFor } from './queue-figures.mjs'

const SUITE = 'timeout-center'
/** Long enough for several scans of a table that is scanned every ten seconds: one task is due every millisecond. */
const LATENESS_COUNT = 40_000
/** Within the hour that is resident in Redis by default, and after the end of the measurement. */
const SOON_MS = 1_800_000
/** The interval at which the keys in Redis are counted. */
const ASK_MS = 10

export const FIGURES = [...queueFigures(SUITE).flatMap(ours), rebuild()]

/** Single calls and cancelling are measured in other suites. */
function ours(figure) {
  switch (figure.id) {
    case `${SUITE}-bulk`:
      return [figure]
    case `${SUITE}-burst`:
      return [tidied(figure)]
    case `${SUITE}-lateness`:
      return [{ ...tidied(figure), count: LATENESS_COUNT }]
    default:
      return []
  }
}

/** Runs VACUUM between scheduling and the first due task. */
function tidied(figure) {
  return {
    ...figure,
    measure: (queue, given) =>
      figure.measure({ ...queue, settleDown: () => tidy(postgresOf(given.place)) }, given),
  }
}

function rebuild() {
  const id = `${SUITE}-rebuild`
  return {
    id,
    rows: [{ id, title: 'Redis emptied, filled from PostgreSQL', unit: 'tasks/s', better: 'more' }],
    count: 200_000,
    measure: async (queue, given) => ({ [id]: await rebuilt(queue, given) }),
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

const postgresOf = (place) => place.split(' ')[0]
const redisOf = (place) => place.split(' ')[1]
