/** Commands of a timetable: claims of a cell, their extensions and their settlements. */
import fc from 'fast-check'
import { PRIORITIES } from '../../src/task.ts'
import type { Claim, ClaimRequest, Place, SettleOutcome, Timetable } from '../../src/timetable.ts'
import { learn, sameClaimed } from './looking.ts'
import { loseExpired, pass, setWall, sharedCommands, times } from './shared-commands.ts'
import { type Hold, isSuspect, type Task, type TaskModel } from './task-model.ts'
import {
  type About,
  aboutArb,
  CELLS,
  type Command,
  command,
  leaseArb,
  legal,
  NO_REQUEST,
  onceClaimed,
  onceScheduled,
  placeArb,
  placeOf,
  type Run,
  same,
  type Which,
  whichArb,
  whileHeld,
} from './world.ts'

const requestArb = fc.record({
  limit: fc.constantFrom(0, 1, 2, 10),
  leaseMs: leaseArb,
  from: fc.constantFrom('lanes', 'lanes', 'suspects') as fc.Arbitrary<'lanes' | 'suspects'>,
})

export const outcomeArb: fc.Arbitrary<SettleOutcome> = fc.oneof(
  fc.constantFrom<SettleOutcome>({ kind: 'done' }, { kind: 'obsolete' }, { kind: 'return' }),
  fc.constantFrom(0, 10, 1_000).map((delayMs) => ({ kind: 'retry' as const, delayMs, error: 'it failed' })),
  fc.constantFrom(0, 10, 1_000).map((delayMs) => ({ kind: 'snooze' as const, delayMs })),
  fc.boolean().map((failed) => ({ kind: 'dead' as const, cause: 'handler' as const, error: 'no', failed })),
)

const oneArb = fc.record({ which: whichArb, outcome: outcomeArb })
const settlementArb = oneArb.map((one) => [one])
const settlementsArb = fc.array(oneArb, { minLength: 2, maxLength: 2 })

export function timetableCommands(): fc.Arbitrary<Command<Timetable>>[] {
  return [
    ...sharedCommands<Timetable>(),
    ...times(2, command('claim', fc.tuple(fc.constantFrom(...CELLS), requestArb), claimNew, onceScheduled)),
    command('claim again', fc.tuple(aboutArb('held'), whichArb), claimAgain, onceClaimed),
    command('begin', fc.tuple(aboutArb('held'), whichArb), begin, whileHeld),
    command('extend', fc.tuple(aboutArb('held'), whichArb, leaseArb), extend, whileHeld),
    command('settle', fc.tuple(aboutArb('held'), settlementsArb), settle, onceClaimed),
    ...times(4, command('settle', fc.tuple(aboutArb('held'), settlementArb), settle, whileHeld)),
    ...times(4, command('take', fc.tuple(placeArb, leaseArb), take, onceScheduled)),
    ...times(
      3,
      command('lose a lease of', fc.tuple(aboutArb('lost'), fc.boolean()), loseLease, onceScheduled),
    ),
    setWall<Timetable>(),
  ]
}

type Terms = Pick<ClaimRequest, 'limit' | 'leaseMs' | 'from'>

async function claimNew(
  model: TaskModel,
  run: Run<Timetable>,
  [cell, terms]: [number, Terms],
): Promise<void> {
  await claim(model, run, cell, `r${run.next()}`, terms)
}

/** Repeats a claim request, as after a lost reply. A request that holds no task any more is forgotten and counts as new. */
async function claimAgain(
  model: TaskModel,
  run: Run<Timetable>,
  [about, which]: [About, Which],
): Promise<void> {
  const { key, cell } = placeOf(model, about)
  const { req } = run.claimOf(key, which)
  if (req === NO_REQUEST) return
  run.note('claim repeated')
  await claim(model, run, cell, req, { limit: 10, leaseMs: 1_000, from: 'lanes' })
}

