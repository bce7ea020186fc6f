/** The words in which the cases of hint tables are written. */
import { expect } from 'vitest'
import type { Claim, ClaimRequest, Selection, SettleAnswer, SettleOutcome } from '../../../src/timetable.ts'
import type { Hint, HintTable } from '../../../src/hint-table.ts'
import { DONE, keysOf, keysOfOneCell, LONG_LEASE_MS, newRequest, only, place } from '../timetable/helpers.ts'

/** What a case gets: a table of its own, empty, on a clock that stands still until it is told to move. */
export interface HintHarness {
  readonly table: HintTable
  readonly topic: string
  advance(ms: number): Promise<void>
  close(): Promise<void>
}

export interface HintCase<H extends HintHarness = HintHarness> {
  readonly name: string
  run(harness: H): Promise<void>
}

/** Cases are told apart by their theme and their name. */
export function theme<H extends HintHarness>(
  title: string,
  cases: readonly HintCase<H>[],
): readonly HintCase<H>[] {
  return cases.map((one) => ({ ...one, name: `${title}: ${one.name}` }))
}

export type Mode = 'set' | 'lower'
export type Lane = Hint['priority'] | 'suspects'
export const LANES: readonly Lane[] = ['high', 'normal', 'low', 'suspects']

export interface HintOptions {
  readonly lane?: Lane
  readonly failures?: number
}

export function hint(key: string, ringMs: number, { lane = 'normal', failures = 0 }: HintOptions = {}): Hint {
  const isSuspect = lane === 'suspects'
  return { ...place(key), ringMs, failures, priority: isSuspect ? 'normal' : lane, isSuspect }
}

export function now({ table }: HintHarness): Promise<number> {
  return table.nowMs()
}

export interface PutOptions extends HintOptions {
  /** From now. */
  readonly inMs?: number
  readonly mode?: Mode
}

/** One hint, for now and set, unless told otherwise. Answers whether that changed anything. */
export async function put(harness: HintHarness, key: string, options: PutOptions = {}): Promise<boolean> {
  const { inMs = 0, mode = 'set', ...rest } = options
  const changed = await putAll(harness, [hint(key, (await now(harness)) + inMs, rest)], mode)
  expect(changed).toBeLessThanOrEqual(1)
  return changed === 1
}

export function putAll(
  { table, topic }: HintHarness,
  hints: readonly Hint[],
  mode: Mode = 'set',
): Promise<number> {
  return table.put(topic, hints, mode)
}

export async function cancel({ table, topic }: HintHarness, ...keys: string[]): Promise<void> {
  await table.cancel(
    topic,
    keys.map((key) => place(key)),
  )
}

export async function drop({ table, topic }: HintHarness, ...keys: string[]): Promise<void> {
  await table.drop(
    topic,
    keys.map((key) => place(key)),
  )
}

export async function has({ table, topic }: HintHarness, key: string): Promise<boolean> {
  return only(await table.has(topic, [place(key)]))
}

/** Claims from the cell of `key`. Whatever the case is about: never early, never more than asked for. */
export async function claim(
  { table, topic }: HintHarness,
  key: string,
  options: Partial<ClaimRequest> = {},
): Promise<Claim> {
  const request = {
    req: newRequest(),
    limit: 100,
    leaseMs: LONG_LEASE_MS,
    from: 'lanes',
    wholePrefixes: false,
    ...options,
  } as const
  const claimed = await table.claim({ topic, cell: place(key).cell }, request)
  expect(claimed.tasks.length).toBeLessThanOrEqual(request.limit)
  for (const { key: one, ringMs, body, tags } of claimed.tasks) {
    expect(ringMs, `${one} claimed before its time`).toBeLessThanOrEqual(claimed.nowMs)
    expect({ body, tags }, 'a hint has no more than its time').toEqual({ body: '', tags: [] })
  }
  return claimed
}

