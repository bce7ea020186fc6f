/** A ledger in plain JavaScript, as small as can be, and a workload by chance that both must answer alike. */
import { expect } from 'vitest'
import type { LedgerSettlement } from '../../../src/ledger.ts'
import { LOSSES_OF_A_SUSPECT } from '../../../src/values/rescue.ts'
import {
  DEAD,
  DONE,
  entry,
  FAR_MS,
  place,
  RETURN,
  retryIn,
  seededFraction,
  SHORT_LEASE_MS,
  snoozeFor,
} from '../timetable/helpers.ts'
import {
  begin,
  cancel,
  claim,
  expectBalance,
  extend,
  find,
  forget,
  type LedgerHarness,
  list,
  loadAll,
  LOST,
  now,
  OBSOLETE,
  purge,
  put,
  replay,
  reschedule,
  settle,
} from './helpers.ts'

interface Live {
  ringMs: number
  failures: number
  lost: number
  deliveries: number
  stamp: number
  /** By the ledger's clock; 0: nobody holds it. */
  leaseEndMs: number
  alone: boolean
  begun: boolean
  marked: boolean
}

/** The stamp of a claim whose process is gone: nobody can name it. */
const FORMER = -1

const KEYS = Array.from({ length: 40 }, (_, n) => `k${n}`)
const OUTCOMES: readonly LedgerSettlement['outcome'][] = [
  DONE,
  OBSOLETE,
  DEAD,
  RETURN,
  LOST,
  retryIn(0),
  retryIn(3_000),
  snoozeFor(2_000),
]

class Model {
  readonly live = new Map<string, Live>()
  readonly dead = new Map<string, { deliveries: number }>()
  readonly books = { scheduled: 0, done: 0, cancelled: 0, obsolete: 0, purged: 0 }
  nowMs = 0

  isHeld({ leaseEndMs }: Live): boolean {
    return leaseEndMs > this.nowMs
  }

  schedule(key: string, ringMs: number, keep: boolean): string {
    const old = this.live.get(key)
    if (old !== undefined && keep && !old.marked) return 'kept'
    const fresh = { ringMs, failures: 0, lost: 0, deliveries: 0, stamp: 0, leaseEndMs: 0 }
    this.live.set(key, { ...fresh, alone: false, begun: false, marked: false })
    if (old !== undefined) return 'replaced'
    this.books.scheduled++
    return 'created'
  }

  cancel(key: string): string {
    const task = this.live.get(key)
    if (task === undefined) return 'not-found'
    if (this.isHeld(task)) {
      task.marked = true
      return 'in-flight'
    }
    this.end(key, 'cancelled')
    return 'cancelled'
  }

  reschedule(key: string, ringMs: number): string {
    const task = this.live.get(key)
    if (task === undefined) return 'not-found'
    if (this.isHeld(task)) return 'in-flight'
    if (task.marked) {
      this.end(key, 'cancelled')
      return 'not-found'
    }
    this.free(task)
    Object.assign(task, { ringMs, failures: 0, lost: 0 })
    return 'rescheduled'
  }

  claim(key: string, stamp: number, leaseMs: number, alone: boolean): string {
    const task = this.live.get(key)
    if (task === undefined) return 'gone'
    if (this.isHeld(task)) return 'held'
    if (task.stamp !== 0) {
      if (task.marked) {
        this.end(key, 'cancelled')
        return 'gone'
      }
      if (task.alone && task.begun && task.lost >= LOSSES_OF_A_SUSPECT) {
        this.bury(key, task)
        return 'poison'
      }
      task.lost++
      this.free(task)
    }
    if (task.ringMs > this.nowMs) return 'later'
    if (task.lost >= 2 && !alone) return 'suspect'
    task.deliveries++
    Object.assign(task, { stamp, leaseEndMs: this.nowMs + leaseMs, alone, begun: false })
    return 'ours'
  }

