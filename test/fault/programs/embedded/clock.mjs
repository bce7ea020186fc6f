/**
 * Consumes a topic for a while on a clock that may be wrong, schedules what it is asked for first, and records each
 * start by its own clock.
 *
 *   tasks   { key, delay } or { key, at }
 */
import { openEmbedded } from './open.mjs'
import { options, record } from '../record.mjs'

const toc = await openEmbedded()
const topic = toc.topic(options.topic, options.config)
record('clock', { ms: Date.now() })
for (const task of options.tasks) {
  const { dueAt } = await topic.schedule({ ...task, payload: task.key })
  record('scheduled', { key: task.key, dueMs: dueAt.getTime() })
}
topic.consume(async ({ key, dueAt }) => record('start', { key, dueMs: dueAt.getTime(), ms: Date.now() }))
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('ready')
