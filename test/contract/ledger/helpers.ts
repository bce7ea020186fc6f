/** The words in which the cases are written. */
import { expect } from 'vitest'
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import type {
  ClaimVerdict,
  Ledger,
  LedgerClaimRequest,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettlement,
  Retention,
} from '../../../src/ledger.ts'
import type {
  Books,
  CancelAnswer,
  ClaimedTask,
  Counts,
  EntryView,
  ListQuery,
  Replayable,
  Selection,
} from '../../../src/timetable.ts'
import type { RingTime } from '../../../src/values/ring-time.ts'
import type { Frontier, Hint } from '../../../src/hint-table.ts'
import { entry, type EntryOptions, LONG_LEASE_MS, only, place, SHORT_LEASE_MS } from '../timetable/helpers.ts'

/** What a case gets: a topic of its own, empty, and a way to let the ledger's clocks move on. */
export interface LedgerHarness {
  /** Another one after `reopen`. */
  readonly ledger: Ledger
  readonly topic: string
  /** Several processes may have it open: what a former one held is its own until the lease is over. */
  readonly isShared?: boolean
  /** The ledger's clocks move on by at least `ms`: virtually, or by waiting. */
  advance(ms: number): Promise<void>
  /** Another process opens it, too, until the harness is closed. Undefined where only one may. */
  another?(): Promise<Ledger>
  /** The process ends without a word, and a new one opens the same ledger. */
  reopen(): Promise<void>
  close(): Promise<void>
}

export interface LedgerCase {
  readonly name: string
  /** The case writes thousands of tasks. */
  readonly slow?: boolean
  /** The case lists all topics of the ledger, or uses a topic besides the harness's. Other cases may share a ledger. */
  readonly needsEmptyLedger?: boolean
  run(harness: LedgerHarness): Promise<void>
}

/** Cases are told apart by their theme and their name. */
export function theme(title: string, cases: readonly LedgerCase[]): readonly LedgerCase[] {
  return cases.map((one) => ({ ...one, name: `${title}: ${one.name}` }))
}

export async function put(
  { ledger, topic }: LedgerHarness,
  key: string,
  options: EntryOptions = {},
  mergeMs = 0,
): Promise<LedgerScheduled> {
  return only(await ledger.schedule(topic, [entry(key, options)], mergeMs))
}

export async function putAll(
  { ledger, topic }: LedgerHarness,
  keys: readonly string[],
  options: EntryOptions = {},
): Promise<LedgerScheduled[]> {
  return ledger.schedule(
    topic,
    keys.map((key) => entry(key, options)),
    0,
  )
}

export function now({ ledger }: LedgerHarness): Promise<number> {
  return ledger.nowMs()
}

let stamps = 0

/** A stamp that no other claim has. */
export function newStamp(): number {
  return ++stamps
}

/** Rings now, by the ledger's clock, unless told otherwise. */
export async function claim(
  harness: LedgerHarness,
  key: string,
  options: Partial<LedgerClaimRequest> = {},
): Promise<ClaimVerdict> {
  const request = {
    stamp: options.stamp ?? newStamp(),
    leaseMs: LONG_LEASE_MS,
    nowMs: options.nowMs ?? (await now(harness)),
    alone: false,
    ...options,
  }
  return only(await harness.ledger.claim(harness.topic, request, [place(key)]))
}

export interface Held {
  readonly stamp: number
  readonly task: ClaimedTask
}

/** The claim must succeed. */
export async function hold(
  harness: LedgerHarness,
  key: string,
  options: Partial<LedgerClaimRequest> = {},
): Promise<Held> {
  const stamp = options.stamp ?? newStamp()
  const verdict = await claim(harness, key, { ...options, stamp })
  expect(verdict.kind, `the claim of ${key}`).toBe('ours')
  return { stamp, task: (verdict as { task: ClaimedTask }).task }
}

/** Scheduled and claimed. */
export async function holdNew(
  harness: LedgerHarness,
  key: string,
  options: Partial<LedgerClaimRequest> = {},
): Promise<Held> {
  await put(harness, key)
  return hold(harness, key, options)
}

/** Lets a lease of SHORT_LEASE_MS run out. */
export function leaseEnds(harness: LedgerHarness): Promise<void> {
  return harness.advance(SHORT_LEASE_MS + 20)
}

/** Claimed, and its holder never heard of again. Its lease is over; nobody has told the ledger. */
export async function lose(
  harness: LedgerHarness,
  key: string,
  options: Partial<LedgerClaimRequest> = {},
): Promise<Held> {
  const held = await hold(harness, key, { ...options, leaseMs: SHORT_LEASE_MS })
  await leaseEnds(harness)
  return held
}

/** Its second lease in a row was lost. */
export async function makeSuspect(harness: LedgerHarness, key: string): Promise<void> {
  await put(harness, key)
  await lose(harness, key)
  await lose(harness, key)
  expect((await claim(harness, key)).kind).toBe('suspect')
}

export async function settle(
  { ledger, topic }: LedgerHarness,
  key: string,
  stamp: number,
  outcome: LedgerSettlement['outcome'],
): Promise<LedgerSettled> {
  return only(await ledger.settle(topic, [{ ...place(key), stamp, outcome }]))
}