  settle(key: string, stamp: number, outcome: LedgerSettlement['outcome']): string {
    const task = this.live.get(key)
    if (task === undefined || task.stamp === 0 || task.stamp !== stamp) return 'stale'
    const { kind } = outcome
    if (kind === 'lost' && this.isHeld(task)) return 'stale'
    if (kind === 'done' || kind === 'obsolete') this.end(key, kind)
    else if (kind === 'dead') this.bury(key, task)
    else if (task.marked) this.end(key, 'cancelled')
    else if (kind === 'lost' && task.alone && task.begun && task.lost >= LOSSES_OF_A_SUSPECT)
      this.bury(key, task)
    else {
      this.free(task)
      if (kind === 'return') task.deliveries--
      else if (kind === 'lost') {
        task.lost++
        task.ringMs = this.nowMs + outcome.spread * 1_000 * 2 ** Math.min(task.lost, 4)
      } else {
        task.lost = 0
        task.ringMs = this.nowMs + outcome.delayMs
        if (kind === 'retry') task.failures++
      }
    }
    return 'settled'
  }

  replay(key: string): string {
    const grave = this.dead.get(key)
    if (grave === undefined) return 'not-found'
    if (this.live.has(key)) return 'live'
    this.dead.delete(key)
    const { deliveries } = grave
    const fresh = { ringMs: this.nowMs, failures: 0, lost: 0, deliveries, stamp: 0, leaseEndMs: 0 }
    this.live.set(key, { ...fresh, alone: false, begun: false, marked: false })
    return 'replayed'
  }

  purge(key: string): string {
    if (!this.dead.delete(key)) return 'not-found'
    this.books.purged++
    return 'purged'
  }

  /** Whoever opens the ledger next finds nothing held; where others may have it open, leases run on. */
  reopen(isShared: boolean): void {
    for (const task of this.live.values())
      if (task.stamp !== 0) Object.assign(task, { stamp: FORMER, leaseEndMs: isShared ? task.leaseEndMs : 0 })
  }

  private free(task: Live): void {
    Object.assign(task, { stamp: 0, leaseEndMs: 0, alone: false, begun: false })
  }

  private end(key: string, how: 'done' | 'cancelled' | 'obsolete'): void {
    this.live.delete(key)
    this.books[how]++
  }

  private bury(key: string, { deliveries }: Live): void {
    this.purge(key)
    this.live.delete(key)
    this.dead.set(key, { deliveries })
  }
}

export async function compareWithModel(harness: LedgerHarness, seed: number, steps: number): Promise<void> {
  const { topic } = harness
  const fraction = seededFraction(seed)
  const upTo = (n: number) => Math.floor(fraction() * n)
  const oneOf = <T>(values: readonly T[]): T => values[upTo(values.length)] as T
  const model = new Model()
  const stampOf = (key: string) => (fraction() < 0.85 ? Math.max(0, model.live.get(key)?.stamp ?? 0) : 7) || 7
  let stamps = 1_000

  for (let step = 0; step < steps; step++) {
    const key = oneOf(KEYS)
    const what = `step ${step}, ${key}`
    model.nowMs = await now(harness)
    switch (upTo(20)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const keep = fraction() < 0.4
        const delayMs = oneOf([0, 0, 500, FAR_MS])
        const tags = fraction() < 0.3 ? ['x'] : null
        const answer = await put(harness, key, { delayMs, tags, onConflict: keep ? 'keep' : 'replace' })
        expect(answer.outcome, what).toBe(model.schedule(key, model.nowMs + delayMs, keep))
        break
      }
      case 4:
      case 5:
        expect(await cancel(harness, key), what).toBe(model.cancel(key))
        break
      case 6: {
        const ms = oneOf([0, 1_000, FAR_MS])
        const answer = await reschedule(harness, key, { kind: 'delay', ms })
        expect(answer.outcome, what).toBe(model.reschedule(key, model.nowMs + ms))
        break
      }
      case 7:
      case 8:
      case 9:
      case 10: {
        const request = { stamp: ++stamps, leaseMs: oneOf([SHORT_LEASE_MS, FAR_MS]), alone: fraction() < 0.3 }
        const verdict = await claim(harness, key, { ...request, nowMs: model.nowMs })
        expect(verdict.kind, what).toBe(model.claim(key, request.stamp, request.leaseMs, request.alone))
        if (verdict.kind !== 'ours') break
        const { ringMs, failures, deliveries } = model.live.get(key) as Live
        expect(verdict.task, what).toMatchObject({ key, ringMs, failures, deliveries })
        break
      }
      case 11:
      case 12:
      case 13:
      case 14: {
        const outcome = oneOf(OUTCOMES)
        const stamp = stampOf(key)
        const { answer, hint } = await settle(harness, key, stamp, outcome)
        const expected = model.settle(key, stamp, outcome)
        expect(answer, `${what}, ${outcome.kind}`).toBe(expected)
        if (hint !== null) expect(hint.ringMs, what).toBe(model.live.get(key)?.ringMs)
        break
      }
      case 15: {
        const stamp = stampOf(key)
        const task = model.live.get(key)
        const isTheirs = task !== undefined && task.stamp === stamp
        if (isTheirs) task.begun = true
        expect(await begin(harness, key, stamp), what).toBe(isTheirs)
        break
      }
      case 16: {
        const stamp = stampOf(key)
        const task = model.live.get(key)
        const isTheirs = task !== undefined && task.stamp === stamp
        if (isTheirs) task.leaseEndMs = model.nowMs + 1_000
        expect(await extend(harness, [key], stamp, 1_000), what).toBe(isTheirs ? 1 : 0)
        break
      }
      case 17:
        if (fraction() < 0.7) expect((await replay(harness, key)).outcome, what).toBe(model.replay(key))
        else expect(await purge(harness, key), what).toBe(model.purge(key))
        break
      case 18:
        await harness.advance(oneOf([1, 50, SHORT_LEASE_MS, 700, 3_000]))
        break
      case 19: {
        const chance = fraction()
        if (chance < 0.1) await forget(harness, { endedBeforeMs: model.nowMs - 1_000, limit: 10 })
        else if (chance < 0.2) {
          await harness.reopen()
          model.reopen(harness.isShared === true)
        }
      }
    }
    if (step % 100 === 99) await compare(harness, model, `after step ${step}`)
  }
  await harness.ledger.schedule(topic, [entry('last', { delayMs: FAR_MS })], 0)
  expect(model.schedule('last', (await now(harness)) + FAR_MS, false)).toBe('created')
  await compare(harness, model, 'at the end')
}

