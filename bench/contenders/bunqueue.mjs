/** bunqueue, embedded and durable, at its best: see bench/README.md for what was tried. It runs on Bun alone. */
import { join } from 'node:path'
import { inPieces } from '../load.mjs'
import { peer } from '../peers.mjs'

const NAME = 'orders'
/** Jobs in one `addBulk`: a transaction each. */
const CHUNK = 10_000
/** Jobs that a worker pulls at once; 1,000 is the most. */
const PULL = 1_000
/** The polling interval for due jobs; 50 ms by default. */
const DRAIN_DELAY_MS = 1

export async function open(folder) {
  const { Queue, shutdownManager, Worker } = peer('bunqueue/client')
  const where = { embedded: true, dataPath: join(folder, 'bunqueue.db') }
  const queue = new Queue(NAME, {
    ...where,
    // Without `durable` a job is acknowledged before it is written.
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true, durable: true },
  })
  return {
    taskOf: ({ key, payload, atMs }) => {
      const nowMs = Date.now()
      // A job is due at `timestamp` + `delay`: with both given, the time is exact.
      return { name: NAME, data: payload, opts: { jobId: key, timestamp: nowMs, delay: atMs - nowMs } }
    },
    scheduleMany: async (jobs) => {
      for (const piece of inPieces(jobs, CHUNK)) await queue.addBulk(piece)
    },
    schedule: ({ name, data, opts }) => queue.add(name, data, opts),
    // The reply does not tell whether a job was removed.
    cancel: async (key) => {
      await queue.removeAsync(key)
      return true
    },
    consume: (handle, concurrency) => {
      const worker = new Worker(NAME, async ({ id }) => handle(id), {
        ...where,
        concurrency,
        batchSize: PULL,
        drainDelay: DRAIN_DELAY_MS,
      })
      return () => worker.close()
    },
    left: async () => {
      const { delayed, waiting, active, prioritized } = await queue.getJobCountsAsync()
      return delayed + waiting + active + prioritized
    },
    close: async () => {
      await queue.close()
      await shutdownManager()
    },
  }
}
