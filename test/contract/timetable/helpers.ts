/** The words in which the cases are written. */
import { expect } from 'vitest'
import { cellOf, type SlotBy } from '../../../src/values/cell.ts'
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import type {
  CancelAnswer,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Counts,
  EntryView,
  ListQuery,
  NewEntry,
  Place,
  Replayable,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  SettleOutcome,
  Timetable,
} from '../../../src/timetable.ts'
import type { RingTime } from '../../../src/values/ring-time.ts'

/** What a case gets: a timetable of its own, empty, with a way to let its clock move on. */
export interface TimetableHarness {
  readonly timetable: Timetable
  readonly topic: string
  /** The timetable's clock moves on by at least `ms`: virtually, or by waiting. */
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

export interface TimetableCase {
  readonly name: string
  /** Waits for rescued tasks, which come back spread over seconds. */
  readonly slow?: boolean
  /** Lets days pass: for clocks that need not be waited for. */
  readonly leaps?: boolean
  run(harness: TimetableHarness): Promise<void>
}

/** Cases are told apart by their theme and their name. */
export function theme(title: string, cases: readonly TimetableCase[]): readonly TimetableCase[] {
  return cases.map((one) => ({ ...one, name: `${title}: ${one.name}` }))
}

/** A lease that ends long after the case. */
export const LONG_LEASE_MS = 60_000
/** A lease that the case lets run out, and the wait that is enough for it. */
export const SHORT_LEASE_MS = 100
/** Far enough away that nothing scheduled for then rings during a case. */
export const FAR_MS = 60_000
/** What a rescue may add, times two for each lost lease. */
export const RESCUE_SPREAD_MS = 1_000

export function place(key: string, slotBy: SlotBy = 'key'): Place {
  return { key, cell: cellOf(key, slotBy) }
}

export interface EntryOptions {
  readonly body?: string
  readonly delayMs?: number
  readonly atMs?: number
  readonly priority?: NewEntry['priority']
  readonly tags?: readonly string[] | null
  readonly onConflict?: NewEntry['onConflict']
  readonly slotBy?: SlotBy
}

/** Due now, of normal priority, replacing, unless told otherwise. */
export function entry(key: string, options: EntryOptions = {}): NewEntry {
  const { atMs, delayMs = 0 } = options
  return {
    ...place(key, options.slotBy),
    body: options.body ?? `body of ${key}`,
    when: atMs === undefined ? { kind: 'delay', ms: delayMs } : { kind: 'at', ms: atMs },
    priority: options.priority ?? 'normal',
    tags: options.tags ?? null,
    onConflict: options.onConflict ?? 'replace',
  }
}

export async function schedule(
  { timetable, topic }: TimetableHarness,
  key: string,
  options: EntryOptions = {},
): Promise<ScheduleAnswer> {
  return only(await timetable.schedule(topic, [entry(key, options)], 0))
}

export async function scheduleAll(
  { timetable, topic }: TimetableHarness,
  keys: readonly string[],
  options: EntryOptions = {},
): Promise<void> {
  await timetable.schedule(
    topic,
    keys.map((key) => entry(key, options)),
    0,
  )
}

export async function cancel({ timetable, topic }: TimetableHarness, key: string): Promise<CancelAnswer> {
  return only(await timetable.cancel(topic, [place(key)]))
}

export async function reschedule(
  { timetable, topic }: TimetableHarness,
  key: string,
  when: RingTime,
  mergeMs = 0,
): Promise<RescheduleAnswer> {
  return only(await timetable.reschedule(topic, [place(key)], when, mergeMs))
}

export async function replay(
  { timetable, topic }: TimetableHarness,
  key: string,
  which?: Replayable,
): Promise<string> {
  return only(await timetable.replay(topic, [place(key)], which))
}

export async function purge({ timetable, topic }: TimetableHarness, key: string): Promise<string> {
  return only(await timetable.purge(topic, [place(key)]))
}

let requests = 0

/** A name for a claim call that no other has. */
export function newRequest(): string {
  return `request-${++requests}`
}

export interface ClaimOptions extends Partial<ClaimRequest> {
  readonly slotBy?: SlotBy
}

/** Claims from the cell of `key`. Whatever the case is about: never early, never more than asked for. */
export async function claim(
  { timetable, topic }: TimetableHarness,
  key: string,
  { slotBy, ...options }: ClaimOptions = {},
): Promise<Claim> {
  const request = {
    req: newRequest(),
    limit: 100,
    leaseMs: LONG_LEASE_MS,
    from: 'lanes',
    wholePrefixes: false,
    ...options,
  } as const
  const claimed = await timetable.claim({ topic, cell: place(key, slotBy).cell }, request)
  for (const task of claimed.tasks)
    expect(task.ringMs, `${task.key} claimed before its time`).toBeLessThanOrEqual(claimed.nowMs)
  return claimed
}

/** Claims nothing, but puts back what expired claims left behind. */
export async function rescue(harness: TimetableHarness, key: string): Promise<Claim> {
  return claim(harness, key, { limit: 0 })
}

export interface HeldTask {
  readonly stamp: number
  readonly task: ClaimedTask
}

/** Claims the only task of its cell that is due by now. */
export async function hold(
  harness: TimetableHarness,
  key: string,
  options: ClaimOptions = {},
): Promise<HeldTask> {
  const { stamp, tasks } = await claim(harness, key, options)
  const task = only(tasks)
  expect(task.key).toBe(key)
  return { stamp, task }
}

/** Waits for the ring of the only task of its cell, and claims it. */
export async function holdWhenDue(
  harness: TimetableHarness,
  key: string,
  options: ClaimOptions = {},
): Promise<HeldTask> {
  const waiting = await view(harness, key)
  expect(waiting.state).toBe('pending')
  await advanceTo(harness, waiting.ringMs)
  return hold(harness, key, options)
}

/** Lets a lease of SHORT_LEASE_MS run out. */
export async function leaseEnds(harness: TimetableHarness): Promise<void> {
  await harness.advance(SHORT_LEASE_MS + 20)
}

/** From now on the lease is a short one: for cases that have to do something first, however long it takes. */
export async function shortenLease(
  { timetable, topic }: TimetableHarness,
  key: string,
  req: string,
): Promise<void> {
  expect(await timetable.extend({ topic, cell: place(key).cell }, req, SHORT_LEASE_MS)).toBe('extended')
}

/** The task is claimed and its holder never heard of again; the rescue puts it back. */
export async function loseLease(
  harness: TimetableHarness,
  key: string,
  options: ClaimOptions = {},
): Promise<HeldTask> {
  const held = await holdWhenDue(harness, key, { ...options, leaseMs: SHORT_LEASE_MS })
  await leaseEnds(harness)
  await rescue(harness, key)
  return held
}

export async function settle(
  { timetable, topic }: TimetableHarness,
  key: string,
  stamp: number,
  outcome: SettleOutcome,
): Promise<SettleAnswer> {
  return only(await timetable.settle({ topic, cell: place(key).cell }, [{ key, stamp, outcome }]))
}

export const DONE = { kind: 'done' } as const
export const RETURN = { kind: 'return' } as const
export const DEAD = { kind: 'dead', cause: 'handler', error: 'it said so', failed: false } as const
export const retryIn = (delayMs: number, error = 'it failed') => ({ kind: 'retry', delayMs, error }) as const
export const snoozeFor = (delayMs: number) => ({ kind: 'snooze', delayMs }) as const

/** Scheduled, claimed and settled as dead. */
export async function kill(
  harness: TimetableHarness,
  key: string,
  options: EntryOptions = {},
): Promise<HeldTask> {
  await schedule(harness, key, options)
  const held = await hold(harness, key)
  expect(await settle(harness, key, held.stamp, DEAD)).toBe('settled')
  return held
}

export async function find(
  { timetable, topic }: TimetableHarness,
  key: string,
  among: 'live' | 'dead',
  what: Selection,
): Promise<string[]> {
  const found = new Set<string>()
  let cursor: string | null = null
  let pages = 0
  do {
    expect(++pages, 'pages that never end').toBeLessThan(10_000)
    const page: { keys: string[]; cursor: string | null } = await timetable.find(
      { topic, cell: place(key).cell },
      among,
      what,
      cursor,
    )
    for (const one of page.keys) found.add(one)
    cursor = page.cursor
  } while (cursor !== null)
  return [...found].toSorted()
}

export async function look({ timetable, topic }: TimetableHarness, key: string): Promise<EntryView | null> {
  return timetable.get(topic, place(key))
}

/** The task must be there. */
export async function view(harness: TimetableHarness, key: string): Promise<EntryView> {
  const found = await look(harness, key)
  expect(found, `${key} is not there`).not.toBeNull()
  return found as EntryView
}

export async function list(
  { timetable, topic }: TimetableHarness,
  query: Partial<ListQuery> = {},
): Promise<EntryView[]> {
  return timetable.list(topic, {
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

const NO_TASKS: Counts = { pending: 0, due: 0, claimed: 0, dead: 0 }

export async function expectCounts(
  { timetable, topic }: TimetableHarness,
  counts: Partial<Counts>,
): Promise<void> {
  expect(await timetable.counts(topic)).toEqual({ ...NO_TASKS, ...counts })
}

/** What is not named is 0; and the books must balance in any case. */
export async function expectBooks(
  { timetable, topic }: TimetableHarness,
  books: Partial<Awaited<ReturnType<Timetable['books']>>>,
): Promise<void> {
  expect(await timetable.books(topic)).toEqual({
    scheduled: 0,
    pending: 0,
    claimed: 0,
    dead: 0,
    done: 0,
    cancelled: 0,
    obsolete: 0,
    purged: 0,
    ...books,
  })
}

export async function now({ timetable }: TimetableHarness): Promise<number> {
  return timetable.nowMs()
}

/** A clock that is only waited for may need to be waited for again. */
export async function advanceTo(harness: TimetableHarness, atMs: number): Promise<void> {
  for (let nowMs = await now(harness); nowMs < atMs; nowMs = await now(harness))
    await harness.advance(atMs - nowMs)
}

/** A real clock moves while a call runs: what it decided lies between the moments before and after it. */
export async function during<T>(
  harness: TimetableHarness,
  call: () => Promise<T>,
): Promise<{ answer: T; fromMs: number; toMs: number }> {
  const fromMs = await now(harness)
  const answer = await call()
  return { answer, fromMs, toMs: await now(harness) }
}

export function expectBetween(value: number, fromMs: number, toMs: number): void {
  expect(value).toBeGreaterThanOrEqual(fromMs)
  expect(value).toBeLessThanOrEqual(toMs)
}

export function only<T>(values: readonly T[]): T {
  expect(values).toHaveLength(1)
  return values[0] as T
}

export function keysOf(tasks: readonly { readonly key: string }[]): string[] {
  return tasks.map(({ key }) => key)
}

/** Keys that share a cell (that of `like`, if one is named), in ascending order: `stem` and a number each. */
export function keysOfOneCell(count: number, stem = 'k', like = `${stem}000000`): string[] {
  const { cell } = place(like)
  const keys: string[] = []
  for (let n = 0; keys.length < count; n++) {
    const key = `${stem}${String(n).padStart(6, '0')}`
    if (place(key).cell === cell) keys.push(key)
  }
  return keys
}

/** Prefixes whose tasks share a cell in topics that place by prefix, in ascending order. */
export function prefixesOfOneCell(count: number): string[] {
  const { cell } = place('p000000', 'prefix')
  const prefixes: string[] = []
  for (let n = 0; prefixes.length < count; n++) {
    const prefix = `p${String(n).padStart(6, '0')}`
    if (place(prefix, 'prefix').cell === cell) prefixes.push(prefix)
  }
  return prefixes
}

/** The same numbers at every run (mulberry32). */
export function seededFraction(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
