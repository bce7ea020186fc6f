import { expect } from 'vitest'
import {
  advanceTo,
  cancel,
  claim,
  DEAD,
  DONE,
  during,
  expectBetween,
  expectBooks,
  expectCounts,
  FAR_MS,
  hold,
  holdWhenDue,
  keysOf,
  keysOfOneCell,
  leaseEnds,
  look,
  loseLease,
  newRequest,
  now,
  only,
  place,
  replay,
  rescue,
  RESCUE_SPREAD_MS,
  RETURN,
  reschedule,
  retryIn,
  schedule,
  scheduleAll,
  settle,
  SHORT_LEASE_MS,
  shortenLease,
  snoozeFor,
  type TimetableHarness,
  theme,
  view,
} from './helpers.ts'

/** Two leases in a row lost: the task waits among the suspects. */
export async function becomeSuspect(harness: TimetableHarness, key: string): Promise<void> {
  await schedule(harness, key)
  await loseLease(harness, key)
  await loseLease(harness, key)
}

/** A third lease is lost, of the suspect running alone; the rescue's answer. */
async function loseAlone(harness: TimetableHarness, key: string, begun: boolean) {
  const { stamp } = await holdWhenDue(harness, key, { from: 'suspects', leaseMs: SHORT_LEASE_MS })
  const at = { topic: harness.topic, cell: place(key).cell }
  if (begun) expect(await harness.timetable.begin(at, key, stamp)).toBe(true)
  await leaseEnds(harness)
  return { stamp, rescued: await rescue(harness, key) }
}

