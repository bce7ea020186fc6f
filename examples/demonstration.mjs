/**
 * 20,000 orders, each with a timer of its own: when its time is up the order is closed, unless it is paid before.
 * On the way 4,000 are due at the same instant, 500 are paid, and one cannot be closed at the first try.
 *
 *   npm run demo                    in a terminal a live view, into a pipe a line a second
 *   npm run demo -- --seconds 3     the same in less time
 *
 * The timers are kept in a file. Stop it half-way, or kill it; start it again, and the timers go on.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Tocsin } from 'tocsin'
import { figure, histogram, Lateness, paints, problemsOf, timeline } from './histogram.mjs'

const ORDERS = 20_000
const BURST = 4_000
const PAID = 500
const FAILING = ORDERS - 1

// `npm run demo | head`: the reader has closed the pipe.
process.stdout.on('error', (error) => process.exit(error.code === 'EPIPE' ? 0 : 1))

const values = readOptions()
const openedMs = Date.now()

// One order fails on purpose; its log line would only tear the picture.
const toc = await Tocsin.open({ ledger: `sqlite:${values.file}`, logger: false }).catch((error) =>
  giveUp(error.message),
)
const topic = toc.topic('close-unpaid-order', { retry: { min: '500ms' }, retention: '1h' })
const { pending: left, claimed: leftInHands } = await topic.counts()
// Timers of a run that was stopped or killed: they go on.
const isResumed = left + leftInHands > 0

// Our own list of what is due when: what the library says about itself is not what we check it by.
const { startMs, spanMs, dueMs } = isResumed ? recordOfLastRun() : newRecord()
const tasks = dueMs.map((at, order) => ({ key: `order-${order}`, payload: { order }, at }))
const payers = tasks.filter(({ at }) => at > startMs + 0.85 * spanMs).slice(0, PAID)

const lateness = new Lateness()
const burst = new Lateness()
const paid = new Set()
const timesClosed = new Uint8Array(ORDERS)
const tally = { closed: 0, twice: 0, closedThoughPaid: 0, failures: 0 }

// ── The rest of Tocsin that it takes: schedule, consume, and cancel. ─────────────────────────────────────────

toc.on('retry', () => tally.failures++)

const beforeMs = performance.now()
if (!isResumed) await topic.scheduleMany(tasks)
const schedulingMs = Math.ceil(performance.now() - beforeMs)
// Handlers that mostly wait can be many: those of the burst all run at once.
topic.consume(close, { concurrency: 5_000 })

/** Called when the time of an order is up. To throw is to be tried again later. */
async function close({ key, payload: { order }, attempt }) {
  // A task that became due while no process was running cannot be on time: its lateness counts from the restart.
  const lateMs = Date.now() - Math.max(dueMs[order], isResumed ? openedMs : 0)
  if (attempt === 1) lateness.add(lateMs)
  if (order < BURST) burst.add(lateMs)
  if (order === FAILING && attempt <= 2) throw new Error('the warehouse does not answer')
  await sleep(10 + Math.random() * 40)
  if (paid.has(key)) tally.closedThoughPaid++
  if (++timesClosed[order] === 1) tally.closed++
  else tally.twice++
}

/** The order is paid: its timer goes, and the handler above is never called for it. */
async function pay({ key }) {
  const { outcome } = await topic.cancel(key)
  if (outcome === 'cancelled') paid.add(key)
}

// ── Watch it until nothing is pending and nothing runs. ─────────────────────────────────────────────────────

const FRAME_MS = 80
const STUCK_MS = 10_000
const WIDTH = 76
const VIEW_LINES = 23

const { stdout, env } = process
const isTerminal = stdout.isTTY && env.TERM !== 'dumb'
// Redrawing in place takes a terminal that the view fits into.
const isLive = isTerminal && stdout.columns >= WIDTH + 4 && stdout.rows > VIEW_LINES
const paint = paints(isTerminal && !env.NO_COLOR)

if (isLive) {
  print('\x1b[?25l')
  // However it ends: a terminal without a cursor is a bad memory.
  process.once('exit', () => print('\x1b[?25h'))
}

let interrupted = false
process.once('SIGINT', () => (interrupted = true))

