/**
 * The throughput of 1, 2 and 4 processes that consume one topic in Redis. The handler only waits, as for a remote
 * service. Each measurement has its own Redis server and processes (bench/cluster-node.mjs).
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { cpuWatch } from './cpu.mjs'
import { emptyClaimsOfOwners, emptyClaimsOfTurns } from './empty-claims.mjs'
import { orders } from './load.mjs'
import { prepareServers, rowsOf } from './queue-suite.mjs'
import { SETTINGS_TEXT, startRedis } from './redis-server.mjs'

const NODES = [1, 2, 4]
/** Low enough that no node is busy: 16 ÷ 10 ms is at most 1,600 tasks per second and node. */
const CONCURRENCY = 16
const WORK_MS = 10
/** Per node, so that each measurement takes about five seconds. */
const TASKS_PER_NODE = 8_000
const WARM_UP_PER_NODE = 1_000
const TOPIC = 'orders'
const SLOTS = 16
/** The pause between the last schedule and the time the tasks are due. */
const SETTLE_MS = 1_000
/** CPU times are read this long before the tasks are due. */
const WATCH_BEFORE_MS = 50

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
  `Redis without persistence (${SETTINGS_TEXT}), on the same machine as all nodes. Handlers wait ${WORK_MS} ms, ${CONCURRENCY} at a`,
  `time in each node: no more than ${((CONCURRENCY * 1000) / WORK_MS).toLocaleString('en-US')} tasks per second and node. ${TASKS_PER_NODE.toLocaleString('en-US')} tasks to each node, all due at one instant, ${SLOTS} slots;`,
  'from the start of the first handler to the end of the last.',
]
export const targets = [
  {
    id: 'P10',
    title: `throughput, a handler that waits ${WORK_MS} ms, concurrency ${CONCURRENCY}`,
    figure: FIGURE.id,
    better: 'more',
    of: MOST,
    to: FEWEST,
    must: 3.5,
    aim: 3.9,
  },
]

/** Versions of what was measured; set by `run`. */
export const versions = {}

export async function run({ runs, count = TASKS_PER_NODE, figureIds: wanted, progress }) {
  versions.Redis = await prepareServers(name)
  const plan = NODES.map((nodes) => ({
    figure: { id: FIGURE.id, rows: [FIGURE] },
    series: seriesOf(nodes),
    measure: async () => ({ [FIGURE.id]: await measured(nodes, count * nodes) }),
  }))
  const rows = wanted.includes(FIGURE.id)
    ? await rowsOf(plan, { runs, us: MOST, rival: FEWEST, progress })
    : []
  if (!wanted.includes(EMPTY_CLAIMS.id)) return rows
  progress(`${EMPTY_CLAIMS.id}: two minutes`)
  return [...rows, ...(await emptyClaims())]
}

/** One run only: it counts claims, which does not depend on the speed of the machine. */
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

/** Measures the tasks per second of this many nodes, and their CPU time per task. */
async function measured(nodes, count) {
  // Imported here: other suites do not need the built package.
  const { Tocsin } = await import('tocsin')
  const redis = await startRedis()
  const toc = await Tocsin.open({ timetable: `redis://127.0.0.1:${redis.port}`, node: 'bench' })
  const workers = []
  try {
    const topic = toc.topic(TOPIC, { slots: SLOTS })
    for (let n = 0; n < nodes; n++) workers.push(new Worker(redis.port, n))
    await dealt(toc, nodes)
    // Warms up the compiler, and measures how fast tasks are scheduled on this machine.
    const warmUps = WARM_UP_PER_NODE * nodes
    const startedMs = Date.now()
    await topic.scheduleMany(orders(count, warmUps, () => ({ delay: 0 })))
    const perMs = warmUps / (Date.now() - startedMs)
    await until(() => handledBy(workers) === warmUps, 'the warm-up')
    for (const worker of workers) worker.reset()
    const dueMs = Math.ceil(Date.now() + SETTLE_MS + (3 * count) / perMs)
    await topic.scheduleMany(orders(0, count, () => ({ at: dueMs })))
    if (Date.now() >= dueMs) throw new Error('the tasks were due before all of them were scheduled')
    await dealt(toc, nodes)
    const nodeProcesses = workers.map(({ pid }) => ({ name: 'node', pid }))
    const watch = cpuWatch([...nodeProcesses, redis.process])
    await sleep(dueMs - WATCH_BEFORE_MS - Date.now())
    watch.start()
    await until(() => handledBy(workers) >= count, 'all tasks')
    await until(async () => (await topic.counts()).claimed === 0, 'all outcomes')
    const cpu = watch.stop(count)
    if (handledBy(workers) !== count) throw new Error(`${handledBy(workers)} calls for ${count} tasks`)
    const firstMs = Math.min(...workers.map((worker) => worker.firstMs))
    const lastMs = Math.max(...workers.map((worker) => worker.lastMs))
    if (firstMs < dueMs) throw new Error('a task fired early')
    return { value: (count * 1000) / (lastMs - firstMs), cpu }
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()))
    await toc.close()
    await redis.stop()
  }
}

/** Waits until every slot has exactly one owner, and the nodes' numbers of slots differ by at most one. */
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

/** A node: a process that consumes the topic and reports what it has handled. */
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

  get pid() {
    return this.#child.pid
  }

  async stop() {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return
    const ended = once(this.#child, 'exit')
    this.#child.kill('SIGKILL')
    await ended
  }
}
