import { expect } from 'vitest'
import { BATCH_BYTES_MAX } from '../../../src/lib/batch-max.ts'
import {
  advanceTo,
  claim,
  DONE,
  entry,
  type EntryOptions,
  expectBetween,
  expectBooks,
  expectCounts,
  FAR_MS,
  hold,
  holdWhenDue,
  keysOf,
  keysOfOneCell,
  newRequest,
  now,
  only,
  place,
  prefixesOfOneCell,
  retryIn,
  schedule,
  scheduleAll,
  settle,
  type TimetableHarness,
  theme,
  view,
} from './helpers.ts'

/** A body near the maximum size of a payload, and how many of them fill a claim. */
const LARGE_BODY = 'x'.repeat(60_000)
const LARGE_PER_CLAIM = Math.ceil(BATCH_BYTES_MAX / LARGE_BODY.length)

/** Groups of tasks, one prefix each, that share a cell and a moment of the past. */
async function scheduleGroups(
  harness: TimetableHarness,
  sizes: readonly number[],
  options: EntryOptions = {},
): Promise<string[][]> {
  const prefixes = prefixesOfOneCell(sizes.length)
  const groups = sizes.map((size, n) => Array.from({ length: size }, (_, m) => `${prefixes[n]}:${m}`))
  const atMs = (await now(harness)) - 100
  await scheduleAll(harness, groups.flat(), { atMs, slotBy: 'prefix', ...options })
  return groups
}

async function claimWhole(
  harness: TimetableHarness,
  groups: readonly string[][],
  limit: number,
  wholePrefixes = true,
): Promise<string[]> {
  const [first = ''] = groups.flat()
  return keysOf((await claim(harness, first, { slotBy: 'prefix', limit, wholePrefixes })).tasks)
}

