/** `npm run bench -- --quick`: Tocsin alone on every kind of store, for a look before and after a change of the code. */
import { withBoth, withFolder, withPostgres, withRedis } from './places.mjs'
import { postgresVersion } from './postgres-server.mjs'
import { idsIn, planOf, prepareServers, rowsOf } from './queue-suite.mjs'
import { FIGURES } from './quick-figures.mjs'

const REDIS = 'Redis'
const OVER_HTTP = 'HTTP, Redis'

const CONTENDERS = [
  { series: REDIS, module: 'tocsin', within: withRedis },
  { series: 'Redis + PostgreSQL', module: 'tocsin', within: withBoth },
  { series: 'PostgreSQL', module: 'tocsin', within: withPostgres },
  { series: 'embedded', module: 'tocsin', within: withFolder },
  { series: OVER_HTTP, module: 'tocsin-http', within: withRedis, figures: ['quick-bulk'] },
]

export const name = 'quick'
export const title = 'A quick look at Tocsin on every kind of store'
export const figureIds = idsIn(FIGURES)
export const notes = [
  'No peers, few tasks: compare it with another quick look on the same machine, by CPU times first (--against <JSON>).',
]

/** Versions of what was measured; set by `run`. */
export const versions = {}

export async function run({ runs, count, figureIds: wanted, progress }) {
  versions.Redis = await prepareServers(name, ['redis-server', 'postgres'])
  versions.PostgreSQL = await postgresVersion()
  return rowsOf(planOf(name, FIGURES, CONTENDERS, wanted, count), {
    runs,
    us: OVER_HTTP,
    rival: REDIS,
    progress,
  })
}
