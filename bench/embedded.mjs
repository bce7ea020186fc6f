/**
 * Tocsin without a server: its tasks are in a SQLite file, synced before a call is answered. Compared with bunqueue, which
 * is embedded as well and runs on Bun, and with BullMQ, which needs a Redis server.
 */
import { turnOfDisk } from './disk.mjs'
import { FIGURES } from './embedded-figures.mjs'
import { PEERS, peerProgram } from './peers.mjs'
import { withFolder, withRedis } from './places.mjs'
import { idsIn, planOf, prepare, rowsOf } from './queue-suite.mjs'
import { SETTINGS_TEXT } from './redis-server.mjs'

const US = 'Tocsin'
const RIVAL = 'BullMQ'
const LIKE_US = 'bunqueue'

const CONTENDERS = [
  { series: US, module: 'tocsin', within: withFolder },
  { series: RIVAL, module: 'bullmq', within: withRedis },
  { series: LIKE_US, module: 'bunqueue', within: withFolder, program: () => peerProgram('bun') },
]

export const name = 'embedded'
export const title = 'Durable timers without a server'
export const figureIds = idsIn(FIGURES)
/** `run` adds the result of the disk. */
export const notes = [
  'Tocsin: a ledger in SQLite (WAL, synchronous FULL): on the disk before a call is answered. Ended tasks stay for a week.',
  `BullMQ: Redis without persistence (${SETTINGS_TEXT}), on the same machine; addBulk of 500, 2 at a time, removeOnComplete.`,
  'bunqueue: embedded, on Bun, durable: true, addBulk of 10,000, batchSize 1,000, drainDelay 1 ms, removeOnComplete. Its SQLite is',
  'WAL, synchronous NORMAL: a call is answered once its task is written, before it is on the disk.',
  'Handlers do nothing. The burst: 200 at a time; lateness: 64 at a time. What was tried: bench/README.md.',
]

const more = { better: 'more', of: US }
export const targets = [
  {
    id: 'P7',
    title: 'embedded bulk schedule',
    figure: 'embedded-bulk',
    ...more,
    to: RIVAL,
    must: 2.5,
    aim: 4,
  },
  { id: 'P7', title: 'embedded burst', figure: 'embedded-burst', ...more, to: RIVAL, must: 1.5, aim: 3 },
  {
    id: 'P15',
    title: 'embedded bulk schedule',
    figure: 'embedded-bulk',
    ...more,
    to: LIKE_US,
    must: 2,
    aim: 8,
  },
  {
    id: 'P17',
    title: 'embedded cancel by key',
    figure: 'embedded-cancel',
    ...more,
    to: RIVAL,
    must: 1,
    aim: 1.5,
  },
]

/** Versions of the contenders; set by `run`. */
export const versions = {}

export async function run({ runs, count, figureIds: wanted, progress }) {
  versions.Redis = await prepare(name, progress)
  Object.assign(versions, {
    BullMQ: PEERS.bullmq,
    ioredis: PEERS.ioredis,
    bunqueue: PEERS.bunqueue,
    Bun: PEERS.bun,
  })
  const disk = turnOfDisk()
  const plan = [disk, ...planOf(name, FIGURES, CONTENDERS, wanted, count)]
  const rows = await rowsOf(plan, { runs, us: US, rival: RIVAL, progress })
  notes.push(disk.note())
  return rows
}
