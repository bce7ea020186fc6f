/** Tocsin on Redis beside BullMQ and bee-queue, each measurement with a Redis server of its own. */
import { PEERS } from './peers.mjs'
import { using, withRedis } from './places.mjs'
import { idsIn, planOf, prepare, rowsOf } from './queue-suite.mjs'
import { FIGURES } from './redis-figures.mjs'
import { how, rawPairsPerSecond } from './redis-raw.mjs'
import { SETTINGS_TEXT, startRedis } from './redis-server.mjs'

const US = 'Tocsin'
const RIVAL = 'BullMQ'
const RAW = 'raw Redis'

const CONTENDERS = [
  { series: US, module: 'tocsin', within: withRedis },
  { series: RIVAL, module: 'bullmq', within: withRedis },
  { series: 'bee-queue', module: 'bee-queue', within: withRedis },
]

export const name = 'redis'
export const title = 'Timers in Redis, beside BullMQ and bee-queue'
export const figureIds = idsIn(FIGURES)
export const notes = [
  `Redis without persistence (${SETTINGS_TEXT}), on the same machine; handlers that do nothing.`,
  'BullMQ: addBulk of 500, 2 at a time, removeOnComplete. bee-queue: saveAll of 500, 2 at a time, removeOnSuccess, no events,',
  'no stored jobs, delayedDebounce 1 ms. The burst: 200 at a time; lateness: 64 at a time. What was tried: bench/README.md.',
  `Raw Redis: ${how}.`,
]

const less = { better: 'less', of: US, to: RIVAL }
const more = { better: 'more', of: US, to: RIVAL }
export const targets = [
  { id: 'P1', title: 'bulk schedule', figure: 'redis-bulk', ...more, must: 8, aim: 12 },
  { id: 'P2', title: 'single schedule calls, concurrent', figure: 'redis-single', ...more, must: 5, aim: 8 },
  { id: 'P3', title: 'burst, concurrency 200', figure: 'redis-burst', ...more, must: 6, aim: 9 },
  {
    id: 'P4',
    title: 'p99 lateness at 1,000 tasks/s',
    figure: 'redis-lateness-p99',
    ...less,
    must: 1 / 8,
    aim: 1 / 20,
  },
  {
    id: 'P4',
    title: 'p99 lateness at 1,000 tasks/s',
    figure: 'redis-lateness-p99',
    better: 'less',
    of: US,
    unit: 'ms',
    aim: 5,
  },
  { id: 'P5', title: 'Redis memory per task', figure: 'redis-memory', ...less, must: 0.4, aim: 1 / 3 },
  { id: 'P6', title: 'cancel by key, concurrent', figure: 'redis-cancel', ...more, must: 4, aim: 8 },
  { id: 'P13', title: 'bulk schedule', figure: 'redis-bulk', ...more, to: RAW, must: 0.8, aim: 1.2 },
]

/** Versions of the contenders; set by `run`. */
export const versions = {}

export async function run({ runs, count, figureIds: wanted, progress }) {
  versions.Redis = await prepare(name, progress)
  Object.assign(versions, { BullMQ: PEERS.bullmq, ioredis: PEERS.ioredis, 'bee-queue': PEERS['bee-queue'] })
  const plan = planOf(name, FIGURES, CONTENDERS, wanted, count)
  const after = plan.findLastIndex(({ figure }) => figure.id === 'redis-bulk')
  if (after >= 0) plan.splice(after + 1, 0, { figure: plan[after].figure, series: RAW, measure: raw })
  return rowsOf(plan, { runs, us: US, rival: RIVAL, progress })
}

function raw() {
  return using(startRedis, async (server) => ({ 'redis-bulk': await rawPairsPerSecond(server) }))
}
