import { expect } from 'vitest'
import { positionOf } from '../../../src/values/list-position.ts'
import type { State } from '../../../src/task.ts'
import type { EntryView } from '../../../src/timetable.ts'
import { DEAD, DONE, FAR_MS, keysOf, keysOfOneCell, place, retryIn } from '../timetable/helpers.ts'
import {
  cancel,
  endNew,
  find,
  hold,
  holdNew,
  type LedgerCase,
  type LedgerHarness,
  list,
  look,
  now,
  OBSOLETE,
  put,
  putAll,
  settle,
  theme,
} from './helpers.ts'

/** One task or two in every state. */
async function inEveryState(harness: LedgerHarness): Promise<Record<State, string[]>> {
  await put(harness, 'p1', { delayMs: FAR_MS, tags: ['x'] })
  await put(harness, 'p2', { delayMs: 2 * FAR_MS, tags: ['x', 'y'] })
  await put(harness, 'c1', { tags: ['x'] })
  await hold(harness, 'c1')
  await endNew(harness, 'd1', DONE, { tags: ['x'] })
  await endNew(harness, 'd2', DONE, { tags: ['y'] })
  await endNew(harness, 'o1', OBSOLETE, { tags: ['x'] })
  await endNew(harness, 'x1', DEAD, { tags: ['x'] })
  await put(harness, 'n1', { tags: ['x'] })
  await cancel(harness, 'n1')
  return {
    pending: ['p1', 'p2'],
    claimed: ['c1'],
    done: ['d1', 'd2'],
    obsolete: ['o1'],
    dead: ['x1'],
    cancelled: ['n1'],
  }
}

async function pages(
  harness: LedgerHarness,
  limit: number,
  query: Parameters<typeof list>[1],
): Promise<EntryView[]> {
  const all: EntryView[] = []
  for (;;) {
    const last = all.at(-1)
    const page = await list(harness, { ...query, limit, after: last === undefined ? null : positionOf(last) })
    all.push(...page)
    if (page.length < limit) return all
    expect(all.length).toBeLessThan(10_000)
  }
}

