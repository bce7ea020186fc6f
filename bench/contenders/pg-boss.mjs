/**
 * pg-boss at its best: see bench/README.md for what was tried. The key is a `singletonKey`, which nothing enforces in a
 * queue as it comes; finished jobs stay, as they do in Tocsin.
 */
import { inFlight, inPieces } from '../load.mjs'
import { peer } from '../peers.mjs'

const NAME = 'orders'
/** Jobs in one `insert`, and how many of these at a time. */
const CHUNK = 5_000
const CHUNKS_IN_FLIGHT = 2
/** 0.5 s is the shortest polling interval; after a full batch it polls again at once. */
const WORKING = {
  localConcurrency: 2,
  batchSize: 5_000,
  pollingIntervalSeconds: 0.5,
  burstWhenBatchFull: true,
}

export async function open(url) {
  const { PgBoss } = peer('pg-boss')
  const boss = new PgBoss({ connectionString: url })
  boss.on('error', (error) => {
    throw error
  })
  await boss.start()
  await boss.createQueue(NAME)
  return {
    taskOf: ({ key, payload, atMs }) => ({ data: payload, singletonKey: key, startAfter: new Date(atMs) }),
    scheduleMany: (jobs) =>
      inFlight(inPieces(jobs, CHUNK), CHUNKS_IN_FLIGHT, (piece) => boss.insert(NAME, piece)),
    consume: async (handle) => {
      await boss.work(NAME, WORKING, async (jobs) => {
        for (const { id } of jobs) handle(id)
      })
      return () => boss.offWork(NAME)
    },
    left: async () => {
      const { rows } = await boss
        .getDb()
        .executeSql(`select count(*) from pgboss.job where name = '${NAME}' and state < 'completed'`)
      return Number(rows[0].count)
    },
    close: () => boss.stop({ graceful: true }),
  }
}
