/**
 * Schedules tasks with large payloads, one call after the other in each of `lanes`, and consumes them. A call that
 * failed and may be repeated is repeated, a little later. SIGUSR2 ends the scheduling, SIGTERM closes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { openEmbedded } from './open.mjs'
import { options, record, recordError } from '../record.mjs'

const { lanes, delayMs, payloadBytes } = options
const RETRY_MS = 100

const toc = await openEmbedded()
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
const topic = toc.topic(options.topic, options.config)
const textOf = (key) => `${key};`.repeat(Math.ceil(payloadBytes / (key.length + 1)))
topic.consume(async ({ key, payload, dueAt, deliveries }) => {
  const isIntact = payload.text === textOf(key)
  record('start', { key, v: 1, isIntact, dueMs: dueAt.getTime(), deliveries })
})

let goesOn = true
async function lane(number) {
  for (let i = 0; goesOn; i++) {
    const key = `${number}-${i}`
    while (goesOn) {
      record('call', { name: 'schedule', key, v: 1 })
      try {
        const { outcome, dueAt, inFlight } = await topic.schedule({
          key,
          delay: delayMs,
          payload: { text: textOf(key) },
        })
        record('answer', { name: 'schedule', key, v: 1, outcome, inFlight, dueMs: dueAt.getTime() })
        break
      } catch (error) {
        recordError('failure', error, { name: 'schedule', key })
        if (error.retryable !== true) throw error
        await sleep(RETRY_MS)
      }
    }
  }
}

process.on('SIGUSR2', () => (goesOn = false))
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('ready')
await Promise.all(Array.from({ length: lanes }, (_, number) => lane(number)))
record('finished')