async function claim(
  model: TaskModel,
  run: Run<Timetable>,
  cell: number,
  req: string,
  terms: Terms,
): Promise<void> {
  const answer = await run.port.claim({ topic: run.topic, cell }, { ...terms, req, wholePrefixes: false })
  const what = `claim(${req})`
  let hold = [...model.holds(cell)].find((one) => one.req === req)
  if (hold === undefined) {
    same(`${what}, rescued`, answer.rescued, await rescue(model, run, cell, answer))
    if (answer.rescued > 0) run.note('claim rescued')
    hold = takeLegally(what, model, run, cell, req, terms, answer)
  } else {
    same(`${what}, again`, answer.tasks.map(({ key }) => key).toSorted(), keysOf(model.held(hold)))
    same(`${what}, again`, [answer.stamp, answer.rescued], [hold.stamp, 0])
  }
  for (const task of answer.tasks) sameClaimed(`${what} of ${task.key}`, run, task, model.live.get(task.key)!)
  sameOutlook(what, model, cell, answer)
  const convicted = model.convicted.filter((task) => task.cell === cell)
  same(`${what}, poisoned`, answer.poisoned.toSorted(), keysOf(convicted))
  if (convicted.length > 0) run.note('claim poisoned')
  for (const task of convicted) model.convicted.splice(model.convicted.indexOf(task), 1)
}

const keysOf = (tasks: readonly Task[]): string[] => tasks.map(({ key }) => key).toSorted()

/** Puts back, or ends, the tasks of expired claims. Returns how many were put back. */
async function rescue(
  model: TaskModel,
  run: Run<Timetable>,
  cell: number,
  { tasks }: Claim,
): Promise<number> {
  const before = keysOf([...model.live.values()].filter((task) => task.cell === cell && task.hold === null))
  // All of them: a claim rescues four others at most (rescue.ts), and there are not as many keys in a cell here.
  loseExpired(model, cell)
  const waiting = [...model.live.values()].filter((task) => task.cell === cell && task.hold === null)
  for (const { key, ringMs } of tasks) {
    const task = model.live.get(key)
    if (task === undefined) throw new Error(`claimed ${key}, which the model has not`)
    if (task.ringMaxMs === task.ringMs) continue
    legal(`the spread of ${key}`, model.follow(task, ringMs), ringMs)
    run.note('claim rescued for now')
  }
  await learn(model, run)
  return waiting.filter(({ key }) => !before.includes(key)).length
}

/** A claim returns as many due tasks as requested, lane by lane, by ring time; any order among equals. */
function takeLegally(
  what: string,
  model: TaskModel,
  run: Run<Timetable>,
  cell: number,
  req: string,
  { limit, leaseMs, from }: Terms,
  answer: Claim,
): Hold {
  const alone = from === 'suspects'
  const due = model.waiting(cell, alone).filter(({ ringMs }) => ringMs <= model.nowMs)
  same(`${what}, how many`, answer.tasks.length, Math.min(due.length, alone ? Math.min(1, limit) : limit))
  const taken = answer.tasks.map(({ key }) => due.find((task) => task.key === key))
  const left = due.filter((task) => !taken.includes(task))
  const hold = { stamp: answer.stamp, req, alone, leaseEndMs: model.steadyMs + leaseMs }
  if (taken.length > 0) {
    legal(`${what}, its stamp`, answer.stamp > (run.lastStamps.get(cell) ?? 0), answer.stamp)
    run.lastStamps.set(cell, answer.stamp)
  } else run.note('claim nothing')
  for (const task of taken) {
    if (task === undefined) throw new Error(`${what}: took what the model does not have due`)
    legal(`${what}, the order`, !left.some((other) => isBefore(other, task, alone)), task.key)
    run.note(
      `claim ${alone ? 'a suspect' : task.failures > 0 ? 'failed' : task.deliveries > 0 ? 'again' : task.priority}`,
    )
    model.take(task, hold)
    run.claimed(task.key, answer.stamp, req)
  }
  return hold
}

function isBefore(a: Task, b: Task, alone: boolean): boolean {
  const lanes = alone ? 0 : PRIORITIES.indexOf(a.priority) - PRIORITIES.indexOf(b.priority)
  return lanes < 0 || (lanes === 0 && a.ringMs < b.ringMs)
}

