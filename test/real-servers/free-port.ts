import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/**
 * Below the ports that systems give to outgoing connections (32,768 on Linux, 49,152 elsewhere). `listen(0)` would
 * give one of those, and while a server is down, a client that tries to come back could be given its port: the
 * server could not start again, or the client would be connected to itself.
 */
const LOWEST = 15_000
const HIGHEST = 32_000
const TRIES_MAX = 50

/** A port that was free a moment ago. Somebody may be quicker: whoever listens on it has to be ready to try again. */
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