export const OBSOLETE = { kind: 'obsolete' } as const
export const LOST = { kind: 'lost', spread: 0.5 } as const

/** Scheduled, claimed and settled. */
export async function endNew(
  harness: LedgerHarness,
  key: string,
  outcome: LedgerSettlement['outcome'],
  options: EntryOptions = {},
): Promise<Held> {
  await put(harness, key, options)
  const held = await hold(harness, key)
  expect(await settle(harness, key, held.stamp, outcome)).toEqual({ answer: 'settled', hint: null })
  return held
}

export async function begin({ ledger, topic }: LedgerHarness, key: string, stamp: number): Promise<boolean> {
  return ledger.begin(topic, place(key), stamp)
}

export async function extend(
  { ledger, topic }: LedgerHarness,
  keys: readonly string[],
  stamp: number,
  leaseMs: number,
): Promise<number> {
  const answers = await ledger.extend(
    topic,
    keys.map((key) => place(key)),
    stamp,
    leaseMs,
  )
  expect(answers).toHaveLength(keys.length)
  return answers.filter((answer) => answer === 'extended').length
}

export async function cancel({ ledger, topic }: LedgerHarness, key: string): Promise<CancelAnswer> {
  return only(await ledger.cancel(topic, [place(key)]))
}

export async function reschedule(
  { ledger, topic }: LedgerHarness,
  key: string,
  when: RingTime,
  mergeMs = 0,
): Promise<LedgerRescheduled> {
  return only(await ledger.reschedule(topic, [place(key)], when, mergeMs))
}

export async function replay(
  { ledger, topic }: LedgerHarness,
  key: string,
  which?: Replayable,
): Promise<LedgerReplayed> {
  return only(await ledger.replay(topic, [place(key)], which))
}

export async function purge({ ledger, topic }: LedgerHarness, key: string): Promise<string> {
  return only(await ledger.purge(topic, [place(key)]))
}

export async function hintOf({ ledger, topic }: LedgerHarness, key: string): Promise<Hint | null> {
  return only(await ledger.hints(topic, [place(key)]))
}

/** Every hint up to `untilMs`, page by page. */
export async function loadAll(
  { ledger, topic }: LedgerHarness,
  { untilMs = LAST_INSTANT_MS, limit = 1_000, after = null as Frontier | null } = {},
): Promise<Hint[]> {
  const hints: Hint[] = []
  let frontier = after
  let pages = 0
  do {
    expect(++pages, 'pages that never end').toBeLessThan(10_000)
    const page = await ledger.load(topic, frontier, untilMs, limit)
    expect(page.hints.length).toBeLessThanOrEqual(limit)
    hints.push(...page.hints)
    frontier = page.frontier
  } while (frontier !== null)
  return hints
}

export function look({ ledger, topic }: LedgerHarness, key: string): Promise<EntryView | null> {
  return ledger.get(topic, place(key))
}

export async function list(
  { ledger, topic }: LedgerHarness,
  query: Partial<ListQuery> = {},
): Promise<EntryView[]> {
  return ledger.list(topic, {
    state: null,
    tag: null,
    prefix: null,
    dueFromMs: 0,
    dueToMs: LAST_INSTANT_MS,
    limit: 1_000,
    after: null,
    ...query,
  })
}

/** In the cell of `key`, page by page, in ascending order. */
export async function find(
  { ledger, topic }: LedgerHarness,
  key: string,
  among: 'live' | 'dead',
  what: Selection,
): Promise<string[]> {
  const found = new Set<string>()
  let cursor: string | null = null
  let pages = 0
  do {
    expect(++pages, 'pages that never end').toBeLessThan(10_000)
    const at = { topic, cell: place(key).cell }
    const page: Awaited<ReturnType<Ledger['find']>> = await ledger.find(at, among, what, cursor)
    for (const one of page.keys) found.add(one)
    cursor = page.cursor
  } while (cursor !== null)
  return [...found].toSorted()
}

export function forget(
  { ledger, topic }: LedgerHarness,
  retention: Partial<Retention> = {},
): Promise<{ ended: number; dead: number }> {
  return ledger.forget(topic, {
    endedBeforeMs: 0,
    deadBeforeMs: 0,
    deadMax: 1_000,
    limit: 1_000,
    ...retention,
  })
}

const NO_TASKS: Books = {
  scheduled: 0,
  pending: 0,
  claimed: 0,
  dead: 0,
  done: 0,
  cancelled: 0,
  obsolete: 0,
  purged: 0,
}

/** What is not named is 0. */
export async function expectBooks({ ledger, topic }: LedgerHarness, books: Partial<Books>): Promise<void> {
  expect(await ledger.books(topic)).toEqual({ ...NO_TASKS, ...books })
}

export async function expectCounts({ ledger, topic }: LedgerHarness, counts: Partial<Counts>): Promise<void> {
  expect(await ledger.counts(topic)).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0, ...counts })
}

/** The books add up, and the rows agree with them. */
export async function expectBalance({ ledger, topic }: LedgerHarness): Promise<void> {
  const { scheduled, purged, ...rest } = await ledger.books(topic)
  const sum = Object.values(rest).reduce((total, count) => total + count, purged)
  expect(sum, 'the books do not add up').toBe(scheduled)
  expect((await ledger.recount(topic)).counted, 'the rows and the books differ').toEqual(rest)
}
