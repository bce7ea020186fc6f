/** Tasks of one cell that end together: a ledger may store them as one. Each is still a task of its own. */
import { expect } from 'vitest'
import type { LedgerSettled, LedgerSettlement } from '../../../src/ledger.ts'
import type { EntryView, ListQuery, NewEntry } from '../../../src/timetable.ts'
import { DONE, entry, type EntryOptions, LONG_LEASE_MS, place } from '../timetable/helpers.ts'
import {
  cancel,
  expectBalance,
  expectBooks,
  find,
  forget,
  hold,
  type LedgerCase,
  type LedgerHarness,
  list,
  look,
  newStamp,
  now,
  OBSOLETE,
  put,
  putAll,
  replay,
  settle,
  theme,
} from './helpers.ts'

const MANY = 100
const CELL = 7
const DEAD = { kind: 'dead', cause: 'attempts', error: 'no more', failed: true } as const
const RETRY = { kind: 'retry', delayMs: 0, error: 'again' } as const
const WITHOUT_HISTORY = { slotBy: 'key', mergeMs: 0, keepsEnded: false, fastClaims: false } as const

/** Keys of one cell, in ascending order. */
function keysOf(count: number, prefix = 'many'): string[] {
  const keys: string[] = []
  for (let n = 1_000; keys.length < count; n++)
    if (place(`${prefix}:${n}`).cell === CELL) keys.push(`${prefix}:${n}`)
  return keys.toSorted()
}

async function putEach(
  { ledger, topic }: LedgerHarness,
  keys: readonly string[],
  optionsOf: (n: number) => EntryOptions,
): Promise<void> {
  const entries: NewEntry[] = keys.map((key, n) => entry(key, optionsOf(n)))
  await ledger.schedule(topic, entries, 0)
}

/** Claims all of them at once, and returns the stamp. */
async function holdAll(harness: LedgerHarness, keys: readonly string[]): Promise<number> {
  const stamp = newStamp()
  const request = { stamp, leaseMs: LONG_LEASE_MS, nowMs: await now(harness), alone: false }
  const verdicts = await harness.ledger.claim(
    harness.topic,
    request,
    keys.map((key) => place(key)),
  )
  expect(verdicts.map(({ kind }) => kind)).toEqual(keys.map(() => 'ours'))
  return stamp
}

function settleAll(
  { ledger, topic }: LedgerHarness,
  keys: readonly string[],
  stamp: number,
  outcome: LedgerSettlement['outcome'] = DONE,
): Promise<LedgerSettled[]> {
  return ledger.settle(
    topic,
    keys.map((key) => ({ ...place(key), stamp, outcome })),
  )
}

async function endAll(
  harness: LedgerHarness,
  keys: readonly string[],
  outcome: LedgerSettlement['outcome'] = DONE,
): Promise<void> {
  const answers = await settleAll(harness, keys, await holdAll(harness, keys), outcome)
  expect(answers).toEqual(keys.map(() => ({ answer: 'settled', hint: null })))
}

function cancelAll({ ledger, topic }: LedgerHarness, keys: readonly string[]) {
  return ledger.cancel(
    topic,
    keys.map((key) => place(key)),
  )
}

/** All pages of a list. */
async function listAll(
  harness: LedgerHarness,
  query: Partial<ListQuery>,
  limit: number,
): Promise<EntryView[]> {
  const all: EntryView[] = []
  for (let after: ListQuery['after'] = null; ;) {
    const page = await list(harness, { ...query, limit, after })
    expect(page.length).toBeLessThanOrEqual(limit)
    all.push(...page)
    const last = page.at(-1)
    if (page.length < limit || last === undefined) return all
    after = { ringMs: last.updatedMs, failures: last.generation as number, key: last.key }
  }
}

const keysIn = (views: readonly EntryView[]): string[] => views.map(({ key }) => key)

