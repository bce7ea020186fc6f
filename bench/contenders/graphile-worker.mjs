/** graphile-worker at its best: see bench/README.md for what was tried. */
import { inFlight, inPieces } from '../load.mjs'
import { peer } from '../peers.mjs'

const NAME = 'orders'
/** Jobs in one `addJobs`, and how many of these calls at a time: the client prepares one while PostgreSQL works on another. */
const CHUNK = 5_000
const CHUNKS_IN_FLIGHT = 4

/** Concurrent jobs, jobs per fetch, and the polling interval for due jobs in ms. */
const SETTINGS = {
  concurrentJobs: 500,
  maxPoolSize: 25,
  pollInterval: 100,
  localQueue: { size: 5_000 },
  completeJobBatchDelay: 0,
  failJobBatchDelay: 0,
}

export async function open(url) {
  const { Logger, makeWorkerUtils, run } = peer('graphile-worker')
  // By default it prints a line for each job.
  const logger = new Logger(() => () => {})
  const preset = { worker: { ...SETTINGS, connectionString: url, logger } }
  const utils = await makeWorkerUtils({ preset })
  await utils.migrate()
  return {
    taskOf: ({ key, payload, atMs }) => ({
      identifier: NAME,
      payload,
      jobKey: key,
      runAt: new Date(atMs),
    }),
    scheduleMany: (jobs) =>
      inFlight(inPieces(jobs, CHUNK), CHUNKS_IN_FLIGHT, (piece) => utils.addJobs(piece)),
    consume: async (handle) => {
      const runner = await run({
        preset,
        noHandleSignals: true,
        parsedCronItems: [],
        taskList: { [NAME]: async (_, { job }) => handle(job.key) },
      })
      return () => runner.stop()
    },
    left: () =>
      utils.withPgClient(async (client) => {
        const { rows } = await client.query('select count(*) from graphile_worker._private_jobs')
        return Number(rows[0].count)
      }),
    close: () => utils.release(),
  }
}