/** What the answer says of the times to come. */
function sameOutlook(what: string, model: TaskModel, cell: number, answer: Claim): void {
  const first = (times: number[]): number | null => (times.length === 0 ? null : Math.min(...times))
  const ends = [...model.holds(cell)].map(({ leaseEndMs }) => Math.max(0, leaseEndMs - model.steadyMs))
  const rings = (suspects: boolean) => first(model.waiting(cell, suspects).map(({ ringMs }) => ringMs))
  const { nowMs, nextRingMs, nextSuspectMs, nextLeaseEndInMs } = answer
  same(
    `${what}, what comes`,
    { nowMs, nextRingMs, nextSuspectMs, nextLeaseEndInMs },
    {
      nowMs: model.nowMs,
      nextRingMs: rings(false),
      nextSuspectMs: rings(true),
      nextLeaseEndInMs: first(ends),
    },
  )
}

async function begin(model: TaskModel, run: Run<Timetable>, [about, which]: [About, Which]): Promise<void> {
  const place = placeOf(model, about)
  const { stamp } = run.claimOf(place.key, which)
  const begun = await run.port.begin({ topic: run.topic, cell: place.cell }, place.key, stamp)
  same(`begin(${place.key})`, begun, model.begin(place.key, stamp))
  run.note(`begin ${begun}`)
}

async function extend(
  model: TaskModel,
  run: Run<Timetable>,
  [about, which, leaseMs]: [About, Which, number],
): Promise<void> {
  const { key, cell } = placeOf(model, about)
  const { req } = run.claimOf(key, which)
  const answer = await run.port.extend({ topic: run.topic, cell }, req, leaseMs)
  const hold = [...model.holds(cell)].find((one) => one.req === req)
  same(`extend(${req})`, answer, model.extend(hold, leaseMs) ? 'extended' : 'stale')
  run.note(`extend ${answer}`)
}

/** Settles one key twice in a call: the second settlement is stale. */
async function settle(
  model: TaskModel,
  run: Run<Timetable>,
  [about, given]: [About, { which: Which; outcome: SettleOutcome }[]],
): Promise<void> {
  const { key, cell } = placeOf(model, about)
  const settlements = given.map(({ which, outcome }) => ({
    key,
    stamp: run.claimOf(key, which).stamp,
    outcome,
  }))
  const answers = await run.port.settle({ topic: run.topic, cell }, settlements)
  for (const [i, { stamp, outcome }] of settlements.entries()) {
    same(`settle(${key}, ${stamp}, ${outcome.kind})`, answers[i], model.settle(key, stamp, outcome))
    run.note(answers[i] === 'stale' ? 'settle stale' : `settle ${outcome.kind}`)
  }
}

/** Advances the clock until a key rings, and claims it. */
async function take(
  model: TaskModel,
  run: Run<Timetable>,
  [{ key, cell }, leaseMs]: [Place, number],
): Promise<void> {
  const task = model.live.get(key)
  if (task === undefined || task.hold !== null) return
  if (task.ringMs > model.nowMs) await pass(model, run, task.ringMs - model.nowMs)
  const from = isSuspect(task) ? 'suspects' : 'lanes'
  await claim(model, run, cell, `r${run.next()}`, { limit: 10, leaseMs, from })
}

/** Claims a key, begins it or not, and lets the lease expire: leads to suspects, and to poison. */
async function loseLease(
  model: TaskModel,
  run: Run<Timetable>,
  [about, begins]: [About, boolean],
): Promise<void> {
  const place = placeOf(model, about)
  await take(model, run, [place, 100])
  const hold = model.live.get(place.key)?.hold
  if (!hold) return
  if (begins) await begin(model, run, [{ place, wish: 'any' }, 'last'])
  if (hold.leaseEndMs > model.steadyMs) await pass(model, run, hold.leaseEndMs - model.steadyMs)
  await claim(model, run, place.cell, `r${run.next()}`, { limit: 0, leaseMs: 100, from: 'lanes' })
}
