/** Commands that mean the same to a timetable and to a ledger. */
import fc from 'fast-check'
import { PRIORITIES } from '../../src/task.ts'
import type { NewEntry, Place, Replayable } from '../../src/timetable.ts'
import type { RingTime } from '../../src/values/ring-time.ts'
import type { Hint } from '../../src/hint-table.ts'
import { findAll, hintOf, learn, lookAt, sameBooks, sameCounts } from './looking.ts'
import type { TaskModel } from './task-model.ts'
import {
  type About,
  aboutArb,
  CELLS,
  type Command,
  command,
  legal,
  onceDead,
  onceScheduled,
  placeArb,
  placeOf,
  type Port,
  type Run,
  same,
  TAGS,
  whileHeld,
} from './world.ts'

const quantumArb = fc.constantFrom(0, 0, 0, 7, 1_000)
const msArb = fc.constantFrom(0, 0, 1, 10, 100, 5_000)
const someArb = fc.uniqueArray(placeArb, { minLength: 1, maxLength: 2, selector: ({ key }) => key })

const entryArb = fc.record({
  place: placeArb,
  kind: fc.constantFrom('delay', 'delay', 'at') as fc.Arbitrary<'delay' | 'at'>,
  ms: msArb,
  priority: fc.constantFrom(...PRIORITIES),
  tags: fc.constantFrom(null, TAGS.slice(0, 1), TAGS),
  onConflict: fc.constantFrom('replace', 'keep') as fc.Arbitrary<'replace' | 'keep'>,
})
// One after the other, also where a key comes twice.
const entriesArb = fc.array(entryArb, { minLength: 1, maxLength: 3 })

const replayableArb = fc.constantFrom<Replayable>('any', 'newest')

const whenArb: fc.Arbitrary<RingTime> = fc.record({
  kind: fc.constantFrom('at', 'delay', 'shift'),
  ms: msArb,
})

/** A ledger's answer to a write contains the hint for the timetable. */
export function sameHint(what: string, answer: object, expected: Hint | null): void {
  if ('hint' in answer) same(`${what}, its hint`, answer.hint, expected)
}

/** Before a step that rescues: every task with an expired lease is lost, and waits within its spread. */
export function loseExpired(model: TaskModel, cell: number): void {
  for (const hold of model.holds(cell))
    for (const task of model.held(hold)) if (!model.isTrusted(task)) model.lose(task)
}

export function sharedCommands<P extends Port>(): fc.Arbitrary<Command<P>>[] {
  const count = (model: TaskModel, run: Run<P>, isBooks: boolean) =>
    (isBooks ? sameBooks : sameCounts)(model, run)
  const cancelOne = (model: TaskModel, run: Run<P>, about: About) =>
    cancel(model, run, [placeOf(model, about)])
  return [
    ...times(6, command('schedule', fc.tuple(entriesArb, quantumArb), schedule<P>)),
    command('cancel', someArb, cancel<P>, onceScheduled),
    command('cancel', aboutArb('held'), cancelOne, whileHeld),
    // The newer task of a key that has a dead one.
    command('cancel', aboutArb('dead'), cancelOne, onceDead),
    command('reschedule', fc.tuple(someArb, whenArb, quantumArb), reschedule<P>, onceScheduled),
    ...times(2, command('replay', fc.tuple(aboutArb('dead'), replayableArb), replay<P>, onceDead)),
    command('replay', fc.tuple(aboutArb('any'), replayableArb), replay<P>, onceScheduled),
    command('purge', aboutArb('dead'), purge<P>, onceScheduled),
    command('get', placeArb, lookAt<P>, onceScheduled),
    command('find', fc.constantFrom(...CELLS), findAll<P>, onceScheduled),
    command('find', fc.constantFrom(...CELLS), findAll<P>, onceDead),
    command('count', fc.boolean(), count, onceScheduled),
    command('pass', fc.constantFrom(1, 9, 90, 1_000, 4_000), pass<P>, onceScheduled),
    command('pass until', untilArb, passUntil<P>, onceScheduled),
  ]
}

/** Makes a command `count` times as likely. */
export function times<T>(count: number, one: T): T[] {
  return new Array<T>(count).fill(one)
}

type Entry = typeof entryArb extends fc.Arbitrary<infer E> ? E : never

