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
const NO_HISTORY = 'Tocsin, retention 0'
const ALONE = 'Tocsin without Redis'
const RIVAL = 'graphile-worker'
const TRADITION = 'scan every 10 s'

export const name = 'timeout-center'

const figuresOf = (...names) => names.map((figure) => `${name}-${figure}`)

const CONTENDERS = [
  { series: US, module: 'tocsin', within: withBoth },
  {
    series: NO_HISTORY,
    module: 'tocsin',
    within: withBoth,
    settings: { retention: 0 },
    figures: figuresOf('burst'),
  },
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
  'Handlers do nothing. Tocsin: the burst 200 at a time, lateness 64 at a time; ended tasks stay for a week, with retention 0 not at all. What was tried: bench/README.md.',
]

const more = { better: 'more', of: US }
const less = { better: 'less', of: US }
const burst = { figure: `${name}-burst`, better: 'more', to: RIVAL, must: 1.5, aim: 2.5 }
const p99 = {
  title: 'Redis + PostgreSQL: p99 lateness at 1,000 tasks/s',
  figure: `${name}-lateness-p99`,
  ...less,
}
export const targets = [
  {
    id: 'P5',
    title: 'Redis + PostgreSQL: Redis memory per far task',
    figure: `${name}-far-memory`,
    ...less,
    unit: 'bytes',
    must: 0,
    aim: 0,
  },
  {
    id: 'P8',
    title: 'Redis + PostgreSQL: bulk schedule',
    figure: `${name}-bulk`,
    ...more,
    to: RIVAL,
    must: 1.5,
    aim: 2,
  },
  { id: 'P8', title: 'Redis + PostgreSQL: burst', of: US, ...burst },
  { id: 'P8', title: 'Redis + PostgreSQL: burst', of: NO_HISTORY, ...burst },
  {
    id: 'P11',
    title: 'a wiped Redis rebuilt from PostgreSQL',
    figure: `${name}-rebuild`,
    ...more,
    unit: 'tasks/s',
    must: 50_000,
    aim: 150_000,
  },
  { id: 'P12', ...p99, to: TRADITION, must: 1 / 100, aim: 1 / 1000 },
  { id: 'P16', ...p99, to: RIVAL, must: 1 / 5, aim: 1 / 10 },
  { id: 'P16', ...p99, unit: 'ms', aim: 15 },
  {
    id: 'P18',
    title: 'Redis + PostgreSQL: burst, CPU per task of all processes',
    figure: `${name}-burst`,
    ...less,
    isCpu: true,
    unit: 'µs',
    must: 30,
    aim: 22,
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