const cases: readonly LedgerCase[] = [
  {
    name: 'each of those that are done is found as it was',
    async run(harness) {
      const keys = keysOf(MANY)
      const startMs = await now(harness)
      await putEach(harness, keys, (n) => ({ body: `{"n":${n},"text":"a,b|ü\\u001e"}`, atMs: startMs - n }))
      await endAll(harness, keys)
      const listed = await listAll(harness, { state: 'done' }, 7)
      expect(keysIn(listed)).toEqual(keys)
      expect(new Set(listed.map(({ id }) => id)).size).toBe(MANY)
      for (const [n, key] of keys.entries()) {
        const view = await look(harness, key)
        expect(view).toMatchObject({
          key,
          state: 'done',
          body: `{"n":${n},"text":"a,b|ü\\u001e"}`,
          dueMs: startMs - n,
          deliveries: 1,
          failures: 0,
          tags: [],
          priority: 'normal',
          lastError: null,
        })
        expect(view?.createdMs).toBeGreaterThanOrEqual(startMs)
        expect(view?.updatedMs).toBeGreaterThanOrEqual(view?.createdMs as number)
        expect(listed[n]).toEqual(view)
      }
      expect(await look(harness, 'many:1')).toBeNull()
      await expectBooks(harness, { scheduled: MANY, done: MANY })
    },
  },
  {
    name: 'each of those that are cancelled gets its own answer',
    async run(harness) {
      const keys = keysOf(MANY)
      await putAll(harness, keys.slice(1), { delayMs: LONG_LEASE_MS })
      await putAll(harness, keys.slice(0, 1))
      await hold(harness, keys[0] as string)
      const answers = await cancelAll(harness, [...keys, 'many:1', keys[5] as string])
      const expected = ['in-flight', ...keys.slice(1).map(() => 'cancelled'), 'not-found', 'not-found']
      expect(answers).toEqual(expected)
      expect(await cancelAll(harness, keys.slice(1))).toEqual(keys.slice(1).map(() => 'not-found'))
      expect(keysIn(await listAll(harness, { state: 'cancelled' }, 13))).toEqual(keys.slice(1))
      expect(await look(harness, keys[MANY - 1] as string)).toMatchObject({
        state: 'cancelled',
        deliveries: 0,
      })
      await expectBooks(harness, { scheduled: MANY, claimed: 1, cancelled: MANY - 1 })
    },
  },
  {
    name: 'many calls at once end their tasks, each with its own answer',
    async run(harness) {
      const keys = keysOf(MANY)
      await putAll(harness, keys, { delayMs: LONG_LEASE_MS })
      const calls = [...keys, 'many:1', ...keys.slice(0, 3)]
      const answers = await Promise.all(calls.map((key) => cancel(harness, key)))
      const count = (wanted: string) => answers.filter((answer) => answer === wanted).length
      expect([count('cancelled'), count('not-found')]).toEqual([MANY, 4])
      expect(await listAll(harness, { state: 'cancelled' }, 50)).toHaveLength(MANY)
      for (const key of keys) expect(await look(harness, key)).toMatchObject({ key, state: 'cancelled' })
    },
  },
  {
    name: 'they are listed by prefix and by due time',
    async run(harness) {
      const startMs = await now(harness)
      const keys = keysOf(MANY)
      const others = keysOf(MANY, 'manymore')
      await putEach(harness, keys, (n) => ({ atMs: startMs - 1_000 - n }))
      await putEach(harness, others, () => ({ atMs: startMs - 1 }))
      await endAll(harness, [...keys, ...others], OBSOLETE)
      const of = (query: Partial<ListQuery>) => listAll(harness, { state: 'obsolete', ...query }, 30)
      expect(keysIn(await of({ prefix: 'many' }))).toEqual(keys)
      expect(keysIn(await of({ prefix: 'manymore' }))).toEqual(others)
      expect(await of({ prefix: 'man' })).toEqual([])
      const middle = { dueFromMs: startMs - 1_000 - 60, dueToMs: startMs - 1_000 - 50 }
      expect(keysIn(await of(middle))).toEqual(keys.slice(50, 61))
      expect(keysIn(await of({ ...middle, prefix: 'many' }))).toEqual(keys.slice(50, 61))
      expect(await of({ ...middle, prefix: 'manymore' })).toEqual([])
      expect(await of({ tag: 'x' })).toEqual([])
    },
  },
  {
    name: 'tags, errors, failures, priorities and large bodies stay with their tasks',
    async run(harness) {
      const keys = keysOf(MANY)
      const optionsOf = (n: number): EntryOptions => ({
        tags: n % 10 === 1 ? ['x'] : null,
        priority: n % 2 === 0 ? 'high' : 'normal',
        body: n % 10 === 2 ? 'b'.repeat(50_000) : `${n}`,
      })
      await putEach(harness, keys, optionsOf)
      const failing = keys.filter((_, n) => n % 10 === 3)
      await settleAll(harness, failing, await holdAll(harness, failing), RETRY)
      await harness.advance(1_000)
      await endAll(harness, keys)
      expect(keysIn(await listAll(harness, { state: 'done' }, 9))).toEqual(keys)
      expect(keysIn(await list(harness, { state: 'done', tag: 'x' }))).toEqual(
        keys.filter((_, n) => n % 10 === 1),
      )
      expect(await find(harness, keys[1] as string, 'live', { tag: 'x' })).toEqual([])
      for (const [n, key] of keys.entries()) {
        const { tags, priority, body } = optionsOf(n)
        const failed = n % 10 === 3
        expect(await look(harness, key)).toMatchObject({
          tags: tags ?? [],
          priority,
          body,
          failures: failed ? 1 : 0,
          deliveries: failed ? 2 : 1,
          lastError: failed ? 'again' : null,
        })
      }
    },
  },
  {
    name: 'a claim that is no longer held is stale, and the others are settled',
    async run(harness) {
      const keys = keysOf(MANY)
      await putAll(harness, keys)
      const stamp = await holdAll(harness, keys)
      await put(harness, keys[3] as string, { body: 'replaced', delayMs: LONG_LEASE_MS })
      await settle(harness, keys[4] as string, stamp, RETRY)
      const answers = await settleAll(harness, [...keys, keys[9] as string], stamp)
      const stale = answers.flatMap(({ answer }, n) => (answer === 'stale' ? [n] : []))
      expect(stale).toEqual([3, 4, MANY])
      expect(await look(harness, keys[3] as string)).toMatchObject({ state: 'pending', body: 'replaced' })
      expect(await look(harness, keys[4] as string)).toMatchObject({ state: 'pending', failures: 1 })
      expect(await listAll(harness, { state: 'done' }, 1_000)).toHaveLength(MANY - 2)
      await expectBooks(harness, { scheduled: MANY, pending: 2, done: MANY - 2 })
    },
  },
  {
    name: 'of a key that ended again and again, get returns the last',
    async run(harness) {
      const keys = keysOf(MANY)
      for (const body of ['first', 'second', 'third']) {
        await putAll(harness, keys, { body })
        await endAll(harness, keys, body === 'second' ? OBSOLETE : DONE)
        await harness.advance(10)
      }
      await putAll(harness, keys.slice(0, 1), { body: 'alone' })
      await endAll(harness, keys.slice(0, 1))
      expect(await look(harness, keys[0] as string)).toMatchObject({ state: 'done', body: 'alone' })
      for (const key of keys.slice(1))
        expect(await look(harness, key)).toMatchObject({ state: 'done', body: 'third' })
      expect(await listAll(harness, { state: 'done' }, 70)).toHaveLength(2 * MANY + 1)
      expect(await listAll(harness, { state: 'obsolete' }, 70)).toHaveLength(MANY)
    },
  },
  {
    name: 'they supersede the dead tasks of their keys, also when they are forgotten',
    async run(harness) {
      const keys = keysOf(MANY)
      const dead = keys.filter((_, n) => n % 4 === 0)
      await putAll(harness, dead, { body: 'dead' })
      await endAll(harness, dead, DEAD)
      await harness.advance(10)
      await putAll(harness, keys)
      await endAll(harness, keys)
      const superseded = async () =>
        (await list(harness, { state: 'dead' })).filter((view) => view.superseded === true)
      expect(keysIn(await superseded())).toEqual(dead)
      const [first = '', second = ''] = dead
      expect(await replay(harness, first, 'newest')).toMatchObject({ outcome: 'superseded' })
      await harness.advance(10)
      // Replayed nevertheless, it is the newest of its key: it is not superseded when it dies again.
      expect(await replay(harness, second, 'any')).toMatchObject({ outcome: 'replayed' })
      await endAll(harness, [second], DEAD)
      expect(await look(harness, second)).toMatchObject({ state: 'dead', superseded: false })
      await harness.advance(10)
      const endedBeforeMs = await now(harness)
      expect(await forget(harness, { endedBeforeMs })).toEqual({ ended: MANY, dead: 0 })
      expect(keysIn(await superseded())).toEqual(dead.filter((key) => key !== second))
      expect(await replay(harness, first, 'newest')).toMatchObject({ outcome: 'superseded' })
      await expectBalance(harness)
    },
  },
  {
    // A ledger may delete tasks that are stored together only together: then it goes beyond the limit.
    name: 'a call forgets as many of them as it is asked to, and the rest is still there',
    async run(harness) {
      const [early, late] = [keysOf(MANY), keysOf(MANY, 'late')]
      await putAll(harness, early)
      await endAll(harness, early)
      await harness.advance(10)
      const middleMs = await now(harness)
      await putAll(harness, late)
      await endAll(harness, late)
      await harness.advance(10)
      const { ended, dead } = await forget(harness, { endedBeforeMs: middleMs, limit: 30 })
      expect(dead).toBe(0)
      expect(ended).toBeGreaterThanOrEqual(30)
      const left = await listAll(harness, { state: 'done', prefix: 'many' }, 8)
      expect(left).toHaveLength(MANY - ended)
      for (const view of left) {
        expect(await look(harness, view.key)).toEqual(view)
        expect(view.body).toBe(`body of ${view.key}`)
      }
      await expectBalance(harness)
      let sum = ended
      for (let n = 0; n < 4; n++) sum += (await forget(harness, { endedBeforeMs: middleMs, limit: 30 })).ended
      expect(sum).toBe(MANY)
      expect(keysIn(await listAll(harness, { state: 'done' }, 8))).toEqual(late)
      expect(await look(harness, early[0] as string)).toBeNull()
      await expectBooks(harness, { scheduled: 2 * MANY, done: 2 * MANY })
    },
  },
  {
    name: 'a topic that does not keep ended tasks counts them, and its dead stay superseded',
    async run(harness) {
      const { ledger, topic } = harness
      ledger.configure(
        topic,
        () => WITHOUT_HISTORY,
        () => null,
      )
      const keys = keysOf(MANY)
      const dead = keys.slice(0, 2)
      await putAll(harness, dead)
      await endAll(harness, dead, DEAD)
      await harness.advance(10)
      await putAll(harness, keys)
      await endAll(harness, keys)
      await putAll(harness, keys.slice(2), { tags: ['x'], delayMs: LONG_LEASE_MS })
      expect(await cancelAll(harness, keys.slice(2))).toEqual(keys.slice(2).map(() => 'cancelled'))
      expect(await find(harness, keys[2] as string, 'live', { tag: 'x' })).toEqual([])
      await harness.advance(10)
      // A ledger may also keep them until it is told to forget.
      await forget(harness, { endedBeforeMs: await now(harness) })
      for (const state of ['done', 'cancelled'] as const) expect(await list(harness, { state })).toEqual([])
      expect(await look(harness, keys[9] as string)).toBeNull()
      for (const key of dead) {
        expect(await look(harness, key)).toMatchObject({ state: 'dead', superseded: true })
        expect(await replay(harness, key, 'newest')).toMatchObject({ outcome: 'superseded' })
      }
      await expectBooks(harness, { scheduled: 2 * MANY, dead: 2, done: MANY, cancelled: MANY - 2 })
    },
  },
]

export const together = theme('together', cases)
