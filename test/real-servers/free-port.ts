import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/**
 * Below the ephemeral ports (from 32,768 on Linux, from 49,152 elsewhere). `listen(0)` returns an ephemeral port: while the
 * server is down, a client that reconnects could get that port as its own. Then the server could not restart, or the
 * client would be connected to itself.
 */
const LOWEST = 15_000
const HIGHEST = 32_000
const TRIES_MAX = 50
/** A node of a Redis Cluster listens to the other nodes on the port this far above its own. */
const BUS_ABOVE = 10_000

/** Returns a port that was free a moment ago. Another process may take it first: the caller must be ready to retry. */
export async function freePort(): Promise<number> {
  return await freeBelow(HIGHEST, isFree)
}

/** Returns a port for a node of a Redis Cluster: the port of its bus was free, too, and is not ephemeral either. */
export async function freeClusterPort(): Promise<number> {
  return await freeBelow(
    HIGHEST - BUS_ABOVE,
    async (port) => (await isFree(port)) && (await isFree(port + BUS_ABOVE)),
  )
}

async function freeBelow(highest: number, isUsable: (port: number) => Promise<boolean>): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(LOWEST, highest)
    if (await isUsable(port)) return port
  }
  throw new Error(`no free port among ${TRIES_MAX} between ${LOWEST} and ${highest}`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