const forecast = await topic.forecast({ from: startMs, to: startMs + spanMs + 1, step: spanMs / WIDTH })
print(`\n  ${paint.accent('▟▙')} ${paint.strong('tocsin')}  ${paint.quiet('a timeout center')}\n\n`)
if (isResumed) print(`  ${figure(left + leftInHands)} timers of the run before are still here. They go on.\n`)
else {
  print(`  ${figure(ORDERS)} timers set in ${schedulingMs} ms, each on the disk before we were told.\n`)
  print(`  ${paint.quiet('Stop it, or kill it: the next start goes on where this one ended.')}\n`)
}
await watch()
// A handler that still runs after Ctrl-C is not worth a wait of 20 seconds, the default.
await toc.close({ timeout: '1s' })
if (interrupted) stopped()
else summary()

async function watch() {
  let counts = await topic.counts()
  let seconds = 0
  let asked = 0
  let stuckMs = Math.max(startMs + spanMs, openedMs) + STUCK_MS
  while (!interrupted && counts.pending + counts.claimed > 0 && Date.now() < stuckMs) {
    // All who pay have paid by two fifths of the time, long before their orders would be closed.
    const payingNow = isResumed
      ? []
      : payers.slice(asked, Math.floor(PAID * Math.min(1, Math.max(0, passed() / 0.4))))
    asked += payingNow.length
    await Promise.all(payingNow.map(pay))
    // Asked right before it is shown, so that the figures are of one moment.
    const before = counts
    counts = await topic.counts()
    // A busy machine takes longer. It is not stuck as long as tasks are claimed or end.
    if (counts.pending !== before.pending || counts.claimed !== before.claimed)
      stuckMs = Math.max(stuckMs, Date.now() + STUCK_MS)
    if (isLive) redraw(view(counts))
    else if (Date.now() - Math.max(startMs, openedMs) >= seconds * 1000)
      print(`${plainLine(seconds++, counts)}\n`)
    await sleep(FRAME_MS)
  }
  if (isLive) redraw(view(counts), true)
  else if (!interrupted) print(`\n${view(counts).join('\n')}\n`)
}

function summary() {
  const expected = isResumed ? left + leftInHands : ORDERS - paid.size
  const problems = problemsOf({ ...tally, expected, early: lateness.early })
  if (problems.length > 0) {
    process.exitCode = 1
    return print(`\n  ${paint.bad('This must not happen:')} ${problems.join('; ')}.\n\n`)
  }
  const { accent, good, strong } = paint
  const done = isResumed
    ? `${figure(expected)} closed after the restart, 0 early, 0 lost.`
    : `${figure(expected)} closed, each once, 0 early. ${figure(paid.size)} cancelled, 0 of them fired.`
  print(`
  ${good('✓')} ${done}

  ${strong('Your first timer')}

    ${accent("import { Tocsin } from 'tocsin'")}
    ${accent('const toc = await Tocsin.open()')}
    ${accent("const orders = toc.topic('close-unpaid-order')")}
    ${accent('orders.consume(async (task) => console.log(task.key, task.payload))')}
    ${accent("await orders.schedule({ key: 'order-1', payload: { eur: 99 }, delay: '3s' })")}

`)
}

function stopped() {
  process.exitCode = 130
  print(`\n  Stopped. What was pending waits in ${values.file}: start again, and it goes on.\n\n`)
}

// ── When, and what it looks like. ───────────────────────────────────────────────────────────────────────────

/** Kept beside the timers, so that a second run can check them, too. */
function newRecord() {
  const span = Math.max(1, Number(values.seconds) || 8) * 1000
  // Half a second ahead, so that all timers are set before the first is due.
  const start = Date.now() + 500
  const due = Array.from({ length: ORDERS }, (_, order) => start + delayMs(order, span))
  const record = { startMs: start, spanMs: span, dueMs: due }
  mkdirSync(dirname(values.file), { recursive: true })
  writeFileSync(`${values.file}.json`, JSON.stringify(record))
  return record
}

