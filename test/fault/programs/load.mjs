/**
 * Schedules and cancels, one call after the other in each of `loops`, until SIGUSR2, and records every answer and
 * every failure with the time it took. What may be retried is; what has an unknown outcome is left at that.
 *
 *   consume   also handles the tasks, in this very process
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from './record.mjs'

const RETRY_MS = 20
const CANCEL_EVERY = 4

const toc = await Tocsin.open({ ...options.open, logger })
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
const topic = toc.topic(options.topic, options.config)
if (options.consume) {
  topic.consume(async ({ key, dueAt, deliveries }) => {
    record('start', { key, dueMs: dueAt.getTime(), deliveries })
    record('end', { key })
  })
}

let goesOn = true
process.on('SIGUSR2', () => (goesOn = false))

async function call(name, key, run) {
  for (;;) {
    const began = performance.now()
    const tookMs = () => performance.now() - began
    try {
      const { outcome, dueAt } = await run()
      record('answer', { name, key, outcome, dueMs: dueAt?.getTime() ?? null, ms: tookMs() })
      return true
    } catch (error) {
      recordError('failure', error, { name, key, ms: tookMs() })
      if (error.retryable !== true) return false
      await sleep(RETRY_MS)
    }
  }
}

async function loop(name) {
  for (let i = 0; goesOn; i++) {
    const key = `${name}-${i}`
    const delay = 200 + ((i * 37) % 800)
    const isIn = await call('schedule', key, () => topic.schedule({ key, delay, payload: i }))
    if (isIn && i % CANCEL_EVERY === 0) await call('cancel', key, () => topic.cancel(key))
    if (options.paceMs > 0) await sleep(options.paceMs)
  }
}

process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('ready')
await Promise.all(Array.from({ length: options.loops }, (_, i) => loop(`loop${i}`)))
record('finished')
