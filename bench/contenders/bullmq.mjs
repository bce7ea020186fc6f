/**
 * BullMQ at its best: see bench/README.md for what was tried. Finished jobs are removed, as Tocsin does; ioredis is
 * its own client.
 */
import { inFlight, inPieces } from '../load.mjs'
import { peer } from '../peers.mjs'

const NAME = 'orders'
/** Jobs in one `addBulk`, and how many of these calls at a time: the client prepares one while Redis works on the other. */
const CHUNK = 500
const CHUNKS_IN_FLIGHT = 2

export async function open(port) {
  const { Queue, Worker } = peer('bullmq')
  const connection = { host: '127.0.0.1', port }
  const queue = new Queue(NAME, {
    connection,
    defaultJobOptions: { removeOnComplete: true, removeOnFail: true },
  })
  await queue.waitUntilReady()
  return {
    taskOf: ({ key, payload, atMs }) => {
      const nowMs = Date.now()
      // A job is due at `timestamp` + `delay`: with both given, the time is exact.
      return { name: NAME, data: payload, opts: { jobId: key, timestamp: nowMs, delay: atMs - nowMs } }
    },
    scheduleMany: (jobs) =>
      inFlight(inPieces(jobs, CHUNK), CHUNKS_IN_FLIGHT, (piece) => queue.addBulk(piece)),
    schedule: ({ name, data, opts }) => queue.add(name, data, opts),
    cancel: async (key) => (await queue.remove(key)) === 1,
    consume: async (handle, concurrency) => {
      const worker = new Worker(NAME, async ({ id }) => handle(id), { connection, concurrency })
      await worker.waitUntilReady()
      return () => worker.close()
    },
    left: async () => {
      const { delayed, waiting, active, prioritized } = await queue.getJobCounts()
      return delayed + waiting + active + prioritized
    },
    close: () => queue.close(),
  }
}
