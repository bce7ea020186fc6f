/**
 * Tocsin on Redis beside BullMQ and bee-queue. Each measurement has a process of its own (bench/redis-run.mjs) and a
 * Redis server of its own; the contenders take turns, so that a slow minute of the machine hits all of them.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { NEEDED, provision, thisHost } from '../scripts/provision.mjs'
import { installPeers, PEERS } from './peers.mjs'
import { FIGURES } from './redis-figures.mjs'
import { how, rawPairsPerSecond } from './redis-raw.mjs'
import { redisInfo, SETTINGS, startRedis } from './redis-server.mjs'

const CHILD = fileURLToPath(new URL('redis-run.mjs', import.meta.url))
const US = 'Tocsin'
const RIVAL = 'BullMQ'
const RAW = 'raw Redis'

const CONTENDERS = [
  { series: US, module: 'tocsin' },
  { series: RIVAL, module: 'bullmq' },
  { series: 'bee-queue', module: 'bee-queue' },
]

export const name = 'redis'
export const title = 'Timers in Redis, beside BullMQ and bee-queue'
export const figureIds = [...new Set(FIGURES.flatMap(({ id, rows }) => [id, ...rows.map((row) => row.id)]))]
export const notes = [
  `Redis without persistence (${SETTINGS.map((word) => word || '""').join(' ')}), on the same machine; handlers that do nothing.`,
  'BullMQ: addBulk of 500, 2 at a time, removeOnComplete. bee-queue: saveAll of 500, 2 at a time, removeOnSuccess, no events,',
  'no stored jobs, delayedDebounce 1 ms. The burst: 200 at a time; lateness: 64 at a time. What was tried: bench/README.md.',
  `Raw Redis: ${how}.`,
]

const less = { better: 'less', of: US, to: RIVAL }
const more = { better: 'more', of: US, to: RIVAL }
export const targets = [
  { id: 'P1', title: 'bulk schedule', figure: 'redis-bulk', ...more, must: 8, aim: 12 },
  { id: 'P2', title: 'single schedule calls', figure: 'redis-single', ...more, must: 5, aim: 8 },
  { id: 'P3', title: 'burst', figure: 'redis-burst', ...more, must: 6, aim: 9 },
  { id: 'P4', title: 'p99 lateness', figure: 'redis-lateness-p99', ...less, must: 1 / 8, aim: 1 / 20 },
  { id: 'P4', title: 'p99 lateness', figure: 'redis-lateness-p99', better: 'less', of: US, aim: 5 },
  { id: 'P5', title: 'memory per task', figure: 'redis-memory', ...less, must: 0.4, aim: 1 / 3 },
  { id: 'P6', title: 'cancel by key', figure: 'redis-cancel', ...more, must: 4, aim: 8 },
  { id: 'P13', title: 'bulk schedule', figure: 'redis-bulk', ...more, to: RAW, must: 0.8, aim: 1.2 },
]

/** Who was measured; known once the suite has run. */
export const versions = {}

export async function run({ runs, figureIds: wanted, progress }) {
  await prepare(progress)
  const plan = planOf(wanted)
  const rows = new Map()
  for (let nth = 1, step = 0; nth <= runs; nth++)
    for (const { figure, series, measure } of plan) {
      progress(`${++step} of ${runs * plan.length}: run ${nth}, ${figure.id}, ${series}`)
      const measured = await measure()
      for (const shape of figure.rows.filter(({ id }) => id in measured)) {
        const key = `${shape.id} ${series}`
        const ratioTo = series === US ? { ratioTo: RIVAL } : {}
        if (!rows.has(key)) rows.set(key, { ...shape, series, ...ratioTo, runs: [] })
        rows.get(key).runs.push(measured[shape.id])
      }
    }
  return [...rows.values()]
}

/** One turn of everybody at every figure. */
function planOf(wanted) {
  const figures = FIGURES.filter(({ id, rows }) =>
    [id, ...rows.map((row) => row.id)].some((any) => wanted.includes(any)),
  )
  return figures.flatMap((figure) => [
    ...CONTENDERS.map(({ series, module }) => ({ figure, series, measure: () => inAChild(figure, module) })),
    ...(figure.id === 'redis-bulk' ? [{ figure, series: RAW, measure: raw }] : []),
  ])
}

async function prepare(progress) {
  // Servers are ended by what runs when a process exits, which a signal by itself does not lead to.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])
    process.once(signal, () => process.exit(code))
  const needed = NEEDED.filter(({ program }) => program === 'redis-server')
  const isThere = await provision(needed, { ...thisHost(), say: (line) => console.error(line) })
  if (!isThere) throw new Error('the suite redis needs redis-server')
  await installPeers(progress)
  await withRedis(async ({ port }) => {
    versions.Redis = (await redisInfo(port)).redis_version
  })
  Object.assign(versions, { BullMQ: PEERS.bullmq, ioredis: PEERS.ioredis, 'bee-queue': PEERS['bee-queue'] })
}

function raw() {
  return withRedis(async ({ port }) => ({ 'redis-bulk': await rawPairsPerSecond(port) }))
}

function inAChild(figure, module) {
  return withRedis((server) =>
    withRedis(async (warmUpServer) => {
      const args = [figure.id, module, server.port, warmUpServer.port].map(String)
      const child = fork(CHILD, args, { execArgv: ['--expose-gc'] })
      let measured = null
      child.on('message', (message) => {
        measured = message
      })
      const [code, signal] = await once(child, 'exit')
      if (code === 0 && measured !== null) return measured
      throw new Error(
        `${figure.id} of ${module} failed (${signal ?? `exit code ${code}`}); it says why above`,
      )
    }),
  )
}

async function withRedis(work) {
  const server = await startRedis()
  try {
    return await work(server)
  } finally {
    await server.stop()
  }
}