export const claiming = theme('claiming', [
  {
    name: 'a task is claimed at its time and not a millisecond before',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a', { delayMs: 60 })
      for (const atMs of [dueMs - 59, dueMs - 1, dueMs]) {
        await advanceTo(harness, atMs)
        const { tasks, nowMs } = await claim(harness, 'a')
        expect(tasks).toHaveLength(nowMs >= dueMs ? 1 : 0)
        if (tasks.length > 0) return
      }
    },
  },
  {
    name: 'of tasks due one after another, none is ever early and none is left behind',
    async run(harness) {
      const keys = keysOfOneCell(40)
      const firstMs = (await now(harness)) + 10
      const dueOf = new Map(keys.map((key, n) => [key, firstMs + n]))
      await harness.timetable.schedule(
        harness.topic,
        keys.map((key, n) => entry(key, { atMs: firstMs + n })),
        0,
      )
      const claimed: string[] = []
      while (claimed.length < keys.length) {
        const { tasks, nowMs } = await claim(harness, keys[0] ?? '')
        claimed.push(...keysOf(tasks))
        for (const task of tasks) expect(task.dueMs).toBe(dueOf.get(task.key))
        expect(claimed).toEqual(keys.filter((key) => (dueOf.get(key) ?? 0) <= nowMs))
        await harness.advance(1)
      }
    },
  },
  {
    name: 'a claimed task comes with all that was given',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a', { body: '{"ü":[]}', priority: 'high', tags: ['t', 'u'] })
      const { task } = await hold(harness, 'a')
      expect(task).toEqual({
        id: task.id,
        key: 'a',
        body: '{"ü":[]}',
        dueMs,
        ringMs: dueMs,
        failures: 0,
        deliveries: 1,
        tags: ['t', 'u'],
        priority: 'high',
      })
      expect(task.id).not.toBe('')
      expect(await view(harness, 'a')).toMatchObject({ id: task.id, state: 'claimed', deliveries: 1, dueMs })
      await expectCounts(harness, { claimed: 1 })
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
    },
  },
  {
    name: 'what is claimed is not claimed again',
    async run(harness) {
      await schedule(harness, 'a')
      await hold(harness, 'a')
      expect((await claim(harness, 'a')).tasks).toEqual([])
    },
  },
  {
    name: 'lanes are taken in the order high, normal, low, however long the others are due',
    async run(harness) {
      const keys = keysOfOneCell(6)
      const nowMs = await now(harness)
      const priorities = ['low', 'high', 'normal', 'low', 'high', 'normal'] as const
      await harness.timetable.schedule(
        harness.topic,
        keys.map((key, n) => entry(key, { atMs: nowMs - 100 + n, priority: priorities[n] ?? 'normal' })),
        0,
      )
      const { tasks } = await claim(harness, keys[0] ?? '')
      expect(tasks.map(({ priority }) => priority)).toEqual([
        'high',
        'high',
        'normal',
        'normal',
        'low',
        'low',
      ])
      expect(keysOf(tasks)).toEqual([1, 4, 2, 5, 0, 3].map((n) => keys[n]))
    },
  },
  {
    name: 'a limit leaves the lower lanes for later',
    async run(harness) {
      const keys = keysOfOneCell(4)
      const priorities = ['low', 'normal', 'high', 'normal'] as const
      for (const [n, key] of keys.entries())
        await schedule(harness, key, { priority: priorities[n] ?? 'low' })
      const [first = ''] = keys
      expect(keysOf((await claim(harness, first, { limit: 2 })).tasks)).toEqual([keys[2], keys[1]])
      expect(keysOf((await claim(harness, first, { limit: 2 })).tasks)).toEqual([keys[3], keys[0]])
    },
  },
  {
    name: 'inside a lane, tasks go by time and then by key',
    async run(harness) {
      const keys = keysOfOneCell(8)
      const nowMs = await now(harness)
      const rings = [3, 1, 2, 1, 3, 0, 1, 2]
      const shuffled = [5, 2, 7, 0, 3, 6, 1, 4]
      await harness.timetable.schedule(
        harness.topic,
        shuffled.map((n) => entry(keys[n] ?? '', { atMs: nowMs - 1_000 + (rings[n] ?? 0) })),
        0,
      )
      const { tasks } = await claim(harness, keys[0] ?? '')
      expect(keysOf(tasks)).toEqual([5, 1, 3, 6, 2, 7, 0, 4].map((n) => keys[n]))
    },
  },
  {
    name: 'of two that ring at one moment, the one that failed less often goes first',
    async run(harness) {
      const [failed = '', fresh = ''] = keysOfOneCell(2)
      await schedule(harness, failed)
      const { stamp } = await hold(harness, failed)
      await settle(harness, failed, stamp, retryIn(30))
      const { ringMs } = await view(harness, failed)
      await schedule(harness, fresh, { atMs: ringMs })
      await advanceTo(harness, ringMs)
      expect(keysOf((await claim(harness, failed)).tasks)).toEqual([fresh, failed])
    },
  },
  {
    name: 'a claim takes no more than its limit, and the next one goes on from there',
    async run(harness) {
      const keys = keysOfOneCell(7)
      await scheduleAll(harness, keys, { atMs: await now(harness) })
      const taken: string[][] = []
      for (let n = 0; n < 4; n++)
        taken.push(keysOf((await claim(harness, keys[0] ?? '', { limit: 3 })).tasks))
      expect(taken).toEqual([keys.slice(0, 3), keys.slice(3, 6), keys.slice(6), []])
      await expectCounts(harness, { claimed: 7 })
    },
  },
  {
    name: 'a limit beyond all bounds loses nothing, in however many calls',
    async run(harness) {
      const keys = keysOfOneCell(5_000)
      await scheduleAll(harness, keys)
      const claimed: string[] = []
      for (let calls = 0; calls < keys.length && claimed.length < keys.length; calls++)
        claimed.push(...keysOf((await claim(harness, keys[0] ?? '', { limit: 1_000_000 })).tasks))
      expect(claimed.toSorted()).toEqual(keys)
      await expectBooks(harness, { scheduled: 5_000, claimed: 5_000 })
    },
  },
  {
    name: 'a limit of 0 takes nothing',
    async run(harness) {
      await schedule(harness, 'a')
      expect((await claim(harness, 'a', { limit: 0 })).tasks).toEqual([])
      expect((await claim(harness, 'a', { limit: 0, from: 'suspects' })).tasks).toEqual([])
      await expectCounts(harness, { pending: 1, due: 1 })
    },
  },
  {
    name: 'a claim takes from its own cell only',
    async run(harness) {
      const keys = Array.from({ length: 200 }, (_, n) => `k${n}`)
      await scheduleAll(harness, keys)
      const taken = keysOf((await claim(harness, 'k0', { limit: 1_000 })).tasks)
      expect(taken.toSorted()).toEqual(keys.filter((key) => place(key).cell === place('k0').cell).toSorted())
    },
  },
  {
    name: 'stamps of a cell grow strictly, also while its clock stands still',
    async run(harness) {
      const keys = keysOfOneCell(30)
      await scheduleAll(harness, keys)
      let last = 0
      for (let n = 0; n < 30; n++) {
        const { stamp, tasks } = await claim(harness, keys[0] ?? '', { limit: 1 })
        expect(stamp).toBeGreaterThan(last)
        last = stamp
        // A settled claim is forgotten; its stamp is not given again.
        if (n % 2 === 0) await settle(harness, only(tasks).key, stamp, DONE)
      }
    },
  },
  {
    name: 'claim, replace and claim again at one moment give different stamps',
    async run(harness) {
      for (let n = 0; n < 20; n++) {
        await schedule(harness, 'a')
        const first = await hold(harness, 'a')
        await schedule(harness, 'a')
        const second = await hold(harness, 'a')
        expect(second.stamp).toBeGreaterThan(first.stamp)
        expect(await settle(harness, 'a', first.stamp, DONE)).toBe('stale')
        expect(await settle(harness, 'a', second.stamp, DONE)).toBe('settled')
      }
    },
  },
  {
    name: 'a repeated request returns the same tasks and claims nothing more',
    async run(harness) {
      const keys = keysOfOneCell(3)
      const [first = ''] = keys
      await scheduleAll(harness, keys, { atMs: await now(harness) })
      const request = { req: newRequest(), limit: 2 }
      const claimed = await claim(harness, first, request)
      expect(keysOf(claimed.tasks)).toEqual(keys.slice(0, 2))
      for (const limit of [2, 100]) {
        const again = await claim(harness, first, { ...request, limit })
        expect(again).toMatchObject({ stamp: claimed.stamp, tasks: claimed.tasks })
      }
      await expectCounts(harness, { pending: 1, due: 1, claimed: 2 })
    },
  },
  {
    name: 'a repeated request returns only what it still holds',
    async run(harness) {
      const keys = keysOfOneCell(5)
      const [done = '', again = '', replaced = '', held = '', waiting = ''] = keys
      await scheduleAll(harness, keys, { atMs: await now(harness) })
      const request = { req: newRequest(), limit: 4 }
      const { stamp } = await claim(harness, done, request)
      await settle(harness, done, stamp, DONE)
      await settle(harness, again, stamp, retryIn(0))
      await schedule(harness, replaced)
      const repeated = await claim(harness, done, request)
      expect(repeated.stamp).toBe(stamp)
      expect(keysOf(repeated.tasks)).toEqual([held])
      expect(await view(harness, waiting)).toMatchObject({ state: 'pending' })
    },
  },
  {
    name: 'a repeated request after one of its tasks went to another claim returns the rest',
    async run(harness) {
      const keys = keysOfOneCell(2)
      const [other = '', held = ''] = keys
      await scheduleAll(harness, keys, { atMs: await now(harness) })
      const request = { req: newRequest() }
      const first = await claim(harness, held, request)
      await settle(harness, other, first.stamp, retryIn(0))
      const second = await hold(harness, other)
      expect(keysOf((await claim(harness, held, request)).tasks)).toEqual([held])
      expect(await settle(harness, other, first.stamp, DONE)).toBe('stale')
      expect(await settle(harness, other, second.stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'deliveries count the claims that reached somebody, and the id stays',
    async run(harness) {
      await schedule(harness, 'a')
      expect((await view(harness, 'a')).id).toBeNull()
      const first = await hold(harness, 'a')
      for (let n = 1; n <= 5; n++) {
        const { stamp, task } = n === 1 ? first : await hold(harness, 'a')
        expect(task).toMatchObject({ id: first.task.id, deliveries: n })
        await settle(harness, 'a', stamp, n % 2 === 0 ? retryIn(0) : { kind: 'snooze', delayMs: 0 })
        expect(await view(harness, 'a')).toMatchObject({ id: first.task.id, deliveries: n })
      }
    },
  },
  {
    name: 'two tasks never share an id',
    async run(harness) {
      const keys = keysOfOneCell(10)
      await scheduleAll(harness, keys)
      const { tasks } = await claim(harness, keys[0] ?? '')
      expect(new Set(tasks.map(({ id }) => id)).size).toBe(10)
    },
  },
  {
    name: 'an answer tells when to look again',
    async run(harness) {
      const [a = '', b = '', c = ''] = keysOfOneCell(3)
      const empty = await claim(harness, a)
      expect(empty).toMatchObject({
        tasks: [],
        nextRingMs: null,
        nextSuspectMs: null,
        nextLeaseEndInMs: null,
        rescued: 0,
        poisoned: [],
      })
      const later = await schedule(harness, a, { delayMs: 2 * FAR_MS, priority: 'high' })
      const sooner = await schedule(harness, b, { delayMs: FAR_MS, priority: 'low' })
      expect(await claim(harness, a)).toMatchObject({ nextRingMs: sooner.dueMs, nextSuspectMs: null })
      await schedule(harness, c, { priority: 'normal' })
      const before = await now(harness)
      const taken = await claim(harness, c, { leaseMs: FAR_MS })
      expect(keysOf(taken.tasks)).toEqual([c])
      expectBetween(taken.nowMs, before, await now(harness))
      expect(taken.nextRingMs).toBe(sooner.dueMs)
      expect(taken.nextLeaseEndInMs).toBe(FAR_MS)
      await harness.advance(20)
      const looked = await claim(harness, a)
      expectBetween(looked.nextLeaseEndInMs ?? -1, 0, FAR_MS - 10)
      await settle(harness, c, taken.stamp, DONE)
      const after = await claim(harness, a, { limit: 0 })
      expect(after).toMatchObject({ nextRingMs: sooner.dueMs, nextLeaseEndInMs: null })
      expect(later.dueMs).toBeGreaterThan(sooner.dueMs)
    },
  },
  {
    name: 'what a limit left behind is the next ring',
    async run(harness) {
      const keys = keysOfOneCell(2)
      const atMs = (await now(harness)) - 50
      await scheduleAll(harness, keys, { atMs })
      expect((await claim(harness, keys[0] ?? '', { limit: 1 })).nextRingMs).toBe(atMs)
    },
  },
  {
    name: 'a claim ends with the task that fills it, and what is left rings at once',
    async run(harness) {
      const keys = keysOfOneCell(40)
      const atMs = (await now(harness)) - 50
      await scheduleAll(harness, keys, { atMs, body: LARGE_BODY })
      const claims: string[][] = []
      while (claims.flat().length < keys.length) {
        const { tasks, nowMs, nextRingMs } = await claim(harness, keys[0] ?? '')
        for (const { body } of tasks) expect(body).toBe(LARGE_BODY)
        claims.push(keysOf(tasks))
        if (claims.flat().length < keys.length) expect(nextRingMs).toBeLessThanOrEqual(nowMs)
        else expect(nextRingMs).toBeNull()
      }
      expect(claims).toEqual([
        keys.slice(0, LARGE_PER_CLAIM),
        keys.slice(LARGE_PER_CLAIM, 2 * LARGE_PER_CLAIM),
        keys.slice(2 * LARGE_PER_CLAIM),
      ])
      await expectCounts(harness, { claimed: 40 })
    },
  },
  {
    name: 'a claim that one lane fills takes nothing from the next, and small tasks fill none',
    async run(harness) {
      const keys = keysOfOneCell(LARGE_PER_CLAIM + 2)
      const [low = '', small = '', ...high] = keys
      await schedule(harness, low, { priority: 'low' })
      await scheduleAll(harness, high, { priority: 'high', body: LARGE_BODY })
      expect(keysOf((await claim(harness, low)).tasks).toSorted()).toEqual(high)
      await schedule(harness, small)
      expect(keysOf((await claim(harness, low)).tasks)).toEqual([small, low])
    },
  },
  {
    name: 'one task fits a claim, whatever its size',
    async run(harness) {
      const keys = keysOfOneCell(2)
      const body = 'x'.repeat(BATCH_BYTES_MAX * 2)
      await scheduleAll(harness, keys, { atMs: await now(harness), body })
      for (const key of keys) expect((await hold(harness, key)).task.body).toBe(body)
    },
  },
  {
    name: 'a repeated request returns all that a full claim took',
    async run(harness) {
      const keys = keysOfOneCell(LARGE_PER_CLAIM + 5)
      await scheduleAll(harness, keys, { atMs: await now(harness), body: LARGE_BODY })
      const request = { req: newRequest() }
      const claimed = await claim(harness, keys[0] ?? '', request)
      expect(keysOf(claimed.tasks)).toEqual(keys.slice(0, LARGE_PER_CLAIM))
      const again = await claim(harness, keys[0] ?? '', request)
      expect(again).toMatchObject({ stamp: claimed.stamp, tasks: claimed.tasks })
      await expectCounts(harness, { pending: 5, due: 5, claimed: LARGE_PER_CLAIM })
    },
  },
  {
    name: 'a prefix that the size of a claim would cut is not cut',
    async run(harness) {
      const groups = await scheduleGroups(harness, [10, 12, 3], { body: LARGE_BODY })
      const taken: string[] = []
      while (taken.length < 25) {
        taken.push(...(await claimWhole(harness, groups, 100)))
        const whole = groups.filter((group) => group.every((key) => taken.includes(key)))
        expect(taken.toSorted()).toEqual(whole.flat().toSorted())
      }
    },
  },
  {
    name: 'a prefix that the limit would cut is left whole to the next claim',
    async run(harness) {
      const groups = await scheduleGroups(harness, [2, 3, 1])
      for (const group of groups) expect(await claimWhole(harness, groups, 3)).toEqual(group)
    },
  },
  {
    name: 'what a prefix leaves free goes to the next lane, and every task has its own body',
    async run(harness) {
      const groups = await scheduleGroups(harness, [1, 3], { priority: 'high' })
      const [prefix = ''] = groups[0]?.[0]?.split(':') ?? []
      const normal = [`${prefix}:8`, `${prefix}:9`]
      await scheduleAll(harness, normal, { atMs: (await now(harness)) - 100, slotBy: 'prefix' })
      const options = { slotBy: 'prefix', limit: 3, wholePrefixes: true } as const
      const { tasks } = await claim(harness, normal[0] ?? '', options)
      expect(keysOf(tasks)).toEqual([...(groups[0] ?? []), ...normal])
      expect(tasks.map(({ body }) => body)).toEqual(keysOf(tasks).map((key) => `body of ${key}`))
    },
  },
  {
    name: 'a prefix that is larger than the limit by itself is cut',
    async run(harness) {
      const groups = await scheduleGroups(harness, [5, 1])
      const keys = groups.flat()
      for (const from of [0, 2, 4])
        expect(await claimWhole(harness, groups, 2)).toEqual(keys.slice(from, from + 2))
    },
  },
  {
    name: 'prefixes that fit the limit exactly are taken',
    async run(harness) {
      const groups = await scheduleGroups(harness, [2, 2, 1])
      expect(await claimWhole(harness, groups, 4)).toEqual(groups.slice(0, 2).flat())
      expect(await claimWhole(harness, groups, 4)).toEqual(groups[2])
    },
  },
  {
    name: 'a prefix is whole for one moment: what of it rings later does not hold it back',
    async run(harness) {
      const groups = await scheduleGroups(harness, [1, 2])
      const late = `${groups[1]?.[0]?.split(':')[0]}:9`
      await scheduleAll(harness, [late], { delayMs: FAR_MS, slotBy: 'prefix' })
      expect(await claimWhole(harness, groups, 3)).toEqual(groups.flat())
    },
  },
  {
    name: 'a prefix is whole for one moment: what of it rang earlier goes without the rest',
    async run(harness) {
      const keys = prefixesOfOneCell(2).flatMap((prefix) => [`${prefix}:0`, `${prefix}:1`])
      const [other = '', , early = '', late = ''] = keys
      const atMs = (await now(harness)) - 100
      for (const [n, key] of [other, early, late].entries())
        await scheduleAll(harness, [key], { atMs: atMs + n, slotBy: 'prefix' })
      expect(await claimWhole(harness, [[other]], 2)).toEqual([other, early])
      expect(await claimWhole(harness, [[other]], 2)).toEqual([late])
    },
  },
  {
    name: 'a prefix is whole within its lane: what of it has another priority does not hold it back',
    async run(harness) {
      const [first = '', second = ''] = prefixesOfOneCell(2).map((prefix) => `${prefix}:0`)
      const atMs = (await now(harness)) - 100
      await scheduleAll(harness, [first, second], { atMs, priority: 'high', slotBy: 'prefix' })
      await scheduleAll(harness, [`${second}x`], { atMs, priority: 'normal', slotBy: 'prefix' })
      expect(await claimWhole(harness, [[first]], 2)).toEqual([first, second])
      expect(await claimWhole(harness, [[first]], 2)).toEqual([`${second}x`])
    },
  },
  {
    name: 'without whole prefixes the limit cuts where it falls',
    async run(harness) {
      const groups = await scheduleGroups(harness, [2, 3])
      expect(await claimWhole(harness, groups, 3, false)).toEqual(groups.flat().slice(0, 3))
    },
  },
  {
    name: 'a task that was left for its prefix is as it was before',
    async run(harness) {
      const groups = await scheduleGroups(harness, [1, 2])
      const left = place(groups[1]?.[0] ?? '', 'prefix')
      const before = await harness.timetable.get(harness.topic, left)
      expect(await claimWhole(harness, groups, 2)).toEqual(groups[0])
      expect(before).toMatchObject({ state: 'pending', id: null, deliveries: 0 })
      expect(await harness.timetable.get(harness.topic, left)).toEqual(before)
      await expectCounts(harness, { pending: 2, due: 2, claimed: 1 })
    },
  },
  {
    name: 'a retry rings at its own time, and the time it was due stays',
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a')
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(50))
      const { ringMs } = await view(harness, 'a')
      const early = await claim(harness, 'a')
      if (early.nowMs < ringMs) {
        expect(early.tasks).toEqual([])
        expect((await holdWhenDue(harness, 'a')).task).toMatchObject({ dueMs, ringMs })
      } else expect(only(early.tasks)).toMatchObject({ dueMs, ringMs })
    },
  },
])
