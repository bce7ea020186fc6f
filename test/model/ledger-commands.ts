/** Commands of a ledger: each key that rang is claimed by itself and has a lease of its own. */
import fc from 'fast-check'
import type { ClaimVerdict, Ledger, LedgerClaimRequest, LedgerSettlement } from '../../src/ledger.ts'
import type { Place } from '../../src/timetable.ts'
import type { Hint } from '../../src/hint-table.ts'
import { hintOf, sameClaimed } from './looking.ts'
import { pass, setWall, sharedCommands, times } from './shared-commands.ts'
import { isSuspect, type TaskModel } from './task-model.ts'
import { outcomeArb } from './timetable-commands.ts'
import {
  type About,
  aboutArb,
  type Command,
  command,
  leaseArb,
  onceClaimed,
  onceScheduled,
  placeArb,
  placeOf,
  PLACES,
  type Run,
  same,
  type Which,
  whichArb,
  whileHeld,
} from './world.ts'

type Outcome = LedgerSettlement['outcome']

/** The clock of the process that rings may be ahead of the ledger's clock, or behind. */
const termsArb = fc.record({
  leaseMs: leaseArb,
  aheadMs: fc.constantFrom(0, 0, 0, -1, 1),
  alone: fc.constantFrom(false, false, true),
})
type Terms = typeof termsArb extends fc.Arbitrary<infer T> ? T : never

const lostArb = fc.constantFrom(0, 0.3, 0.999).map((spread) => ({ kind: 'lost' as const, spread }))
const oneArb = fc.record({
  which: whichArb,
  outcome: fc.oneof<fc.Arbitrary<Outcome>[]>(outcomeArb, outcomeArb, outcomeArb, lostArb),
})
const settlementArb = oneArb.map((one) => [one])
const settlementsArb = fc.array(oneArb, { minLength: 2, maxLength: 2 })
const mostly = fc.constantFrom(true, true, true, false)
const someArb = fc.uniqueArray(placeArb, { minLength: 1, maxLength: 3, selector: ({ key }) => key })

export function ledgerCommands(): fc.Arbitrary<Command<Ledger>>[] {
  return [
    ...sharedCommands<Ledger>(),
    ...times(2, command('claim', fc.tuple(someArb, termsArb), claimNew, onceScheduled)),
    command('claim again', fc.tuple(aboutArb('held'), whichArb), claimAgain, onceClaimed),
    command('begin', fc.tuple(aboutArb('held'), whichArb), begin, whileHeld),
    command('extend', fc.tuple(aboutArb('held'), whichArb, leaseArb), extend, whileHeld),
    command('settle', fc.tuple(aboutArb('held'), settlementsArb), settle, onceClaimed),
    ...times(4, command('settle', fc.tuple(aboutArb('held'), settlementArb), settle, whileHeld)),
    ...times(4, command('take', fc.tuple(placeArb, leaseArb), take, onceScheduled)),
    ...times(
      4,
      command('lose a lease of', fc.tuple(aboutArb('lost'), mostly, fc.boolean()), loseLease, onceScheduled),
    ),
    setWall<Ledger>(),
  ]
}

async function claimNew(
  model: TaskModel,
  run: Run<Ledger>,
  [places, terms]: [Place[], Terms],
): Promise<void> {
  await claim(model, run, places, run.next(), terms)
}

/** Repeats a claim with the same session and stamp, as after a lost reply. */
async function claimAgain(model: TaskModel, run: Run<Ledger>, [about, which]: [About, Which]): Promise<void> {
  const place = placeOf(model, about)
  run.note('claim repeated')
  const { stamp } = run.claimOf(place.key, which)
  await claim(model, run, [place], stamp, { leaseMs: 1_000, aheadMs: 0, alone: false })
}

async function claim(
  model: TaskModel,
  run: Run<Ledger>,
  places: Place[],
  stamp: number,
  { leaseMs, aheadMs, alone }: Terms,
): Promise<void> {
  const request: LedgerClaimRequest = { stamp, leaseMs, nowMs: model.nowMs + aheadMs, alone }
  const verdicts = await run.port.claim(run.topic, request, places)
  for (const [i, place] of places.entries()) {
    const verdict = verdicts[i]!
    const what = `claim(${place.key})`
    same(what, verdict.kind, model.verdict(place, request))
    run.note(`claim ${verdict.kind}`)
    sameVerdict(what, model, run, verdict, place.key)
    if (verdict.kind === 'ours') run.claimed(place.key, stamp, String(stamp))
  }
}

