import { expect } from 'vitest'
import { DEAD, DONE, entry, keysOf, only, place } from '../timetable/helpers.ts'
import {
  cancel,
  claim,
  endNew,
  expectBalance,
  expectBooks,
  find,
  forget,
  hintOf,
  hold,
  type LedgerCase,
  list,
  look,
  now,
  OBSOLETE,
  purge,
  put,
  replay,
  settle,
  theme,
} from './helpers.ts'

const FAILED = { kind: 'dead', cause: 'attempts', error: 'no more', failed: true } as const

const cases: readonly LedgerCase[] = [
  {
    name: 'a dead task lives again under its id, due now, without its failures',
    async run(harness) {
      const first = await endNew(harness, 'a', FAILED, { tags: ['x'], priority: 'low', body: 'same' })
      await harness.advance(1_000)
      const nowMs = await now(harness)
      const { outcome, hint } = await replay(harness, 'a')
      expect(outcome).toBe('replayed')
      expect(hint).toMatchObject({ ...place('a'), failures: 0, priority: 'low', isSuspect: false })
      expect(hint?.ringMs).toBeGreaterThanOrEqual(nowMs)
      expect(await hintOf(harness, 'a')).toEqual(hint)
      expect(await find(harness, 'a', 'live', { tag: 'x' })).toEqual(['a'])
      expect(await find(harness, 'a', 'dead', { all: true })).toEqual([])
      const { task } = await hold(harness, 'a')
      expect(task).toMatchObject({
        id: first.task.id,
        body: 'same',
        failures: 0,
        deliveries: 2,
        tags: ['x'],
        dueMs: hint?.ringMs,
      })
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
    },
  },
  {
    name: 'a task that was replayed can end, and die, again',
    async run(harness) {
      await endNew(harness, 'a', FAILED)
      await replay(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, FAILED)
      expect(await look(harness, 'a')).toMatchObject({ state: 'dead', failures: 1, deliveries: 2 })
      await expectBooks(harness, { scheduled: 1, dead: 1 })
      await replay(harness, 'a')
      const second = await hold(harness, 'a')
      await settle(harness, 'a', second.stamp, DONE)
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'the key has a live task by now: it stays, and so does the dead one',
    async run(harness) {
      await endNew(harness, 'a', DEAD, { body: 'dead' })
      await put(harness, 'a', { body: 'alive' })
      expect(await replay(harness, 'a')).toEqual({ outcome: 'live', hint: null })
      expect(await look(harness, 'a')).toMatchObject({ body: 'alive' })
      expect(await find(harness, 'a', 'dead', { all: true })).toEqual(['a'])
      await expectBooks(harness, { scheduled: 2, pending: 1, dead: 1 })
    },
  },
  {
    name: 'a newer task supersedes the dead one, however the newer one ended',
    async run(harness) {
      const keys = ['done', 'obsolete', 'cancelled', 'live', 'newest']
      for (const key of keys) await endNew(harness, key, DEAD, { body: 'dead' })
      await endNew(harness, 'done', DONE)
      await endNew(harness, 'obsolete', OBSOLETE)
      await put(harness, 'cancelled')
      await cancel(harness, 'cancelled')
      await put(harness, 'live')
      const seen = await list(harness, { state: 'dead' })
      const marks = new Map(seen.map(({ key, superseded }) => [key, superseded]))
      expect(keys.map((key) => marks.get(key))).toEqual([true, true, true, true, false])
      const { ledger, topic } = harness
      const answers = await ledger.replay(
        topic,
        keys.map((key) => place(key)),
        'newest',
      )
      expect(answers.map(({ outcome }) => outcome)).toEqual([
        'superseded',
        'superseded',
        'superseded',
        'live',
        'replayed',
      ])
      expect(answers.map(({ hint }) => hint !== null)).toEqual([false, false, false, false, true])
      expect(await replay(harness, 'cancelled')).toMatchObject({ outcome: 'replayed' })
      expect((await hold(harness, 'cancelled')).task.body).toBe('dead')
      await expectBalance(harness)
    },
  },
  {
    name: 'a task stays superseded when the newer one is forgotten',
    async run(harness) {
      await endNew(harness, 'a', DEAD)
      await endNew(harness, 'a', DONE)
      await endNew(harness, 'b', DEAD)
      await harness.advance(1_000)
      expect(await forget(harness, { endedBeforeMs: await now(harness) })).toEqual({ ended: 1, dead: 0 })
      expect(await look(harness, 'a')).toMatchObject({ state: 'dead', superseded: true })
      expect(await look(harness, 'b')).toMatchObject({ state: 'dead', superseded: false })
      expect(await replay(harness, 'a', 'newest')).toMatchObject({ outcome: 'superseded' })
      expect(await replay(harness, 'b', 'newest')).toMatchObject({ outcome: 'replayed' })
      await expectBalance(harness)
    },
  },
  {
    name: 'a superseded task that was replayed is the newest of its key, until another one comes',
    async run(harness) {
      await endNew(harness, 'a', DEAD, { body: 'first' })
      await endNew(harness, 'a', DONE)
      expect(await replay(harness, 'a', 'newest')).toMatchObject({ outcome: 'superseded' })
      expect(await replay(harness, 'a', 'any')).toMatchObject({ outcome: 'replayed' })
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, DEAD)
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ body: 'first', superseded: false }])
      // Nor is it superseded by what was forgotten.
      await harness.advance(1_000)
      await forget(harness, { endedBeforeMs: await now(harness) })
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ body: 'first', superseded: false }])
      await put(harness, 'a')
      await cancel(harness, 'a')
      expect(await replay(harness, 'a', 'newest')).toMatchObject({ outcome: 'superseded' })
    },
  },
  {
    name: 'only the dead can be replayed and purged',
    async run(harness) {
      await endNew(harness, 'done', DONE)
      await put(harness, 'alive')
      for (const key of ['never', 'done', 'alive']) {
        expect(await replay(harness, key)).toEqual({ outcome: 'not-found', hint: null })
        expect(await purge(harness, key)).toBe('not-found')
      }
      await expectBooks(harness, { scheduled: 2, pending: 1, done: 1 })
    },
  },
  {
    name: 'the dead are purged, once each, in the order asked for',
    async run(harness) {
      const { ledger, topic } = harness
      for (const key of ['a', 'b']) await endNew(harness, key, DEAD)
      const places = ['b', 'never', 'a', 'a'].map((key) => place(key))
      expect(await ledger.purge(topic, places)).toEqual(['purged', 'not-found', 'purged', 'not-found'])
      expect(await look(harness, 'a')).toBeNull()
      expect(await list(harness, { state: 'dead' })).toEqual([])
      await expectBooks(harness, { scheduled: 2, purged: 2 })
    },
  },
  {
    name: 'a purge leaves a live task of the key alone',
    async run(harness) {
      await endNew(harness, 'a', DEAD)
      await put(harness, 'a')
      expect(await purge(harness, 'a')).toBe('purged')
      expect((await claim(harness, 'a')).kind).toBe('ours')
    },
  },
  {
    name: 'a second death of a key purges the first',
    async run(harness) {
      await endNew(harness, 'a', DEAD, { body: 'first' })
      await endNew(harness, 'a', DEAD, { body: 'second' })
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ key: 'a', body: 'second' }])
      await expectBooks(harness, { scheduled: 2, dead: 1, purged: 1 })
      expect(await replay(harness, 'a')).toMatchObject({ outcome: 'replayed' })
      expect((await hold(harness, 'a')).task.body).toBe('second')
    },
  },
  {
    name: 'what ended long ago is forgotten, and counts as before; the dead stay',
    async run(harness) {
      await endNew(harness, 'done', DONE)
      await endNew(harness, 'obsolete', OBSOLETE)
      await put(harness, 'cancelled')
      await cancel(harness, 'cancelled')
      await endNew(harness, 'dead', DEAD)
      await harness.advance(1_000)
      const middleMs = await now(harness)
      await endNew(harness, 'young', DONE)
      await put(harness, 'alive')
      const before = await harness.ledger.books(harness.topic)
      expect(await forget(harness, { endedBeforeMs: middleMs })).toEqual({ ended: 3, dead: 0 })
      expect(await harness.ledger.books(harness.topic)).toEqual(before)
      await expectBalance(harness)
      for (const key of ['done', 'obsolete', 'cancelled']) expect(await look(harness, key)).toBeNull()
      expect(await look(harness, 'young')).toMatchObject({ state: 'done' })
      expect(await look(harness, 'alive')).toMatchObject({ state: 'pending' })
      expect(await look(harness, 'dead')).toMatchObject({ state: 'dead' })
    },
  },
  {
    name: 'one that ended at the very moment is kept',
    async run(harness) {
      await endNew(harness, 'a', DONE)
      const { ringMs = 0 } = (await look(harness, 'a')) ?? {}
      expect(await forget(harness, { endedBeforeMs: ringMs })).toEqual({ ended: 0, dead: 0 })
      expect(await forget(harness, { endedBeforeMs: ringMs + 1 })).toEqual({ ended: 1, dead: 0 })
    },
  },
  {
    name: 'the dead are forgotten by their age, and count as purged',
    async run(harness) {
      await endNew(harness, 'old', DEAD)
      await harness.advance(1_000)
      const middleMs = await now(harness)
      await endNew(harness, 'young', DEAD)
      expect(await forget(harness, { deadBeforeMs: middleMs })).toEqual({ ended: 0, dead: 1 })
      expect(keysOf(await list(harness, { state: 'dead' }))).toEqual(['young'])
      await expectBooks(harness, { scheduled: 2, dead: 1, purged: 1 })
    },
  },
  {
    name: 'the dead are forgotten by their number, the oldest first',
    async run(harness) {
      for (let n = 0; n < 5; n++) {
        await endNew(harness, `k${n}`, DEAD)
        await harness.advance(1)
      }
      expect(await forget(harness, { deadMax: 2 })).toEqual({ ended: 0, dead: 3 })
      expect(keysOf(await list(harness, { state: 'dead' }))).toEqual(['k3', 'k4'])
      await expectBooks(harness, { scheduled: 5, dead: 2, purged: 3 })
      expect(await forget(harness, { deadMax: 2 })).toEqual({ ended: 0, dead: 0 })
    },
  },
  {
    name: 'one call forgets no more than it may, and goes on at the next',
    async run(harness) {
      for (let n = 0; n < 5; n++) await endNew(harness, `k${n}`, n % 2 === 0 ? DONE : OBSOLETE)
      await harness.advance(1)
      const endedBeforeMs = await now(harness)
      const counts: number[] = []
      for (let n = 0; n < 4; n++) counts.push((await forget(harness, { endedBeforeMs, limit: 2 })).ended)
      expect(counts).toEqual([2, 2, 1, 0])
      await expectBooks(harness, { scheduled: 5, done: 3, obsolete: 2 })
    },
  },
  {
    name: 'one call forgets no more than it may, the dead included',
    async run(harness) {
      await endNew(harness, 'done', DONE)
      await endNew(harness, 'dead', DEAD)
      await harness.advance(1)
      const nowMs = await now(harness)
      const { ended, dead } = await forget(harness, { endedBeforeMs: nowMs, deadBeforeMs: nowMs, limit: 1 })
      expect(ended + dead).toBe(1)
    },
  },
  {
    name: 'what is purged in the same breath is not counted twice: no more are forgotten than too many',
    async run(harness) {
      const { ledger, topic } = harness
      for (let n = 0; n < 4; n++) {
        await endNew(harness, `k${n}`, DEAD)
        await harness.advance(1)
      }
      await Promise.all([
        ledger.purge(topic, [place('k2'), place('k3')]),
        ledger.forget(topic, { endedBeforeMs: 0, deadBeforeMs: 0, deadMax: 2, limit: 100 }),
      ])
      expect(keysOf(await list(harness, { state: 'dead' }))).toEqual(['k0', 'k1'])
    },
  },
  {
    name: 'a topic that is only asked after does not become one',
    needsEmptyLedger: true,
    async run({ ledger, topic }) {
      await ledger.cancel(topic, [place('a')])
      await ledger.claim(topic, { stamp: 1, leaseMs: 1, nowMs: 1, alone: false }, [place('a')])
      await ledger.forget(topic, { endedBeforeMs: 0, deadBeforeMs: 0, deadMax: 1, limit: 1 })
      expect(await ledger.topics()).toEqual([])
      only(await ledger.schedule(topic, [entry('a')], 0))
      expect(await ledger.topics()).toEqual([topic])
    },
  },
]

export const dead = theme('dead', cases)
