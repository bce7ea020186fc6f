/**
 * Schedules `count` tasks by a delay and consumes the topic, on a clock that is wrong. Its records go by the clock of
 * the machine.
 */
import { Tocsin } from 'tocsin'
import { logger, options, record } from './record.mjs'

const { name, count, delayMs } = options
const toc = await Tocsin.open({ ...options.open, logger })
const topic = toc.topic(options.topic, options.config)
topic.consume(async ({ key, dueAt, latenessMs }) => {
  record('start', { key, dueMs: dueAt.getTime(), latenessMs })
})
record('clock', { ms: Date.now() })
for (let i = 0; i < count; i++) {
  const key = `${name}-${i}`
  const { dueAt } = await topic.schedule({ key, delay: delayMs, payload: name })
  record('scheduled', { key, dueMs: dueAt.getTime() })
  const { createdAt } = (await topic.get(key)) ?? {}
  record('created', { key, ms: createdAt?.getTime() ?? null })
}
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
record('finished')