async function compare(harness: LedgerHarness, model: Model, when: string): Promise<void> {
  const { ledger, topic } = harness
  model.nowMs = await now(harness)
  await expectBalance(harness)
  const { pending, claimed, dead, ...ended } = await ledger.books(topic)
  expect(ended, when).toEqual(model.books)
  expect({ live: pending + claimed, dead }, when).toEqual({ live: model.live.size, dead: model.dead.size })
  const live = [...model.live.keys()].toSorted()
  const listed = await list(harness)
  expect(listed.map(({ key }) => key).toSorted(), when).toEqual(live)
  for (const { key, failures, deliveries, ringMs } of listed) {
    const task = model.live.get(key) as Live
    expect({ failures, deliveries, ringMs }, `${when}, ${key}`).toEqual({
      failures: task.failures,
      deliveries: task.deliveries,
      ringMs: task.ringMs,
    })
  }
  expect((await loadAll(harness, { limit: 7 })).map(({ key }) => key).toSorted(), when).toEqual(live)
  const graves = (await list(harness, { state: 'dead' })).map(({ key }) => key)
  expect(graves.toSorted(), when).toEqual([...model.dead.keys()].toSorted())
  const hints = await ledger.hints(
    topic,
    live.map((key) => place(key)),
  )
  for (const [i, key] of live.entries()) {
    const task = model.live.get(key) as Live
    if (task.marked) expect(hints[i], when).toBeNull()
    else if (task.stamp === 0)
      expect(hints[i], when).toMatchObject({ ringMs: task.ringMs, isSuspect: task.lost >= 2 })
  }
  for (const among of ['live', 'dead'] as const) {
    const found: string[] = []
    for (const cell of new Set(KEYS.map((key) => place(key).cell))) {
      const inCell = KEYS.find((key) => place(key).cell === cell) as string
      found.push(...(await find(harness, inCell, among, { all: true })))
    }
    const expected = among === 'live' ? live.filter((key) => key !== 'last') : [...model.dead.keys()]
    expect(found.filter((key) => key !== 'last').toSorted(), `${when}, ${among}`).toEqual(expected.toSorted())
  }
}
