/** Bulk schedule through the server, as NDJSON over one connection, beside the library's on the same store. */
import { FIGURES } from './http-figures.mjs'
import { withFolder, withRedis } from './places.mjs'
import { idsIn, planOf, prepareServers, rowsOf } from './queue-suite.mjs'
import { SETTINGS_TEXT } from './redis-server.mjs'

const SERVER = 'HTTP'
const LIBRARY = 'library'

const inRedis = { within: withRedis, figures: ['http-redis-bulk'] }
const inFile = { within: withFolder, figures: ['http-embedded-bulk'] }
const CONTENDERS = [
  { series: SERVER, module: 'tocsin-http', ...inRedis },
  { series: LIBRARY, module: 'tocsin', ...inRedis },
  { series: SERVER, module: 'tocsin-http', ...inFile },
  { series: LIBRARY, module: 'tocsin', ...inFile },
]

export const name = 'http'
export const title = 'Bulk schedule through the server, beside the library'
export const figureIds = idsIn(FIGURES)
export const notes = [
  `Redis without persistence (${SETTINGS_TEXT}); a SQLite file (WAL, synchronous FULL). Everything is on the same machine.`,
  'HTTP: one POST of NDJSON, whose lines are made while they are sent; the client and the server have a process each.',
  'Library: one scheduleMany of a stream, as in the suites redis and embedded.',
]
const ratio = { better: 'more', of: SERVER, to: LIBRARY, must: 0.3, aim: 0.6 }
export const targets = [
  { id: 'P14', title: 'NDJSON bulk schedule, Redis', figure: 'http-redis-bulk', ...ratio },
  { id: 'P14', title: 'NDJSON bulk schedule, a file', figure: 'http-embedded-bulk', ...ratio },
]

/** Versions of what was measured; set by `run`. */
export const versions = {}

export async function run({ runs, count, figureIds: wanted, progress }) {
  versions.Redis = await prepareServers(name)
  const plan = planOf(name, FIGURES, CONTENDERS, wanted, count)
  return rowsOf(plan, { runs, us: SERVER, rival: LIBRARY, progress })
}
