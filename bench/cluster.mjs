/**
 * Tocsin with 1, 2 and 4 processes that consume one topic in Redis, and a handler that waits: what more nodes are worth
 * where the work is elsewhere. Each measurement has a Redis server and processes of its own (bench/cluster-node.mjs).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { NEEDED, provision, thisHost } from '../scripts/provision.mjs'
import { emptyClaimsOfOwners, emptyClaimsOfTurns } from './empty-claims.mjs'
import { orders } from './load.mjs'
import { redisInfo, SETTINGS_TEXT, startRedis } from './redis-server.mjs'

const NODES = [1, 2, 4]
/** Few enough that no node has much to do by itself: 16 ÷ 10 ms is at most 1,600 tasks per second and node. */
const CONCURRENCY = 16
const WORK_MS = 10
/** To each node, so that each measurement takes as long: about five seconds. */
const TASKS_PER_NODE = 8_000
const WARM_UP_PER_NODE = 1_000
const TOPIC = 'orders'
const SLOTS = 16
/** For so long nothing happens before the tasks are due. */
const SETTLE_MS = 1_000

const seriesOf = (nodes) => `${nodes} ${nodes === 1 ? 'node' : 'nodes'}`
const [FEWEST, MOST] = [seriesOf(NODES[0]), seriesOf(NODES.at(-1))]
const FIGURE = {
  id: 'cluster-throughput',
  title: `a handler that waits ${WORK_MS} ms`,
  unit: 'tasks/s',
  better: 'more',
}

const EMPTY_CLAIMS = {
  id: 'empty-claims',
  title: 'empty claims, 600 tasks on 4 nodes',
  unit: 'claims',
  better: 'less',
}
const EMPTY_TASKS = 600
const EMPTY_SPAN_MS = 60_000
const OWNERS = 'owned slots'
const TURNS = 'INCR and modulo'

export const name = 'cluster'
export const title = 'One topic, consumed by several processes'
export const figureIds = [FIGURE.id, EMPTY_CLAIMS.id]
export const notes = [
  `Redis without persistence (${SETTINGS_TEXT}), on the same machine, as are all nodes. Handlers wait ${WORK_MS} ms, ${CONCURRENCY} at a`,
  `time in each node: no more than ${((CONCURRENCY * 1000) / WORK_MS).toLocaleString('en-US')} tasks per second and node. ${TASKS_PER_NODE.toLocaleString('en-US')} tasks to each node, all due at one instant, ${SLOTS} slots;`,
  'from the start of the first handler to the end of the last.',
]
export const targets = [
  {
    id: 'P10',
    title: 'throughput of more nodes',
    figure: FIGURE.id,
    better: 'more',
    of: MOST,
    to: FEWEST,
    must: 3.5,
    aim: 3.9,
  },
]

/** Of what was measured; known once the suite has run. */
export const versions = {}

export async function run({ runs, count = TASKS_PER_NODE, progress }) {
  await prepare()
  const rows = NODES.map((nodes) => ({
    ...FIGURE,
    series: seriesOf(nodes),
    ...(seriesOf(nodes) === MOST ? { ratioTo: FEWEST } : {}),
    runs: [],
  }))
  // They take turns, so that a slow minute of the machine hits all of them.
  for (let nth = 1, step = 0; nth <= runs; nth++)
    for (const [i, nodes] of NODES.entries()) {
      progress(`${++step} of ${runs * NODES.length}: run ${nth}, ${FIGURE.id}, ${seriesOf(nodes)}`)
      rows[i].runs.push(await measured(nodes, count * nodes))
    }
  progress(`${EMPTY_CLAIMS.id}: two minutes`)
  return [...rows, ...(await emptyClaims())]
}

/** Once: it is a count of what is done, not of how fast. */
async function emptyClaims() {
  const { Tocsin } = await import('tocsin')
  const [owners, turns] = [await startRedis(), await startRedis()]
  const toc = await Tocsin.open({ timetable: `redis://127.0.0.1:${owners.port}`, node: 'bench' })
  const startNodes = async (count) => {
    toc.topic(TOPIC, { slots: SLOTS })
    const workers = Array.from({ length: count }, (_, n) => new Worker(owners.port, n))
    await dealt(toc, count)
    return {
      handled: () => handledBy(workers),
      stop: () => Promise.all(workers.map((worker) => worker.stop())),
    }
  }
  try {
    const owned = { port: owners.port, topic: TOPIC, toc, startNodes }
    const ofOwners = await emptyClaimsOfOwners(owned, EMPTY_TASKS, EMPTY_SPAN_MS)
    const ofTurns = await emptyClaimsOfTurns(turns.port, EMPTY_TASKS, EMPTY_SPAN_MS)
    return [
      { ...EMPTY_CLAIMS, series: OWNERS, ratioTo: TURNS, runs: [ofOwners] },
      { ...EMPTY_CLAIMS, series: TURNS, runs: [ofTurns] },
    ]
  } finally {
    await toc.close()
    await Promise.all([owners.stop(), turns.stop()])
  }
}

