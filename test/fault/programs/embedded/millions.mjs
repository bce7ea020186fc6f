/**
 * Consumes a topic, schedules `count` tasks due `farMs` from now in one call, then a few that are due at once, and
 * records now and then how much memory it has taken.
 */
import { openEmbedded } from './open.mjs'
import { options, record } from '../record.mjs'

const { count, farMs, near } = options
const MEGABYTE = 1_000_000
const rssMb = () => process.memoryUsage().rss / MEGABYTE

const toc = await openEmbedded()
const topic = toc.topic(options.topic, options.config)
topic.consume(async ({ key, latenessMs }) => record('start', { key, latenessMs }))
record('ready', { rssMb: rssMb() })
const watch = setInterval(() => record('memory', { rssMb: rssMb() }), 200)

const farFrom = Date.now() + farMs
function* tasks() {
  for (let i = 0; i < count; i++)
    yield { key: `far-${i}`, at: farFrom + (i % 1_000_000), payload: { order: i } }
}
const began = performance.now()
const { created } = await topic.scheduleMany(tasks())
record('scheduled', { created, ms: performance.now() - began })
await topic.scheduleMany(
  Array.from({ length: near }, (_, i) => ({ key: `near-${i}`, delay: 200, payload: { order: i } })),
)
record('near')
process.on('SIGTERM', () => {
  clearInterval(watch)
  const closing = performance.now()
  void toc.close().then(() => record('closed', { ms: performance.now() - closing }))
})
