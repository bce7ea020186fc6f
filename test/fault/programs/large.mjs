/**
 * Schedules `count` tasks of `bytes` each by one stream, consumes them all, and records now and then how much memory it
 * has taken.
 */
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from './record.mjs'

const { count, bytes } = options
const MEGABYTE = 1_000_000
const memory = () => {
  const { rss, heapUsed, external, arrayBuffers } = process.memoryUsage()
  const mb = (size) => Math.round(size / MEGABYTE)
  record('memory', {
    rssMb: mb(rss),
    heapMb: mb(heapUsed),
    externalMb: mb(external),
    buffersMb: mb(arrayBuffers),
  })
}
const watch = setInterval(memory, 100)
memory()

const toc = await Tocsin.open({ ...options.open, logger })
const topic = toc.topic(options.topic, options.config)
function* tasks() {
  // Each payload is a text of its own, as it would be if it came from a file or a socket.
  for (let i = 0; i < count; i++)
    yield { key: `k${i}`, delay: 0, payload: Buffer.alloc(bytes, `${i} `).toString('latin1') }
}
try {
  const scheduling = performance.now()
  const { created } = await topic.scheduleMany(tasks())
  record('scheduled', { created, ms: performance.now() - scheduling })
  const consuming = performance.now()
  let handled = 0
  await new Promise((resolve) => {
    topic.consumeBatch(async (batch) => {
      handled += batch.length
      if (handled === count) resolve()
    })
  })
  record('consumed', { handled, ms: performance.now() - consuming })
} catch (error) {
  recordError('failed', error)
}
clearInterval(watch)
await toc.close()
record('closed')
