/**
 * Tocsin with its tasks in PostgreSQL and the next hour of them in Redis. Compared with PostgreSQL alone, graphile-worker,
 * pg-boss, and a table that is scanned every ten seconds.
 */
import { turnOfDisk } from './disk.mjs'
import { PEERS, peerProgram } from './peers.mjs'
import { postgresVersion, SETTINGS_TEXT as POSTGRES_TEXT } from './postgres-server.mjs'
import { withBoth, withPostgres } from './places.mjs'
import { idsIn, planOf, prepare, rowsOf } from './queue-suite.mjs'
import { SETTINGS_TEXT as REDIS_TEXT } from './redis-server.mjs'
import { FIGURES } from './timeout-center-figures.mjs'

const US = 'Tocsin'
const ALONE = 'Tocsin without Redis'
const RIVAL = 'graphile-worker'
const TRADITION = 'scan every 10 s'

export const name = 'timeout-center'

const figuresOf = (...names) => names.map((figure) => `${name}-${figure}`)

const CONTENDERS = [
  { series: US, module: 'tocsin', within: withBoth },
  {
    series: ALONE,
    module: 'tocsin',
    within: withPostgres,
    figures: figuresOf('bulk', 'burst', 'lateness'),
  },
  {
    series: RIVAL,
    module: 'graphile-worker',
    within: withPostgres,
    program: nodeOfPeers,
    figures: figuresOf('bulk', 'burst', 'lateness'),
  },
  {
    series: 'pg-boss',
    module: 'pg-boss',
    within: withPostgres,
    program: nodeOfPeers,
    figures: figuresOf('bulk', 'burst'),
  },
  { series: TRADITION, module: 'traditional', within: withPostgres, figures: figuresOf('lateness') },
]

export const title = 'Timers in PostgreSQL, and soon due ones in Redis'
export const figureIds = idsIn(FIGURES)
/** `run` adds the result of the disk. */
export const notes = [
  `PostgreSQL with ${POSTGRES_TEXT}; Redis without persistence (${REDIS_TEXT}); both on the same machine.`,
  'graphile-worker: addJobs of 5,000, 4 at a time, with a job key; 500 jobs at a time, a pool of 25, a local queue of 5,000, completions',
  'batched, looking for what is due every 100 ms. pg-boss: insert of 5,000, 2 at a time; 2 workers that take 5,000 each. Both want',
  'Node.js 22.18, and have one from npm where this is older.',
  'Scan every 10 s: a table with an index on the due time; what is due is taken 2,000 at a time until nothing is left, then deleted.',
  'Handlers do nothing. Tocsin: the burst 200 at a time, lateness 64 at a time; ended tasks stay for a week. What was tried: bench/README.md.',
]

const more = { better: 'more', of: US }
const less = { better: 'less', of: US }
export const targets = [
  { id: 'P8', title: 'bulk schedule', figure: `${name}-bulk`, ...more, to: RIVAL, must: 1.5, aim: 2.3 },
  { id: 'P8', title: 'burst', figure: `${name}-burst`, ...more, to: RIVAL, must: 3, aim: 5 },
  { id: 'P11', title: 'rebuild', figure: `${name}-rebuild`, ...more, must: 50_000, aim: 150_000 },
  {
    id: 'P12',
    title: 'p99 lateness',
    figure: `${name}-lateness-p99`,
    ...less,
    to: TRADITION,
    must: 1 / 100,
    aim: 1 / 1000,
  },
]

/** Versions of the contenders; set by `run`. */
export const versions = {}

export async function run({ runs, count, figureIds: wanted, progress }) {
  const redis = await prepare(name, progress, ['redis-server', 'postgres'])
  Object.assign(versions, {
    PostgreSQL: await postgresVersion(),
    Redis: redis,
    pg: PEERS.pg,
    'graphile-worker': PEERS['graphile-worker'],
    'pg-boss': PEERS['pg-boss'],
    ...(nodeOfPeers() === process.execPath ? {} : { 'their Node.js': PEERS.node }),
  })
  const disk = turnOfDisk()
  const plan = [disk, ...planOf(name, FIGURES, CONTENDERS, wanted, count)]
  const rows = await rowsOf(plan, { runs, us: US, rival: RIVAL, progress })
  notes.push(disk.note())
  return rows
}

/** Both peers require Node.js 22.18 or newer: if this one is older, one is installed from npm for them. */
function nodeOfPeers() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major > 22 || (major === 22 && minor >= 18) ? process.execPath : peerProgram('node')
}
