/**
 * A node: consumes a topic, and records each start and each end of its handler, which slots it has, and what it warns of.
 *
 *   workMs      how long a handler takes
 *
 * SIGTERM closes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { options, record, recordError } from '../../fault/programs/record.mjs'

const { workMs = 0, concurrency } = options
const log = (level) => (fields, message) =>
  record('log', { level, message, node: fields.node, aheadMs: fields.aheadMs })
const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }

const toc = await Tocsin.open({ ...options.open, logger })
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
toc.on('dead', ({ key, cause }) => record('dead', { key, cause }))
toc.on('slots', ({ owned }) => record('slots', { owned }))

toc.topic(options.topic, options.config).consume(
  async ({ key, dueAt, deliveries, latenessMs }) => {
    // This clock is the same in all processes of a machine, and is never adjusted.
    const monotonicMs = Number(process.hrtime.bigint()) / 1_000_000
    record('start', { key, dueMs: dueAt.getTime(), deliveries, latenessMs, monotonicMs })
    if (workMs > 0) await sleep(workMs)
    record('end', { key })
  },
  { concurrency },
)
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('ready', { ms: Date.now() })