function sameVerdict(
  what: string,
  model: TaskModel,
  run: Run<Ledger>,
  verdict: ClaimVerdict,
  key: string,
): void {
  const task = model.live.get(key)
  if (verdict.kind === 'ours') sameClaimed(what, run, verdict.task, task!)
  if (verdict.kind === 'held') same(what, verdict.leaseEndInMs, task!.hold!.leaseEndMs - model.steadyMs)
  if (verdict.kind === 'later' || verdict.kind === 'suspect') same(what, verdict.hint, hintOf(task!))
  if (verdict.kind === 'poison') same(what, verdict.error, model.graves.get(key)?.error)
}

async function begin(model: TaskModel, run: Run<Ledger>, [about, which]: [About, Which]): Promise<void> {
  const place = placeOf(model, about)
  const { stamp } = run.claimOf(place.key, which)
  const begun = await run.port.begin(run.topic, place, stamp)
  same(`begin(${place.key})`, begun, model.begin(place.key, stamp))
  run.note(`begin ${begun}`)
}

/** Extends all keys in one call: only the keys that are held under that stamp are extended. */
async function extend(
  model: TaskModel,
  run: Run<Ledger>,
  [about, which, leaseMs]: [About, Which, number],
): Promise<void> {
  const { stamp } = run.claimOf(placeOf(model, about).key, which)
  const answers = await run.port.extend(run.topic, PLACES, stamp, leaseMs)
  for (const [i, { key }] of PLACES.entries()) {
    const hold = model.live.get(key)?.hold
    const isExtended = model.extend(hold?.stamp === stamp ? hold : null, leaseMs)
    same(`extend(${key}, ${stamp})`, answers[i], isExtended ? 'extended' : 'stale')
    run.note(`extend ${answers[i]}`)
  }
}

/** Settles one key twice in a call: the second settlement is stale. */
async function settle(
  model: TaskModel,
  run: Run<Ledger>,
  [about, given]: [About, { which: Which; outcome: Outcome }[]],
): Promise<void> {
  const place = placeOf(model, about)
  const { key } = place
  const settlements = given.map(({ which, outcome }) => ({
    ...place,
    stamp: run.claimOf(key, which).stamp,
    outcome,
  }))
  const answers = await run.port.settle(run.topic, settlements)
  for (const [i, { stamp, outcome }] of settlements.entries()) {
    const what = `settle(${key}, ${stamp}, ${outcome.kind})`
    const answer = model.settle(key, stamp, outcome)
    run.note(answer === 'stale' ? 'settle stale' : `settle ${outcome.kind}`)
    const task = answer === 'stale' ? undefined : model.live.get(key)
    const hint: Hint | null = task === undefined ? null : hintOf(task)
    const grave = model.graves.get(key)
    const isPoison =
      answer === 'settled' && outcome.kind === 'lost' && task === undefined && grave?.cause === 'poison'
    if (isPoison) run.note('settle poison')
    same(what, answers[i], { answer, hint, ...(isPoison ? { poison: grave.error } : {}) })
  }
}

/** Advances the clock until a key rings, and claims it. */
async function take(model: TaskModel, run: Run<Ledger>, [place, leaseMs]: [Place, number]): Promise<void> {
  const task = model.live.get(place.key)
  if (task === undefined || model.isTrusted(task)) return
  if (task.hold === null && task.ringMs > model.nowMs) await pass(model, run, task.ringMs - model.nowMs)
  await claim(model, run, [place], run.next(), { leaseMs, aheadMs: 0, alone: isSuspect(task) })
}

/** Claims a key, begins it or not, and lets the lease expire: leads to suspects, and to poison. */
async function loseLease(
  model: TaskModel,
  run: Run<Ledger>,
  [given, begins, tells]: [About, boolean, boolean],
): Promise<void> {
  const place = placeOf(model, given)
  await take(model, run, [place, 100])
  const hold = model.live.get(place.key)?.hold
  if (!hold) return
  const about = { place, wish: 'any' } as const
  if (begins) await begin(model, run, [about, 'last'])
  if (hold.leaseEndMs > model.steadyMs) await pass(model, run, hold.leaseEndMs - model.steadyMs)
  if (tells) await settle(model, run, [about, [{ which: 'last', outcome: { kind: 'lost', spread: 0.3 } }]])
}