export const rescuing = theme('rescue', [
  {
    name: 'a lost lease brings the task back, uncounted as a failure',
    async run(harness) {
      const given = { body: 'b', priority: 'high', tags: ['t'] } as const
      const { dueMs } = await schedule(harness, 'a', given)
      const { task } = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      const { answer, fromMs, toMs } = await during(harness, () => rescue(harness, 'a'))
      expect(answer).toMatchObject({ tasks: [], rescued: 1, poisoned: [], nextLeaseEndInMs: null })
      const back = await view(harness, 'a')
      expect(back).toMatchObject({
        ...given,
        id: task.id,
        state: 'pending',
        dueMs,
        failures: 0,
        deliveries: 1,
      })
      expectBetween(back.ringMs, fromMs, toMs + RESCUE_SPREAD_MS * 2)
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'a rescued task is delivered again, at its ring, with its id and its due',
    slow: true,
    async run(harness) {
      const { dueMs } = await schedule(harness, 'a', { body: 'b' })
      const first = await hold(harness, 'a')
      await settle(harness, 'a', first.stamp, retryIn(0))
      const lost = await loseLease(harness, 'a')
      const { ringMs } = await view(harness, 'a')
      const { task, stamp } = await holdWhenDue(harness, 'a')
      expect(task).toMatchObject({ id: first.task.id, body: 'b', dueMs, ringMs, failures: 1, deliveries: 3 })
      expect(stamp).toBeGreaterThan(lost.stamp)
      expect(await settle(harness, 'a', lost.stamp, DONE)).toBe('stale')
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'before the end of its lease nothing is rescued',
    async run(harness) {
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a')
      await harness.advance(SHORT_LEASE_MS)
      expect((await rescue(harness, 'a')).rescued).toBe(0)
      expect(await view(harness, 'a')).toMatchObject({ state: 'claimed' })
      expect(await settle(harness, 'a', stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'what was settled in time is not rescued',
    async run(harness) {
      const keys = keysOfOneCell(3)
      const [a = '', b = '', c = ''] = keys
      await scheduleAll(harness, keys)
      const { stamp } = await claim(harness, a, { leaseMs: SHORT_LEASE_MS })
      expect(await settle(harness, a, stamp, DONE)).toBe('settled')
      expect(await settle(harness, b, stamp, retryIn(FAR_MS))).toBe('settled')
      const { ringMs } = await view(harness, b)
      await leaseEnds(harness)
      expect((await rescue(harness, a)).rescued).toBe(1)
      expect(await look(harness, a)).toBeNull()
      expect(await view(harness, b)).toMatchObject({ ringMs, failures: 1, deliveries: 1 })
      expect(await view(harness, c)).toMatchObject({ state: 'pending', deliveries: 1 })
      await expectBooks(harness, { scheduled: 3, pending: 2, done: 1 })
    },
  },
  {
    name: 'a task that a retry moved to another claim is not rescued with the first',
    async run(harness) {
      const keys = keysOfOneCell(2)
      const [a = '', b = ''] = keys
      await scheduleAll(harness, keys)
      const req = newRequest()
      const first = await claim(harness, a, { req })
      await settle(harness, a, first.stamp, retryIn(0))
      const second = await hold(harness, a)
      await shortenLease(harness, a, req)
      await leaseEnds(harness)
      expect((await rescue(harness, a)).rescued).toBe(1)
      expect(await view(harness, a)).toMatchObject({ state: 'claimed' })
      expect(await view(harness, b)).toMatchObject({ state: 'pending' })
      expect(await settle(harness, a, second.stamp, DONE)).toBe('settled')
    },
  },
  {
    name: 'the tasks of one lost claim come back spread over time',
    async run(harness) {
      const keys = keysOfOneCell(25)
      const [first = ''] = keys
      await scheduleAll(harness, keys)
      await claim(harness, first, { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      const { answer, fromMs, toMs } = await during(harness, () => rescue(harness, first))
      expect(answer.rescued).toBe(25)
      const rings = await Promise.all(keys.map(async (key) => (await view(harness, key)).ringMs))
      for (const ringMs of rings) expectBetween(ringMs, fromMs, toMs + RESCUE_SPREAD_MS * 2)
      expect(new Set(rings).size).toBeGreaterThan(10)
      expect(Math.max(...rings) - Math.min(...rings)).toBeGreaterThan(RESCUE_SPREAD_MS / 2)
      expect(answer.nextRingMs).toBe(Math.min(...rings))
      await expectBooks(harness, { scheduled: 25, pending: 25 })
    },
  },
  {
    name: 'a claim rescues before it takes: what it finds is not lost however many claims expired',
    async run(harness) {
      const keys = keysOfOneCell(12)
      const [first = ''] = keys
      for (const key of keys) {
        await schedule(harness, key)
        await hold(harness, key, { req: `of ${key}` })
      }
      for (const key of keys) await shortenLease(harness, key, `of ${key}`)
      await leaseEnds(harness)
      let rescued = 0
      for (let calls = 0; calls < 12 && rescued < 12; calls++) {
        const answer = await rescue(harness, first)
        // A claim stays short after a crash: it looks after four lost ones and leaves the rest to the next.
        expectBetween(answer.rescued, 1, 4)
        rescued += answer.rescued
        if (rescued < 12) expect(answer.nextLeaseEndInMs).toBe(0)
      }
      expect(rescued).toBe(12)
      expect((await rescue(harness, first)).rescued).toBe(0)
      await expectBooks(harness, { scheduled: 12, pending: 12 })
    },
  },
  {
    name: 'an ordinary claim rescues too, and takes what is due',
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await schedule(harness, a)
      await hold(harness, a, { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      await schedule(harness, b)
      const { tasks, rescued } = await claim(harness, b)
      expect(rescued).toBe(1)
      expect(keysOf(tasks)).toContain(b)
    },
  },
  {
    name: 'two lost leases in a row make a suspect, which ordinary claims do not get',
    slow: true,
    async run(harness) {
      await schedule(harness, 'a', { priority: 'high', tags: ['t'] })
      const { task } = await loseLease(harness, 'a')
      await holdWhenDue(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      const { answer, fromMs, toMs } = await during(harness, () => rescue(harness, 'a'))
      const suspect = await view(harness, 'a')
      expect(suspect).toMatchObject({
        id: task.id,
        state: 'pending',
        failures: 0,
        deliveries: 2,
        priority: 'high',
        tags: ['t'],
      })
      expectBetween(suspect.ringMs, fromMs, toMs + RESCUE_SPREAD_MS * 4)
      expect(answer).toMatchObject({ rescued: 1, nextRingMs: null, nextSuspectMs: suspect.ringMs })
      const counted = await during(harness, () => harness.timetable.counts(harness.topic))
      expect(counted.answer).toMatchObject({ pending: 1, claimed: 0 })
      if (counted.toMs < suspect.ringMs) expect(counted.answer.due).toBe(0)
      await advanceTo(harness, suspect.ringMs)
      expect((await claim(harness, 'a')).tasks).toEqual([])
      await expectCounts(harness, { pending: 1, due: 1 })
      const alone = await hold(harness, 'a', { from: 'suspects' })
      expect(alone.task).toMatchObject({ id: task.id, ringMs: suspect.ringMs, failures: 0, deliveries: 3 })
      expect(await settle(harness, 'a', alone.stamp, DONE)).toBe('settled')
      await expectBooks(harness, { scheduled: 1, done: 1 })
    },
  },
  {
    name: 'suspects are given one at a time, at their time, whatever the limit',
    slow: true,
    async run(harness) {
      const keys = keysOfOneCell(25)
      const [first = ''] = keys
      await scheduleAll(harness, keys)
      for (let lost = 0; lost < 2; lost++) {
        await advanceTo(harness, Math.max(...(await ringsOf(harness, keys))))
        expect((await claim(harness, first, { leaseMs: SHORT_LEASE_MS })).tasks).toHaveLength(25)
        await leaseEnds(harness)
        await rescue(harness, first)
      }
      const nowMs = await now(harness)
      const rings = await ringsOf(harness, keys)
      // Twice as wide as after the first loss.
      expectBetween(Math.max(...rings), nowMs + RESCUE_SPREAD_MS * 2, nowMs + RESCUE_SPREAD_MS * 4)
      const looked = await claim(harness, first, { from: 'suspects', limit: 0 })
      expect(looked).toMatchObject({ tasks: [], nextSuspectMs: Math.min(...rings) })
      await advanceTo(harness, Math.max(...rings))
      expect((await claim(harness, first, { from: 'suspects', limit: 0 })).tasks).toEqual([])
      const given: string[] = []
      for (let n = 0; n < 25; n++) {
        const { tasks, stamp } = await claim(harness, first, { from: 'suspects', limit: 10 })
        const task = only(tasks)
        given.push(task.key)
        expect(await settle(harness, task.key, stamp, snoozeFor(FAR_MS))).toBe('settled')
      }
      expect(given.toSorted()).toEqual(keys)
      expect((await claim(harness, first, { from: 'suspects' })).tasks).toEqual([])
    },
  },
  {
    name: 'suspects’ claims take no ordinary task, and no suspect before its time',
    slow: true,
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await becomeSuspect(harness, a)
      await schedule(harness, b)
      const { ringMs } = await view(harness, a)
      const { tasks, nowMs } = await claim(harness, a, { from: 'suspects', limit: 10 })
      expect(keysOf(tasks)).toEqual(nowMs < ringMs ? [] : [a])
      expect(await view(harness, b)).toMatchObject({ state: 'pending' })
    },
  },
  {
    name: 'a third lease lost alone and begun is poison',
    slow: true,
    async run(harness) {
      await becomeSuspect(harness, 'a')
      const { stamp, rescued } = await loseAlone(harness, 'a', true)
      expect(rescued.poisoned).toEqual(['a'])
      const dead = await view(harness, 'a')
      expect(dead).toMatchObject({
        state: 'dead',
        deadCause: 'poison',
        body: 'body of a',
        failures: 0,
        deliveries: 3,
      })
      expect(dead.lastError).not.toBeNull()
      expect(await settle(harness, 'a', stamp, DONE)).toBe('stale')
      await expectBooks(harness, { scheduled: 1, dead: 1 })
      expect((await rescue(harness, 'a')).poisoned).toEqual([])
      expect(await replay(harness, 'a')).toBe('replayed')
      const replayed = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      expect(replayed.task).toMatchObject({ id: dead.id, failures: 0, deliveries: 4 })
      // It begins anew: one lost lease makes it neither poison nor a suspect.
      await leaseEnds(harness)
      expect(await rescue(harness, 'a')).toMatchObject({ rescued: 1, poisoned: [], nextSuspectMs: null })
    },
  },
  {
    name: 'two that are poison are both told, whoever found them',
    slow: true,
    async run(harness) {
      const keys = keysOfOneCell(3)
      const [a = '', b = '', other = ''] = keys
      const suspects = [a, b]
      for (const key of suspects) await becomeSuspect(harness, key)
      await advanceTo(harness, Math.max(...(await ringsOf(harness, suspects))))
      const at = { topic: harness.topic, cell: place(a).cell }
      const requests = suspects.map(() => newRequest())
      for (const req of requests) {
        const { tasks, stamp } = await claim(harness, a, { req, from: 'suspects' })
        expect(await harness.timetable.begin(at, only(tasks).key, stamp)).toBe(true)
      }
      for (const req of requests) await shortenLease(harness, a, req)
      await leaseEnds(harness)
      // Somebody who came by for another task finds them; the next claim tells.
      await reschedule(harness, other, { kind: 'delay', ms: 0 })
      expect((await rescue(harness, a)).poisoned.toSorted()).toEqual(suspects)
      expect((await rescue(harness, a)).poisoned).toEqual([])
      await expectBooks(harness, { scheduled: 2, dead: 2 })
    },
  },
  {
    name: 'a task keeps its place by priority: retried, rescued, moved as a suspect, replayed',
    slow: true,
    async run(harness) {
      const [high = '', normal = ''] = keysOfOneCell(2)
      const atMs = (await now(harness)) - 1_000
      const expectFirst = async () => {
        // It waits for longer, and goes second nevertheless.
        await schedule(harness, normal, { atMs })
        await advanceTo(harness, (await view(harness, high)).ringMs)
        expect(keysOf((await claim(harness, high, { limit: 1 })).tasks)).toEqual([high])
        await cancel(harness, normal)
        const { tasks, stamp } = await claim(harness, normal)
        for (const { key } of tasks) await settle(harness, key, stamp, DONE)
      }
      const anew = async () => {
        await schedule(harness, high, { priority: 'high' })
        return hold(harness, high)
      }
      const retried = await anew()
      await settle(harness, high, retried.stamp, retryIn(0))
      await expectFirst()
      await schedule(harness, high, { priority: 'high' })
      await loseLease(harness, high)
      await expectFirst()
      await schedule(harness, high, { priority: 'high' })
      await loseLease(harness, high)
      await loseLease(harness, high)
      await reschedule(harness, high, { kind: 'delay', ms: 0 })
      await expectFirst()
      const killed = await anew()
      await settle(harness, high, killed.stamp, DEAD)
      await replay(harness, high)
      await expectFirst()
    },
  },
  {
    name: 'a third lease lost alone but never begun is no poison',
    slow: true,
    async run(harness) {
      await becomeSuspect(harness, 'a')
      const { answer, fromMs } = await during(harness, () => loseAlone(harness, 'a', false))
      expect(answer.rescued).toMatchObject({ rescued: 1, poisoned: [] })
      const back = await view(harness, 'a')
      expect(back).toMatchObject({ state: 'pending', failures: 0, deliveries: 3 })
      expectBetween(back.ringMs, fromMs, (await now(harness)) + RESCUE_SPREAD_MS * 8)
      expect(answer.rescued).toMatchObject({ nextRingMs: null, nextSuspectMs: back.ringMs })
      await expectBooks(harness, { scheduled: 1, pending: 1 })
    },
  },
  {
    name: 'a start that was recorded in a batch convicts nobody',
    slow: true,
    async run(harness) {
      await schedule(harness, 'a')
      const at = { topic: harness.topic, cell: place('a').cell }
      for (let lost = 0; lost < 2; lost++) {
        const { stamp } = await holdWhenDue(harness, 'a', { leaseMs: SHORT_LEASE_MS })
        expect(await harness.timetable.begin(at, 'a', stamp)).toBe(true)
        await leaseEnds(harness)
        expect((await rescue(harness, 'a')).poisoned).toEqual([])
      }
      // The starts above were of other claims: this one was not begun.
      const { rescued } = await loseAlone(harness, 'a', false)
      expect(rescued.poisoned).toEqual([])
      expect(await view(harness, 'a')).toMatchObject({ state: 'pending' })
    },
  },
  {
    name: 'begin is refused when the claim is not held',
    async run(harness) {
      const at = { topic: harness.topic, cell: place('a').cell }
      expect(await harness.timetable.begin(at, 'a', 1)).toBe(false)
      await schedule(harness, 'a')
      const { stamp } = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      expect(await harness.timetable.begin(at, 'a', stamp + 1)).toBe(false)
      expect(await harness.timetable.begin(at, 'a', stamp)).toBe(true)
      await leaseEnds(harness)
      await rescue(harness, 'a')
      expect(await harness.timetable.begin(at, 'a', stamp)).toBe(false)
    },
  },
  ...[retryIn(0), snoozeFor(0)].map((outcome) => ({
    name: `${outcome.kind} between two lost leases: no suspect`,
    slow: true,
    async run(harness: TimetableHarness) {
      await schedule(harness, 'a')
      await loseLease(harness, 'a')
      const { stamp } = await holdWhenDue(harness, 'a')
      await settle(harness, 'a', stamp, outcome)
      const { answer, fromMs } = await during(harness, () => loseLease(harness, 'a'))
      expect(answer.task.deliveries).toBe(3)
      const { ringMs } = await view(harness, 'a')
      // The count of lost leases began anew, and the spread with it.
      expectBetween(ringMs, fromMs, (await now(harness)) + RESCUE_SPREAD_MS * 2)
      expect(await rescue(harness, 'a')).toMatchObject({ nextRingMs: ringMs, nextSuspectMs: null })
      expect((await holdWhenDue(harness, 'a')).task.deliveries).toBe(4)
    },
  })),
  {
    name: 'a suspect that comes to an outcome is an ordinary task again',
    slow: true,
    async run(harness) {
      await becomeSuspect(harness, 'a')
      const { stamp, task } = await holdWhenDue(harness, 'a', { from: 'suspects' })
      const at = { topic: harness.topic, cell: place('a').cell }
      expect(await harness.timetable.begin(at, 'a', stamp)).toBe(true)
      expect(await settle(harness, 'a', stamp, retryIn(0))).toBe('settled')
      const again = await hold(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      expect(again.task).toMatchObject({ id: task.id, failures: 1, deliveries: 4 })
      await leaseEnds(harness)
      expect(await rescue(harness, 'a')).toMatchObject({ rescued: 1, poisoned: [], nextSuspectMs: null })
    },
  },
  {
    name: 'a suspect that is given back stays a suspect',
    slow: true,
    async run(harness) {
      await becomeSuspect(harness, 'a')
      const { stamp, task } = await holdWhenDue(harness, 'a', { from: 'suspects' })
      expect(await settle(harness, 'a', stamp, RETURN)).toBe('settled')
      expect((await claim(harness, 'a')).tasks).toEqual([])
      const again = await hold(harness, 'a', { from: 'suspects' })
      expect(again.task).toEqual(task)
    },
  },
  {
    name: 'a suspect that is rescheduled or replaced is an ordinary task again',
    slow: true,
    async run(harness) {
      const [a = '', b = ''] = keysOfOneCell(2)
      await becomeSuspect(harness, a)
      await reschedule(harness, a, { kind: 'delay', ms: 0 })
      // Its lost leases are forgotten with its failures: it takes two more to suspect it again.
      await loseLease(harness, a)
      const { stamp } = await holdWhenDue(harness, a)
      expect(await settle(harness, a, stamp, DONE)).toBe('settled')
      await becomeSuspect(harness, b)
      expect(await schedule(harness, b)).toMatchObject({ outcome: 'replaced', inFlight: false })
      const replaced = await hold(harness, b, { leaseMs: SHORT_LEASE_MS })
      expect(replaced.task.deliveries).toBe(1)
      expect(await settle(harness, b, replaced.stamp, RETURN)).toBe('settled')
      const again = await hold(harness, b)
      expect(await settle(harness, b, again.stamp, DEAD)).toBe('settled')
      await expectBooks(harness, { scheduled: 2, done: 1, dead: 1 })
    },
  },
  {
    name: 'a repeated request after the rescue claims anew, under a new stamp',
    slow: true,
    async run(harness) {
      await schedule(harness, 'a')
      const request = { req: newRequest() }
      const first = await hold(harness, 'a', { ...request, leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      await rescue(harness, 'a')
      await advanceTo(harness, (await view(harness, 'a')).ringMs)
      const second = await hold(harness, 'a', request)
      expect(second.stamp).toBeGreaterThan(first.stamp)
      expect(await settle(harness, 'a', first.stamp, DONE)).toBe('stale')
      expect(await settle(harness, 'a', second.stamp, DONE)).toBe('settled')
    },
  },
])

async function ringsOf(harness: TimetableHarness, keys: readonly string[]): Promise<number[]> {
  return Promise.all(keys.map(async (key) => (await view(harness, key)).ringMs))
}
