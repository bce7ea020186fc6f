/** Schedules `count` tasks that fall due evenly between `fromMs` and `toMs` from now, and ends. */
import { Tocsin } from 'tocsin'
import { logger, options, record } from './record.mjs'

const { count, fromMs, toMs } = options
const toc = await Tocsin.open({ ...options.open, logger })
const topic = toc.topic(options.topic, options.config)
const delayOf = (i) => Math.round(fromMs + ((toMs - fromMs) * i) / count)
const tasks = Array.from({ length: count }, (_, i) => ({ key: `k${i}`, delay: delayOf(i), payload: i }))
for (const { key, dueAt, outcome } of await topic.scheduleMany(tasks))
  record('scheduled', { key, dueMs: dueAt.getTime(), outcome })
await toc.close()
record('closed')
