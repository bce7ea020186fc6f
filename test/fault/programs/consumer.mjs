/**
 * Consumes a topic and records each start and each end of its handler.
 *
 *   workMs      how long a handler takes
 *   hangEvery   each nth handler never ends
 *   hold        handlers whose key begins with this end at SIGUSR2
 *
 * SIGUSR2 lets go of what is held and records the processor time used so far; SIGTERM closes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from './record.mjs'

const { workMs = 0, hangEvery = Number.POSITIVE_INFINITY, hold = null } = options
const toc = await Tocsin.open({ ...options.open, logger })
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
toc.on('dead', ({ key, cause }) => record('dead', { key, cause }))

let letGo
const held = new Promise((resolve) => (letGo = resolve))
let starts = 0

const consumer = toc.topic(options.topic, options.config).consume(
  async ({ key, id, dueAt, attempt, deliveries, latenessMs }, { signal }) => {
    record('start', { key, id, dueMs: dueAt.getTime(), attempt, deliveries, latenessMs })
    signal.addEventListener('abort', () => record('abort', { key, code: signal.reason.code }))
    if (++starts % hangEvery === 0) await new Promise(() => {})
    if (hold !== null && key.startsWith(hold)) await held
    else if (workMs > 0) await sleep(workMs)
    record('end', { key })
  },
  { concurrency: options.concurrency },
)

const userMs = () => (process.cpuUsage().user + process.cpuUsage().system) / 1000
process.on('SIGUSR2', () => {
  letGo()
  record('cpu', { ms: userMs() })
})
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed', { stale: consumer.staleCount }))
})
record('ready')
