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

/** Returns a port that was free a moment ago. Another process may take it first: the caller must be ready to retry. */
export async function freePort(): Promise<number> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const port = randomInt(LOWEST, HIGHEST)
    if (await isFree(port)) return port
  }
  throw new Error(`no free port among ${TRIES_MAX} between ${LOWEST} and ${HIGHEST}`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