async function schedule<P extends Port>(
  model: TaskModel,
  run: Run<P>,
  [given, mergeMs]: [Entry[], number],
): Promise<void> {
  const entries = given.map(({ place, kind, ms, priority, tags, onConflict }): NewEntry => {
    const when = { kind, ms: kind === 'at' ? model.nowMs + ms - 10 : ms }
    return { ...place, body: `"${run.next()}"`, when, priority, tags, onConflict }
  })
  const answers = await run.port.schedule(run.topic, entries, mergeMs)
  for (const [i, entry] of entries.entries()) {
    const expected = model.schedule(entry, mergeMs)
    const answer = answers[i]!
    const what = `schedule(${entry.key})`
    run.note(`schedule ${answer.outcome}${answer.inFlight ? ' in flight' : ''}`)
    same(what, [answer.outcome, answer.dueMs], [expected.outcome, expected.dueMs])
    if (expected.inFlight !== null) same(`${what}, in flight`, answer.inFlight, expected.inFlight)
    sameHint(what, answer, expected.outcome === 'kept' ? null : hintOf(model.live.get(entry.key)!))
  }
}

async function cancel<P extends Port>(model: TaskModel, run: Run<P>, places: Place[]): Promise<void> {
  if (run.world.rescues) for (const { cell } of places) loseExpired(model, cell)
  const answers = await run.port.cancel(run.topic, places)
  for (const [i, place] of places.entries()) {
    same(`cancel(${place.key})`, answers[i], model.cancel(place))
    run.note(`cancel ${answers[i]}`)
  }
  await learn(model, run)
}

async function reschedule<P extends Port>(
  model: TaskModel,
  run: Run<P>,
  [places, given, mergeMs]: [Place[], RingTime, number],
): Promise<void> {
  const when = { ...given, ms: given.ms - 5 + (given.kind === 'at' ? model.nowMs : 0) }
  if (given.kind === 'delay') when.ms = given.ms
  if (run.world.rescues) for (const { cell } of places) loseExpired(model, cell)
  const answers = await run.port.reschedule(run.topic, places, when, mergeMs)
  for (const [i, place] of places.entries()) {
    const answer = answers[i]!
    const what = `reschedule(${place.key})`
    same(what, answer.outcome, model.reschedule(place, when, mergeMs))
    run.note(`reschedule ${answer.outcome}`)
    const task = answer.outcome === 'rescheduled' ? model.live.get(place.key)! : null
    if (task === null) same(what, answer.dueMs, null)
    else {
      legal(what, model.follow(task, answer.dueMs ?? -1), answer.dueMs)
      task.dueMs = task.ringMs
    }
    sameHint(what, answer, task && hintOf(task))
  }
  await learn(model, run)
}

async function replay<P extends Port>(
  model: TaskModel,
  run: Run<P>,
  [about, which]: [About, Replayable],
): Promise<void> {
  const place = placeOf(model, about)
  const answer = (await run.port.replay(run.topic, [place], which))[0]!
  const outcome = typeof answer === 'string' ? answer : answer.outcome
  const what = `replay(${place.key})`
  same(what, outcome, model.replay(place, which))
  run.note(`replay ${outcome}`)
  if (typeof answer === 'string') return
  sameHint(what, answer, outcome === 'replayed' ? hintOf(model.live.get(place.key)!) : null)
}

async function purge<P extends Port>(model: TaskModel, run: Run<P>, about: About): Promise<void> {
  const place = placeOf(model, about)
  const [answer] = await run.port.purge(run.topic, [place])
  same(`purge(${place.key})`, answer, model.purge(place))
  run.note(`purge ${answer}`)
}

export async function pass<P extends Port>(model: TaskModel, run: Run<P>, ms: number): Promise<void> {
  await run.world.pass(ms)
  model.pass(ms)
}

/** Sets the wall clock, where it is not the steady clock: ring times are affected, leases are not. */
export function setWall<P extends Port>(): fc.Arbitrary<Command<P>> {
  return command('set the wall clock by', fc.constantFrom(-1_000, -1, 1, 1_000), async (model, run, ms) => {
    if (run.world.stepWall === undefined) return
    run.world.stepWall(ms)
    model.nowMs += ms
    run.note('the wall clock was set')
  })
}

const untilArb = fc.record({
  key: placeArb.map(({ key }) => key),
  offsetMs: fc.constantFrom(-1, 0, 0),
})

/** Advances to the moment when a key rings or its lease ends, or to the millisecond before. */
async function passUntil<P extends Port>(
  model: TaskModel,
  run: Run<P>,
  { key, offsetMs }: { key: string; offsetMs: number },
): Promise<void> {
  const task = model.live.get(key)
  if (task === undefined) return
  const inMs =
    task.hold === null ? task.ringMs - model.nowMs : Math.max(0, task.hold.leaseEndMs - model.steadyMs)
  if (inMs + offsetMs > 0) await pass(model, run, inMs + offsetMs)
}
