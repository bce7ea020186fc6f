/**
 * A node of the suite 'cluster': `node bench/cluster-node.mjs <port of Redis> <name> <topic> <concurrency> <work ms>`.
 * Reports now and then how many tasks have ended since the last report, when the first began (or null) and the last ended.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'

const TELL_EVERY_MS = 100

// The parent process is gone, and the server with it: without this the client would reconnect for ever.
process.on('disconnect', () => process.exit())

const [port, node, topic, concurrency, workMs] = process.argv.slice(2)
let handled = 0
let firstMs = null
let lastMs = 0

const toc = await Tocsin.open({ timetable: `redis://127.0.0.1:${port}`, node })
toc.topic(topic).consume(
  async () => {
    firstMs ??= Date.now()
    await sleep(Number(workMs))
    lastMs = Date.now()
    handled++
  },
  { concurrency: Number(concurrency) },
)

setInterval(() => {
  if (handled === 0) return
  process.send({ handled, firstMs, lastMs })
  handled = 0
  firstMs = null
}, TELL_EVERY_MS)
