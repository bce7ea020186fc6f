/**
 * Where a contender keeps its tasks, new for each measurement:
 *
 *   { place, warmUpPlace, processes }
 *
 * A place is the port of a Redis server, a folder, the address of a PostgreSQL server, or the addresses of a PostgreSQL
 * and a Redis server with a space between them. `processes` are the servers of the place, whose CPU time is read.
 */
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from './postgres-server.mjs'
import { startRedis } from './redis-server.mjs'

/** Starts a server for as long as the work takes. */
export async function using(start, work) {
  const server = await start()
  try {
    return await work(server)
  } finally {
    await server.stop()
  }
}

/** The warm-up has a server of its own, because memory is measured. */
export const withRedis = (work) =>
  using(startRedis, (server) =>
    using(startRedis, (another) =>
      work({ place: server.port, warmUpPlace: another.port, processes: [server.process] }),
    ),
  )

/** The warm-up has a database of its own in the same server: to start another takes a second. */
export const withPostgres = (work) =>
  using(startPostgres, ({ url, warmUpUrl, process }) =>
    work({ place: url, warmUpPlace: warmUpUrl, processes: [process] }),
  )

export const withBoth = (work) =>
  withPostgres((postgres) =>
    withRedis((redis) =>
      work({
        place: `${postgres.place} redis://127.0.0.1:${redis.place}`,
        warmUpPlace: `${postgres.warmUpPlace} redis://127.0.0.1:${redis.warmUpPlace}`,
        processes: [...postgres.processes, ...redis.processes],
      }),
    ),
  )

export const withFolder = (work) =>
  inFolder((place) => inFolder((warmUpPlace) => work({ place, warmUpPlace, processes: [] })))

/** Makes a temporary folder, and deletes it afterwards. */
export async function inFolder(work) {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-bench-'))
  const remove = () => rmSync(folder, { recursive: true, force: true })
  process.once('exit', remove)
  try {
    return await work(folder)
  } finally {
    process.off('exit', remove)
    await rm(folder, { recursive: true, force: true })
  }
}