/** Claims nothing, but puts back what expired claims left behind. */
export function rescue(harness: HintHarness, key: string): Promise<Claim> {
  return claim(harness, key, { limit: 0 })
}

/** Claims the only hint of its cell that is due by now. Answers its stamp. */
export async function hold(
  harness: HintHarness,
  key: string,
  options: Partial<ClaimRequest> = {},
): Promise<number> {
  const { stamp, tasks } = await claim(harness, key, options)
  expect(keysOf(tasks)).toEqual([key])
  return stamp
}

/** As `hold`, wherever it waits. */
export function holdFrom(
  harness: HintHarness,
  key: string,
  lane: Lane,
  options: Partial<ClaimRequest> = {},
): Promise<number> {
  return hold(harness, key, { from: lane === 'suspects' ? 'suspects' : 'lanes', ...options })
}

export async function settle(
  { table, topic }: HintHarness,
  key: string,
  stamp: number,
  outcome: SettleOutcome = DONE,
): Promise<SettleAnswer> {
  return only(await table.settle({ topic, cell: place(key).cell }, [{ key, stamp, outcome }]))
}

/** When the only hint that waits rings; null: none waits. */
export async function ringMs({ table, topic }: HintHarness): Promise<number | null> {
  return (await table.extent(topic)).headMs
}

/** What the table holds in all. */
export async function expectCount({ table, topic }: HintHarness, count: number): Promise<void> {
  expect((await table.extent(topic)).count).toBe(count)
}

/** Nothing of it is left. */
export async function expectGone(harness: HintHarness, key: string): Promise<void> {
  expect(await has(harness, key)).toBe(false)
  expect((await claim(harness, key)).tasks).toEqual([])
  expect((await claim(harness, key, { from: 'suspects' })).tasks).toEqual([])
}

/**
 * The only hint of its cell, due by now, waits in this lane and no other. It is claimed for that, among others that
 * stand for their lanes, and ended.
 */
export async function expectLane(harness: HintHarness, key: string, lane: Lane): Promise<void> {
  const [normal = '', low = ''] = keysOfOneCell(2, 'stands for a lane', key)
  await putAll(harness, [hint(normal, 0), hint(low, 0, { lane: 'low' })])
  const order = {
    high: [key, normal, low],
    normal: [normal, key, low],
    low: [normal, low, key],
    suspects: [normal, low],
  }
  const ordinary = await claim(harness, key)
  expect(keysOf(ordinary.tasks), `${key} is claimed as ${lane}`).toEqual(order[lane])
  for (const { key: one } of ordinary.tasks)
    expect(await settle(harness, one, ordinary.stamp)).toBe('settled')
  const alone = await claim(harness, key, { from: 'suspects' })
  expect(keysOf(alone.tasks)).toEqual(lane === 'suspects' ? [key] : [])
  for (const { key: one } of alone.tasks) expect(await settle(harness, one, alone.stamp)).toBe('settled')
  await expectGone(harness, key)
}

/** Page by page. */
export async function find(
  { table, topic }: HintHarness,
  key: string,
  what: Selection = { all: true },
  between: () => Promise<void> = async () => {},
): Promise<string[]> {
  const found = new Set<string>()
  let cursor: string | null = null
  let pages = 0
  do {
    expect(++pages, 'pages that never end').toBeLessThan(1_000)
    const at = { topic, cell: place(key).cell }
    const page: { keys: string[]; cursor: string | null } = await table.find(at, 'live', what, cursor)
    for (const one of page.keys) found.add(one)
    cursor = page.cursor
    await between()
  } while (cursor !== null)
  return [...found].toSorted()
}

/** The sound table, with some of its methods replaced. */
export function wrap(sound: HintTable, replaced: Partial<HintTable>): HintTable {
  return new Proxy(sound, {
    get(target, name) {
      const source = name in replaced ? replaced : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? value.bind(source) : value
    },
  })
}
