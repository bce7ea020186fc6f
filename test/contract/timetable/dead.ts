import { expect } from 'vitest'
import {
  cancel,
  claim,
  DEAD,
  DONE,
  during,
  expectBetween,
  expectBooks,
  expectCounts,
  FAR_MS,
  find,
  hold,
  keysOf,
  keysOfOneCell,
  kill,
  list,
  look,
  now,
  place,
  purge,
  replay,
  retryIn,
  schedule,
  settle,
  theme,
  view,
} from './helpers.ts'

const DAY_MS = 86_400_000

export const dead = theme('dead', [
  {
    name: 'replay: due now, without its failures, under its id and with its body',
    async run(harness) {
      await schedule(harness, 'a', {
        body: 'b',
        atMs: (await now(harness)) - 40,
        priority: 'low',
        tags: ['t'],
      })
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(0))
      const second = await hold(harness, 'a')
      await settle(harness, 'a', second.stamp, DEAD)
      const { answer, fromMs, toMs } = await during(harness, () => replay(harness, 'a'))
      expect(answer).toBe('replayed')
      const live = await view(harness, 'a')
      expect(live).toMatchObject({
        id: first.task.id,
        state: 'pending',
        failures: 0,
        deliveries: 2,
        lastError: null,
        deadCause: null,
      })
      expectBetween(live.dueMs, fromMs, toMs)
      expect(await find(harness, 'a', 'live', { tag: 't' })).toEqual(['a'])
      await expectBooks(harness, { scheduled: 1, pending: 1 })
      const { task, stamp } = await hold(harness, 'a')
      expect(task).toEqual({
        id: first.task.id,
        key: 'a',
        body: 'b',
        dueMs: live.dueMs,
        ringMs: live.dueMs,
        failures: 0,
        deliveries: 3,
        tags: ['t'],
        priority: 'low',
      })
      expect(await settle(harness, 'a', second.stamp, DONE)).toBe('stale')
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
      await expectBooks(harness, { scheduled: 1, done: 1 })
      expect(await replay(harness, 'a')).toBe('not-found')
    },
  },
  {
    name: 'a new task of a dead key shares nothing with the dead one',
    async run(harness) {
      await schedule(harness, 'a', { body: 'dead', tags: ['dead'] })
      const failed = await hold(harness, 'a')
      await settle(harness, 'a', failed.stamp, retryIn(0))
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, DEAD)
      expect(await schedule(harness, 'a', { body: 'live', delayMs: FAR_MS, tags: ['live'] })).toMatchObject({
        outcome: 'created',
        inFlight: false,
      })
      expect(await view(harness, 'a')).toMatchObject({
        id: null,
        state: 'pending',
        body: 'live',
        failures: 0,
        deliveries: 0,
      })
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ body: 'dead', state: 'dead' }])
      expect(await find(harness, 'a', 'live', { tag: 'live' })).toEqual(['a'])
      expect(await find(harness, 'a', 'live', { tag: 'dead' })).toEqual([])
      expect(await find(harness, 'a', 'dead', { tag: 'dead' })).toEqual(['a'])
      await expectBooks(harness, { scheduled: 2, pending: 1, dead: 1 })
      expect(await cancel(harness, 'a')).toBe('cancelled')
      expect(await view(harness, 'a')).toMatchObject({ state: 'dead', body: 'dead' })
      await expectBooks(harness, { scheduled: 2, cancelled: 1, dead: 1 })
    },
  },
  {
    name: 'replay while its key has a live task leaves both as they are',
    async run(harness) {
      await kill(harness, 'a', { body: 'dead' })
      await schedule(harness, 'a', { body: 'live' })
      expect(await replay(harness, 'a')).toBe('live')
      const { task, stamp } = await hold(harness, 'a')
      expect(task).toMatchObject({ body: 'live', deliveries: 1 })
      expect(await replay(harness, 'a')).toBe('live')
      await expectBooks(harness, { scheduled: 2, claimed: 1, dead: 1 })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
      expect(await view(harness, 'a')).toMatchObject({ state: 'dead', body: 'dead' })
    },
  },
  {
    name: 'replay delivers the body of the dead task, whatever its key was used for since',
    async run(harness) {
      const died = await kill(harness, 'a', { body: 'dead' })
      await schedule(harness, 'a', { body: 'since' })
      const since = await hold(harness, 'a')
      await settle(harness, 'a', since.stamp, DONE)
      expect(await replay(harness, 'a')).toBe('replayed')
      const { task } = await hold(harness, 'a')
      expect(task).toMatchObject({ id: died.task.id, body: 'dead' })
      expect(task.id).not.toBe(since.task.id)
      await expectBooks(harness, { scheduled: 2, done: 1, claimed: 1 })
    },
  },
  {
    name: 'a newer task supersedes the dead one, however the newer one ended',
    async run(harness) {
      const ends = { done: DONE, obsolete: { kind: 'obsolete' } } as const
      for (const [key, outcome] of Object.entries(ends)) {
        await kill(harness, key, { body: 'dead' })
        await schedule(harness, key)
        const { stamp } = await hold(harness, key)
        await settle(harness, key, stamp, outcome)
      }
      await kill(harness, 'cancelled', { body: 'dead' })
      await schedule(harness, 'cancelled', { delayMs: FAR_MS })
      await cancel(harness, 'cancelled')
      await kill(harness, 'live', { body: 'dead' })
      await schedule(harness, 'live', { delayMs: FAR_MS })
      await kill(harness, 'newest', { body: 'dead' })
      const keys = ['done', 'obsolete', 'cancelled', 'live', 'newest']
      const seen = await list(harness, { state: 'dead' })
      const marks = new Map(seen.map(({ key, superseded }) => [key, superseded]))
      expect(keys.map((key) => marks.get(key))).toEqual([true, true, true, true, false])
      const { timetable, topic } = harness
      const places = keys.map((key) => place(key))
      const answers = await timetable.replay(topic, places, 'newest')
      expect(answers).toEqual(['superseded', 'superseded', 'superseded', 'live', 'replayed'])
      await expectBooks(harness, {
        scheduled: 9,
        pending: 2,
        dead: 4,
        done: 1,
        obsolete: 1,
        cancelled: 1,
      })
      // By its key it comes back, with the body that it had.
      expect(await replay(harness, 'cancelled')).toBe('replayed')
      expect((await hold(harness, 'cancelled')).task.body).toBe('dead')
    },
  },
  {
    name: 'a task that was kept supersedes nothing, and a replayed one is the newest of its key',
    async run(harness) {
      await kill(harness, 'a', { body: 'dead' })
      await schedule(harness, 'a', { delayMs: FAR_MS })
      await cancel(harness, 'a')
      expect(await replay(harness, 'a', 'newest')).toBe('superseded')
      expect(await replay(harness, 'a', 'any')).toBe('replayed')
      expect(await schedule(harness, 'a', { onConflict: 'keep' })).toMatchObject({ outcome: 'kept' })
      const { stamp } = await hold(harness, 'a')
      await settle(harness, 'a', stamp, DEAD)
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ body: 'dead', superseded: false }])
      expect(await replay(harness, 'a', 'newest')).toBe('replayed')
    },
  },
  {
    name: 'a second death of a key takes the place of the first, which counts as purged',
    async run(harness) {
      await kill(harness, 'a', { body: 'first' })
      await kill(harness, 'a', { body: 'second' })
      expect(await list(harness, { state: 'dead' })).toMatchObject([{ body: 'second' }])
      await expectCounts(harness, { dead: 1 })
      await expectBooks(harness, { scheduled: 2, dead: 1, purged: 1 })
      expect(await replay(harness, 'a')).toBe('replayed')
      expect((await hold(harness, 'a')).task.body).toBe('second')
    },
  },
  {
    name: 'a replayed task can die again',
    async run(harness) {
      await kill(harness, 'a', { body: 'b' })
      await replay(harness, 'a')
      const { stamp, task } = await hold(harness, 'a')
      expect(await settle(harness, 'a', stamp, DEAD)).toBe('settled')
      expect(await view(harness, 'a')).toMatchObject({ state: 'dead', id: task.id, body: 'b', deliveries: 2 })
      await expectBooks(harness, { scheduled: 1, dead: 1 })
    },
  },
  {
    name: 'purge forgets the dead one',
    async run(harness) {
      await kill(harness, 'a', { tags: ['t'] })
      expect(await purge(harness, 'a')).toBe('purged')
      expect(await look(harness, 'a')).toBeNull()
      expect(await replay(harness, 'a')).toBe('not-found')
      expect(await purge(harness, 'a')).toBe('not-found')
      expect(await find(harness, 'a', 'dead', { tag: 't' })).toEqual([])
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await expectBooks(harness, { scheduled: 1, purged: 1 })
    },
  },
  {
    name: 'purge does not touch the living',
    async run(harness) {
      await schedule(harness, 'a')
      expect(await purge(harness, 'a')).toBe('not-found')
      await kill(harness, 'b')
      await schedule(harness, 'b', { body: 'live' })
      expect(await purge(harness, 'b')).toBe('purged')
      expect((await hold(harness, 'b')).task.body).toBe('live')
      expect(await view(harness, 'a')).toMatchObject({ state: 'pending' })
    },
  },
  {
    name: 'the oldest are forgotten after 30 days, when the next one comes',
    leaps: true,
    async run(harness) {
      const [old = '', young = '', next = ''] = keysOfOneCell(3)
      await kill(harness, old)
      await harness.advance(29 * DAY_MS)
      await kill(harness, young)
      await harness.advance(2 * DAY_MS)
      await expectBooks(harness, { scheduled: 2, dead: 2 })
      await kill(harness, next)
      expect(keysOf(await list(harness, { state: 'dead' }))).toEqual([young, next])
      expect(await replay(harness, old)).toBe('not-found')
      await expectBooks(harness, { scheduled: 3, dead: 2, purged: 1 })
    },
  },
  {
    name: 'replay and purge answer for each place, in order',
    async run(harness) {
      for (const key of ['a', 'b', 'c', 'd']) await kill(harness, key)
      await schedule(harness, 'b', { delayMs: FAR_MS })
      const places = (...keys: string[]) => keys.map((key) => place(key))
      expect(await harness.timetable.purge(harness.topic, places('d', 'x'))).toEqual(['purged', 'not-found'])
      expect(await harness.timetable.replay(harness.topic, places('a', 'b', 'd', 'c'))).toEqual([
        'replayed',
        'live',
        'not-found',
        'replayed',
      ])
      expect(keysOf(await list(harness, { state: 'dead' }))).toEqual(['b'])
      await expectBooks(harness, { scheduled: 5, pending: 3, dead: 1, purged: 1 })
    },
  },
])