async function prepare() {
  // The server is ended by what runs when a process exits, which a signal by itself does not lead to.
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ])
    process.once(signal, () => process.exit(code))
  const needed = NEEDED.filter(({ program }) => program === 'redis-server')
  const isThere = await provision(needed, { ...thisHost(), say: (line) => console.error(line) })
  if (!isThere) throw new Error(`the suite ${name} needs redis-server`)
}

/** Tasks per second of so many nodes. */
async function measured(nodes, count) {
  // Here, not above: who measures something else need not have it built.
  const { Tocsin } = await import('tocsin')
  const redis = await startRedis()
  const toc = await Tocsin.open({ timetable: `redis://127.0.0.1:${redis.port}`, node: 'bench' })
  const workers = []
  try {
    versions.Redis ??= (await redisInfo(redis.port)).redis_version
    const topic = toc.topic(TOPIC, { slots: SLOTS })
    for (let n = 0; n < nodes; n++) workers.push(new Worker(redis.port, n))
    await dealt(toc, nodes)
    // Lets the compiler see the code that will be measured, and says how fast tasks are scheduled here.
    const warmUps = WARM_UP_PER_NODE * nodes
    const startedMs = Date.now()
    await topic.scheduleMany(orders(count, warmUps, () => ({ delay: 0 })))
    const perMs = warmUps / (Date.now() - startedMs)
    await until(() => handledBy(workers) === warmUps, 'the warm-up')
    for (const worker of workers) worker.reset()
    const dueMs = Math.ceil(Date.now() + SETTLE_MS + (3 * count) / perMs)
    await topic.scheduleMany(orders(0, count, () => ({ at: dueMs })))
    if (Date.now() >= dueMs) throw new Error('the tasks were due before they were all there')
    await dealt(toc, nodes)
    await until(() => handledBy(workers) >= count, 'all tasks')
    await until(async () => (await topic.counts()).claimed === 0, 'all outcomes')
    if (handledBy(workers) !== count) throw new Error(`${handledBy(workers)} calls for ${count} tasks`)
    const firstMs = Math.min(...workers.map((worker) => worker.firstMs))
    const lastMs = Math.max(...workers.map((worker) => worker.lastMs))
    if (firstMs < dueMs) throw new Error('a task fired early')
    return (count * 1000) / (lastMs - firstMs)
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()))
    await toc.close()
    await redis.stop()
  }
}

/** So many nodes have all slots, each slot one of them, and none more than one more than another. */
async function dealt(toc, nodes) {
  await until(async () => {
    const shares = (await toc.nodes())
      .map(({ slots }) => slots[TOPIC] ?? [])
      .filter(({ length }) => length > 0)
    const counts = shares.map(({ length }) => length)
    const isFair = Math.max(...counts) - Math.min(...counts) <= 1
    return (
      shares.length === nodes &&
      isFair &&
      shares.flat().length === SLOTS &&
      new Set(shares.flat()).size === SLOTS
    )
  }, 'the slots to be dealt')
}

const handledBy = (workers) => workers.reduce((sum, { handled }) => sum + handled, 0)

async function until(holds, what, withinMs = 120_000) {
  for (const startedMs = performance.now(); !(await holds()); await sleep(20))
    if (performance.now() - startedMs > withinMs) throw new Error(`waited ${withinMs} ms for ${what}`)
}

/** A node: a process that consumes the topic and says what it has done. */
class Worker {
  #child
  handled = 0
  firstMs = Number.POSITIVE_INFINITY
  lastMs = 0

  constructor(port, nth) {
    const script = fileURLToPath(new URL('cluster-node.mjs', import.meta.url))
    this.#child = fork(script, [String(port), `node-${nth}`, TOPIC, String(CONCURRENCY), String(WORK_MS)])
    this.#child.on('message', ({ handled, firstMs, lastMs }) => {
      this.handled += handled
      this.firstMs = Math.min(this.firstMs, firstMs ?? Number.POSITIVE_INFINITY)
      this.lastMs = Math.max(this.lastMs, lastMs)
    })
  }

  reset() {
    this.handled = 0
    this.firstMs = Number.POSITIVE_INFINITY
    this.lastMs = 0
  }

  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }
}
