/**
 * Opens, and schedules `count` tasks at each SIGUSR2, all at once: named by `name` and the round, due after `delayMs`.
 * It records the call before it is made, and every answer. SIGTERM closes.
 */
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from '../record.mjs'

const { name, count, delayMs } = options
const toc = await Tocsin.open({ ...options.open, logger })
const topic = toc.topic(options.topic, options.config)
let round = 0

async function schedule() {
  const prefix = `${name}-${++round}`
  const tasks = Array.from({ length: count }, (_, i) => ({
    key: `${prefix}-${i}`,
    delay: delayMs,
    payload: null,
  }))
  record('call', { name: prefix })
  try {
    for (const { key, dueAt, outcome } of await topic.scheduleMany(tasks))
      record('scheduled', { key, dueMs: dueAt.getTime(), outcome })
  } catch (error) {
    recordError('failure', error)
  }
}

process.on('SIGUSR2', () => void schedule())
// Nothing else keeps it: it only schedules.
const stay = setInterval(() => {}, 1_000)
process.once('SIGTERM', () => {
  clearInterval(stay)
  void toc.close().then(() => record('closed'))
})
record('ready')