function recordOfLastRun() {
  try {
    return JSON.parse(readFileSync(`${values.file}.json`, 'utf8'))
  } catch {
    return giveUp(
      `${values.file} has timers of a run whose list, ${values.file}.json, is gone. Delete ${values.file}* to start anew.`,
    )
  }
}

function readOptions() {
  const options = {
    seconds: { type: 'string', default: '8' },
    file: { type: 'string', default: './.tocsin/demonstration.db' },
  }
  try {
    return parseArgs({ options }).values
  } catch (error) {
    return giveUp(`${error.message}. Known: --seconds 3, --file ./some.db`)
  }
}

function giveUp(why) {
  console.error(`\n  ${why}\n`)
  process.exit(1)
}

/** The first 4,000 at one instant in the middle, the failing one early on, the others at random, in waves. */
function delayMs(order, span) {
  const random = Math.random()
  const share = order < BURST ? 0.5 : order === FAILING ? 0.2 : random + Math.sin(random * 8 * Math.PI) / 40
  return Math.ceil(Math.min(1, Math.max(0, share)) * span)
}

/** 0 when the first may be due, 1 when the last is. */
function passed() {
  return (Date.now() - startMs) / spanMs
}

function view({ pending, claimed }) {
  const { quiet, strong, bad } = paint
  const due = forecast.map((step) => step.due)
  const ms = (name, value) => `${quiet(name)} ${strong(`${figure(value)} ms`)}`
  const percentiles = [ms('p50', lateness.percentileMs(0.5)), ms('p99', lateness.percentileMs(0.99))]
  const early = `${quiet('early')} ${(lateness.early === 0 ? strong : bad)(figure(lateness.early))}`
  const total = isResumed ? left + leftInHands : ORDERS
  const fired = `${strong(figure(tally.closed))} of ${figure(total)} fired`
  return [
    sentence(pending),
    '',
    quiet('when they are due'),
    ...timeline(due, passed(), 4, paint),
    [fired, `${strong(figure(pending))} pending`, `${strong(figure(claimed))} running`].join(quiet(' · ')),
    '',
    quiet('how late they fire'),
    ...histogram(lateness.buckets(), WIDTH, paint),
    [...percentiles, ms('max', lateness.maxMs), early].join(quiet(' · ')),
    '',
    `${quiet('paid     ')} ${strong(figure(paid.size))} cancelled, ${figure(tally.closedThoughPaid)} of them fired`,
    `${quiet('retried  ')} ${failingStory()}`,
  ].map((line) => (line === '' ? '' : `  ${line}`))
}

function sentence(pending) {
  if (isResumed)
    return pending === 0 ? 'Done.' : 'What fell due meanwhile fires at once, the rest at its moment.'
  if (passed() < 0) return 'They wait. Each order is closed when its time is up.'
  if (passed() < 0.5) return 'Each order is closed at its own moment, unless it is paid before.'
  if (burst.count < BURST) return `Now ${figure(BURST)} are due at the same instant.`
  const how = `${figure(BURST)} were due at the same instant, and all started within ${figure(burst.maxMs)} ms.`
  return pending === 0 ? `Done. ${how}` : how
}

function failingStory() {
  if (isResumed) return figure(tally.failures)
  const { failures } = tally
  const name = `order-${FAILING}`
  if (timesClosed[FAILING] > 0)
    return `${name} failed ${failures} times and was closed at attempt ${failures + 1}`
  return failures === 0 ? 'nothing yet' : `${name} failed at attempt ${failures} and will be tried again`
}

function plainLine(seconds, { pending, claimed }) {
  const columns = [
    `${seconds} s`.padStart(4),
    `${figure(tally.closed).padStart(6)} fired`,
    `${figure(pending).padStart(6)} pending`,
    `${figure(claimed).padStart(5)} running`,
    `${figure(paid.size).padStart(3)} cancelled`,
    `p99 ${lateness.percentileMs(0.99)} ms`,
  ]
  return columns.join('  ')
}

/** Over the view before: back up, then each line anew. */
function redraw(lines, last = false) {
  const body = lines.map((line) => `${line}\x1b[K`).join('\n')
  print(`\r${body}${last ? '\n' : `\x1b[${lines.length - 1}A\r`}`)
}

function print(text) {
  stdout.write(text)
}
