/** bee-queue at its best: see bench/README.md for what was tried. */
import { inFlight, inPieces } from '../load.mjs'
import { peer } from '../peers.mjs'

/** Jobs in one `saveAll`, and how many of these calls at a time: the client prepares one while Redis works on the other. */
const CHUNK = 500
const CHUNKS_IN_FLIGHT = 2

export async function open(port) {
  const Queue = peer('bee-queue')
  const settings = {
    redis: { host: '127.0.0.1', port },
    activateDelayedJobs: true,
    // By default it polls for due jobs once a second.
    delayedDebounce: 1,
    removeOnSuccess: true,
    removeOnFailure: true,
    // Events and copies of the jobs in this process are not needed.
    getEvents: false,
    sendEvents: false,
    storeJobs: false,
  }
  const queue = new Queue('orders', settings)
  await queue.ready()
  const jobOf = ({ key, payload, atMs }) => queue.createJob(payload).setId(key).delayUntil(atMs)
  return {
    taskOf: (task) => task,
    scheduleMany: (tasks) =>
      inFlight(inPieces(tasks, CHUNK), CHUNKS_IN_FLIGHT, async (piece) => {
        const errors = await queue.saveAll(piece.map(jobOf))
        if (errors.size > 0) throw errors.values().next().value
      }),
    schedule: (task) => jobOf(task).save(),
    // The reply does not tell whether a job was removed.
    cancel: async (key) => {
      await queue.removeJob(key)
      return true
    },
    consume: (handle, concurrency) => {
      queue.process(concurrency, async ({ id }) => handle(id))
      // Workers and their queue end together, in `close`.
      return () => {}
    },
    left: async () => {
      const { delayed, waiting, active } = await queue.checkHealth()
      return delayed + waiting + active
    },
    close: () => queue.close(),
  }
}
