/**
 * One process, two topics: of one `count` tasks are overdue, of the other `perSecond` fall due all the time. Consumes
 * both, with their defaults, and records how late the second ones were: before, while and after the first are made up
 * for.
 *
 *   calmMs   how long it watches before and after
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { logger, options, record, recordError } from '../../fault/programs/record.mjs'

const { count, perSecond, calmMs } = options
/** So far ahead the second ones are scheduled, so often. */
const AHEAD_MS = 2_000
const ROUND_MS = 500

const toc = await Tocsin.open({ ...options.open, logger })
toc.on('error', ({ doing, error }) => recordError('error', error, { doing }))
const overdue = toc.topic('overdue')
const timely = toc.topic('timely')

function* backlog() {
  for (let n = 0; n < count; n++) yield { key: `o${n}`, delay: 0, payload: n }
}
await overdue.scheduleMany(backlog())
record('scheduled', { ms: count })

let goesOn = true
const steady = async () => {
  const startedMs = performance.now()
  const perRound = (perSecond * ROUND_MS) / 1000
  for (let round = 0; goesOn; round++) {
    const tasks = Array.from({ length: perRound }, (_, n) => ({
      key: `t${round}-${n}`,
      delay: AHEAD_MS + (n * ROUND_MS) / perRound,
      payload: null,
    }))
    await timely.scheduleMany(tasks)
    // Real time: the load has a fixed rate.
    await sleep(Math.max(0, startedMs + (round + 1) * ROUND_MS - performance.now()))
  }
}
const load = steady()

/** When each was due, and how late it began. */
const seen = []
timely.consume(async ({ dueAt }) => {
  const dueMs = dueAt.getTime()
  seen.push([dueMs, Date.now() - dueMs])
})
// Real time: lateness is measured for `calmMs` before the backlog is consumed.
await sleep(AHEAD_MS + calmMs)

/** For how long this process was kept waiting for a core, where the system says so. */
function waitedMs() {
  try {
    return Number(readFileSync('/proc/self/schedstat', 'utf8').split(' ')[1]) / 1e6
  } catch {
    return 0
  }
}

let handled = 0
let drained
const isDrained = new Promise((resolve) => (drained = resolve))
const waitedBeforeMs = waitedMs()
const fromMs = Date.now()
overdue.consume(async () => {
  if (++handled === count) drained()
})
await isDrained
const toMs = Date.now()
const waitedShare = Math.min(1, (waitedMs() - waitedBeforeMs) / (toMs - fromMs))
// Real time: and for `calmMs` after it is drained.
await sleep(calmMs + AHEAD_MS)
goesOn = false
await load
const among = (low, high) =>
  seen.filter(([dueMs]) => dueMs >= low && dueMs < high).map(([, lateMs]) => lateMs)
record('result', {
  tookMs: toMs - fromMs,
  waitedShare,
  before: among(fromMs - calmMs, fromMs),
  // What was due and not yet begun when the last one was done counts, too.
  while: among(fromMs, toMs),
  after: among(toMs, toMs + calmMs),
  handled,
})
process.once('SIGTERM', () => {
  void toc.close().then(() => record('closed'))
})