const cases: readonly LedgerCase[] = [
  {
    name: 'find by tag sees each of four tags',
    async run(harness) {
      await put(harness, 'a', { delayMs: FAR_MS, tags: ['t1', 't2', 't3', 't4'] })
      for (const tag of ['t1', 't2', 't3', 't4'])
        expect(await find(harness, 'a', 'live', { tag }), tag).toEqual(['a'])
    },
  },
  {
    name: 'a live task is seen as it is, held or waiting',
    async run(harness) {
      const fromMs = await now(harness)
      const { dueMs } = await put(harness, 'a', { tags: ['x'], priority: 'high' })
      const view = await look(harness, 'a')
      expect(view).toEqual({
        key: 'a',
        id: view?.id,
        body: 'body of a',
        state: 'pending',
        dueMs,
        ringMs: dueMs,
        failures: 0,
        deliveries: 0,
        tags: ['x'],
        priority: 'high',
        createdMs: view?.createdMs,
        updatedMs: view?.createdMs,
        lastError: null,
        deadCause: null,
      })
      expect(view?.createdMs).toBeGreaterThanOrEqual(fromMs)
      const { task } = await hold(harness, 'a')
      expect(await look(harness, 'a')).toEqual({ ...view, state: 'claimed', deliveries: 1 })
      expect(task.id).toBe(view?.id)
    },
  },
  {
    name: 'nothing is there where nothing was',
    async run(harness) {
      expect(await look(harness, 'never')).toBeNull()
      expect(await harness.ledger.get('unknown', place('a'))).toBeNull()
      expect(await list(harness)).toEqual([])
    },
  },
  {
    name: 'of tasks of a key that ended, the last one is seen; a live one before all',
    async run(harness) {
      for (const outcome of [DONE, OBSOLETE, DEAD] as const) {
        await endNew(harness, 'a', outcome, { body: `ended ${outcome.kind}` })
        expect(await look(harness, 'a')).toMatchObject({ state: outcome.kind, body: `ended ${outcome.kind}` })
        await harness.advance(1)
      }
      await put(harness, 'a', { body: 'alive' })
      expect(await look(harness, 'a')).toMatchObject({ state: 'pending', body: 'alive' })
      await cancel(harness, 'a')
      expect(await look(harness, 'a')).toMatchObject({ state: 'cancelled', body: 'alive' })
    },
  },
  {
    name: 'the last one that ended is the one that ended last, also if it was written first',
    async run(harness) {
      const { ledger, topic } = harness
      await endNew(harness, 'a', DEAD, { body: 'first' })
      await harness.advance(10)
      await endNew(harness, 'a', DONE, { body: 'second' })
      await harness.advance(10)
      await ledger.replay(topic, [place('a')])
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, OBSOLETE)
      expect(await look(harness, 'a')).toMatchObject({ state: 'obsolete', body: 'first' })
    },
  },
  {
    name: 'every state is listed apart, and those that live together',
    async run(harness) {
      const keys = await inEveryState(harness)
      for (const [state, expected] of Object.entries(keys)) {
        const views = await list(harness, { state: state as State })
        expect(keysOf(views), state).toEqual(expected)
        expect(new Set(views.map((view) => view.state))).toEqual(new Set([state]))
      }
      expect(keysOf(await list(harness))).toEqual(['c1', 'p1', 'p2'])
    },
  },
  {
    name: 'a listing and a look at one are the same',
    async run(harness) {
      const keys = await inEveryState(harness)
      for (const [state, expected] of Object.entries(keys))
        for (const view of await list(harness, { state: state as State }))
          expect(view).toEqual(await look(harness, expected.find((key) => key === view.key) ?? ''))
    },
  },
  {
    name: 'by tag, whole tags only, in every state',
    async run(harness) {
      const keys = await inEveryState(harness)
      for (const [state, all] of Object.entries(keys)) {
        const tagged = all.filter((key) => key !== 'd2')
        expect(keysOf(await list(harness, { state: state as State, tag: 'x' })), state).toEqual(tagged)
        expect(await list(harness, { state: state as State, tag: 'x1' })).toEqual([])
        expect(await list(harness, { state: state as State, tag: '' })).toEqual([])
      }
      expect(keysOf(await list(harness, { tag: 'y' }))).toEqual(['p2'])
    },
  },
  {
    name: 'by prefix: the part before the colon, whole; not what only begins alike',
    async run(harness) {
      const keys = ['ann', 'ann:1', 'ann:2:3', 'anna:1', 'ann;', 'an', 'Ann:1', 'bob:ann:1']
      const ofAnn = ['ann', 'ann:1', 'ann:2:3']
      await putAll(harness, keys, { delayMs: FAR_MS })
      expect(keysOf(await list(harness, { prefix: 'ann' })).toSorted()).toEqual(ofAnn)
      for (const key of keys) await cancel(harness, key)
      expect(keysOf(await list(harness, { state: 'cancelled', prefix: 'ann' })).toSorted()).toEqual(ofAnn)
      expect(await list(harness, { prefix: 'ann%' })).toEqual([])
    },
  },
  {
    name: 'by due time, both ends included: when it was to fire first, not when it rings',
    async run(harness) {
      const nowMs = await now(harness)
      for (const ms of [1_000, 2_000, 3_000]) await put(harness, `k${ms}`, { atMs: nowMs + ms })
      const within = async (fromMs: number, toMs: number, state: State | null = null) =>
        keysOf(await list(harness, { state, dueFromMs: nowMs + fromMs, dueToMs: nowMs + toMs }))
      expect(await within(1_000, 2_000)).toEqual(['k1000', 'k2000'])
      expect(await within(1_001, 2_999)).toEqual(['k2000'])
      const { stamp } = await hold(harness, 'k1000', { nowMs: nowMs + 1_000 })
      await settle(harness, 'k1000', stamp, retryIn(FAR_MS))
      expect(await within(0, 1_500)).toEqual(['k1000'])
      await cancel(harness, 'k2000')
      expect(await within(2_000, 2_000, 'cancelled')).toEqual(['k2000'])
    },
  },
  {
    name: 'filters go together',
    async run(harness) {
      const atMs = (await now(harness)) + FAR_MS
      await put(harness, 'a:1', { atMs, tags: ['x'] })
      await put(harness, 'a:2', { atMs: atMs + 1, tags: ['x'] })
      await put(harness, 'a:3', { atMs, tags: ['y'] })
      await put(harness, 'b:1', { atMs, tags: ['x'] })
      expect(keysOf(await list(harness, { tag: 'x', prefix: 'a', dueToMs: atMs }))).toEqual(['a:1'])
    },
  },
  {
    name: 'live ones are listed by ring, failures and key; ended ones by their end and key',
    async run(harness) {
      const atMs = await now(harness)
      for (const key of ['z', 'é', '😀', '\uffee', 'a']) await put(harness, key, { atMs })
      const { stamp } = await hold(harness, 'a')
      const settled = await settle(harness, 'a', stamp, retryIn(0))
      // The same ring as the others, on a clock that stands still.
      const last = settled.hint?.ringMs === atMs
      const live = keysOf(await list(harness))
      expect(last ? live : live.slice(0, 4)).toEqual(
        last ? ['z', 'é', '\uffee', '😀', 'a'] : ['z', 'é', '\uffee', '😀'],
      )
      for (const key of ['b', 'a', '😀']) {
        await cancel(harness, key)
        await harness.advance(1)
      }
      expect(keysOf(await list(harness, { state: 'cancelled' }))).toEqual(['a', '😀'])
    },
  },
  {
    name: 'page by page it is the same listing, each task once, in every state',
    async run(harness) {
      const atMs = await now(harness)
      for (let n = 0; n < 12; n++) await put(harness, `live${n}`, { atMs: atMs + (n % 3), tags: ['x'] })
      for (const kind of ['done', 'obsolete'] as const)
        for (let n = 0; n < 7; n++) {
          await endNew(harness, `${kind}${n}`, { kind }, { tags: ['x'] })
          if (n % 3 === 0) await harness.advance(1)
        }
      for (let n = 0; n < 7; n++) await endNew(harness, `dead${n}`, { ...DEAD, failed: n % 2 === 0 })
      for (const state of [null, 'done', 'obsolete', 'dead'] as const) {
        const whole = await list(harness, { state })
        expect(whole.length).toBeGreaterThan(6)
        for (const limit of [1, 2, 3, 7, 100])
          expect(keysOf(await pages(harness, limit, { state })), `${state} by ${limit}`).toEqual(
            keysOf(whole),
          )
      }
    },
  },
  {
    name: 'two tasks of one key that ended at one moment are both listed, also page by page',
    async run(harness) {
      await endNew(harness, 'a', DONE)
      await endNew(harness, 'a', DONE)
      expect(await list(harness, { state: 'done' })).toHaveLength(2)
      expect(await pages(harness, 1, { state: 'done' })).toHaveLength(2)
    },
  },
  {
    name: 'find brings the keys of one cell: live or dead, by tag, by prefix, or all',
    async run(harness) {
      const [a = '', b = '', c = '', d = ''] = keysOfOneCell(4)
      const elsewhere = Array.from({ length: 50 }, (_, n) => `e${n}`).find(
        (key) => place(key).cell !== place(a).cell,
      )
      await put(harness, a, { tags: ['x'] })
      await put(harness, b, { tags: ['x', 'y'], delayMs: FAR_MS })
      await holdNew(harness, c)
      await endNew(harness, d, DEAD, { tags: ['x'] })
      await put(harness, elsewhere ?? '', { tags: ['x'] })
      expect(await find(harness, a, 'live', { all: true })).toEqual([a, b, c])
      expect(await find(harness, a, 'live', { tag: 'x' })).toEqual([a, b])
      expect(await find(harness, a, 'live', { tag: 'y' })).toEqual([b])
      expect(await find(harness, a, 'live', { prefix: a })).toEqual([a])
      expect(await find(harness, a, 'dead', { all: true })).toEqual([d])
      expect(await find(harness, a, 'dead', { tag: 'x' })).toEqual([d])
      expect(await find(harness, a, 'dead', { tag: 'y' })).toEqual([])
      expect(await find(harness, a, 'dead', { prefix: d })).toEqual([d])
      expect(await find(harness, a, 'dead', { prefix: a })).toEqual([])
    },
  },
  {
    name: 'a tag is gone with its task: replaced, cancelled, done',
    async run(harness) {
      for (const key of ['replaced', 'cancelled', 'done']) await put(harness, key, { tags: ['x'] })
      await put(harness, 'replaced', { tags: ['y'] })
      await cancel(harness, 'cancelled')
      const { stamp } = await hold(harness, 'done')
      await settle(harness, 'done', stamp, DONE)
      for (const key of ['replaced', 'cancelled', 'done'])
        expect(await find(harness, key, 'live', { tag: 'x' }), key).toEqual([])
      expect(await find(harness, 'replaced', 'live', { tag: 'y' })).toEqual(['replaced'])
    },
  },
  {
    name: 'find goes on page by page where a cell has thousands',
    slow: true,
    async run(harness) {
      const { ledger, topic } = harness
      const keys = keysOfOneCell(2_500)
      const [first = ''] = keys
      await putAll(harness, keys, { tags: ['x'] })
      expect(await find(harness, first, 'live', { all: true })).toEqual(keys)
      expect(await find(harness, first, 'live', { tag: 'x' })).toEqual(keys)
      const stamp = 1
      const nowMs = await now(harness)
      await ledger.claim(
        topic,
        { stamp, leaseMs: FAR_MS, nowMs, alone: false },
        keys.map((key) => place(key)),
      )
      await ledger.settle(
        topic,
        keys.map((key) => ({ ...place(key), stamp, outcome: DEAD })),
      )
      expect(await find(harness, first, 'live', { all: true })).toEqual([])
      expect(await find(harness, first, 'dead', { all: true })).toEqual(keys)
      expect(await find(harness, first, 'dead', { tag: 'x' })).toEqual(keys)
    },
  },
  {
    name: 'find of a prefix goes on page by page, too',
    slow: true,
    async run(harness) {
      const { ledger, topic } = harness
      const { cell } = place('p', 'prefix')
      const keys = Array.from({ length: 1_500 }, (_, n) => `p:${String(n).padStart(5, '0')}`)
      await ledger.schedule(
        topic,
        ['p', 'pp:1', ...keys].map((key) => ({
          key,
          cell,
          body: '0',
          when: { kind: 'delay', ms: FAR_MS } as const,
          priority: 'normal' as const,
          tags: null,
          onConflict: 'replace' as const,
        })),
        0,
      )
      const found: string[] = []
      for (let cursor: string | null = null, isFirst = true; isFirst || cursor !== null; isFirst = false) {
        const page: { keys: string[]; cursor: string | null } = await ledger.find(
          { topic, cell },
          'live',
          { prefix: 'p' },
          cursor,
        )
        found.push(...page.keys)
        cursor = page.cursor
      }
      expect(found.toSorted()).toEqual(['p', ...keys])
    },
  },
  {
    name: 'what is there all the time is found, whatever comes and goes between two pages',
    slow: true,
    async run(harness) {
      const { ledger, topic } = harness
      const keys = keysOfOneCell(2_200)
      const [first = ''] = keys
      await putAll(harness, keys, { delayMs: FAR_MS })
      const at = { topic, cell: place(first).cell }
      const page = await ledger.find(at, 'live', { all: true }, null)
      expect(page.cursor).not.toBeNull()
      const seen = new Set(page.keys)
      const unseen = keys.filter((key) => !seen.has(key))
      await ledger.cancel(
        topic,
        [...page.keys.slice(0, 500), ...unseen.slice(0, 100)].map((key) => place(key)),
      )
      await putAll(harness, page.keys.slice(500, 600))
      for (let cursor = page.cursor; cursor !== null;) {
        const next = await ledger.find(at, 'live', { all: true }, cursor)
        for (const key of next.keys) seen.add(key)
        cursor = next.cursor
      }
      expect(unseen.slice(100).filter((key) => !seen.has(key))).toEqual([])
    },
  },
]

export const looking = theme('looking', cases)
