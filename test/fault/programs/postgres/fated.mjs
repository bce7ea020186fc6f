/**
 * Consumes a topic and handles each task as its key says, and records each start and each end.
 *
 *   fail-…   the first attempt fails
 *   dead-…   it is declared dead
 *   held-…   its handler ends at SIGUSR2
 *
 * SIGTERM closes.
 */
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from '../record.mjs'

const toc = await Tocsin.open({ ...options.open, logger })
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
toc.on('dead', ({ key, cause }) => record('dead', { key, cause }))

let letGo
const held = new Promise((resolve) => (letGo = resolve))
process.on('SIGUSR2', () => letGo())

toc.topic(options.topic, options.config).consume(
  async ({ key, payload, dueAt, attempt, deliveries, latenessMs }) => {
    record('start', { key, payload, dueMs: dueAt.getTime(), attempt, deliveries, latenessMs })
    if (key.startsWith('fail-') && attempt === 1) throw new Error('the first attempt fails')
    if (key.startsWith('held-')) await held
    record('end', { key })
    return key.startsWith('dead-') ? { dead: 'its key says so' } : undefined
  },
  { concurrency: options.concurrency },
)
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('ready')
