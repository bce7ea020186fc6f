/**
 * How many tasks a consumer may claim: one permit per concurrent handler call, and a prefetch that keeps the handlers busy
 * while the next claim is under way. A claimed task that waits here cannot run in another process, so never claim more.
 *
 * Suspects (tasks whose lease was lost before, perhaps because they crashed their process) run alone, so that the next
 * lost lease can be blamed on them. `#alone` is the state of that:
 *
 *                        reserveAlone, consumer busy
 *      ┌──────────┐ ───────────────────────────────────▶ ┌──────────┐
 *      │   'no'   │                                       │ 'wanted' │  nothing is claimed: running handlers drain
 *      └──────────┘ ◀─────────────────────────────────── └──────────┘
 *        ▲      │      consumer idle: calls one waiter;        │
 *        │      │      or one lease passed: 'crowded'          │
 *        │      │                                              │
 *        │      │ reserveAlone, consumer idle (or crowded,     │ reserveAlone, consumer idle
 *        │      │ and a permit is free)                        │
 *        │      ▼                                              │
 *      ┌──────────┐ ◀──────────────────────────────────────────┘
 *      │ 'taken'  │  one suspect runs, nothing else is claimed
 *      └──────────┘
 *        └─▶ 'no' when the suspect ended, the consumer is idle, or one lease passed
 */
import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { RateLimiter, Rate } from '../lib/rate-limiter.ts'
import type { Settings } from '../values/config.ts'
import { RateMeter } from './rate-meter.ts'

/** The prefetch is at most this much work at the measured rate, at most a tenth of the lease, and at most this many batches. */
const PREFETCH_MS = 100
const PREFETCH_BATCHES = 4

/** With more than this many batches of unrecorded outcomes, nothing more is claimed. */
const UNRECORDED_BATCHES = 4

/**
 * The capacity is shared by this many concurrent claims. If one claim took all of it, the other cells would wait for its
 * answer, and after a stall their overdue tasks would arrive one round trip after the other. A share is never cut below
 * the second figure.
 */
const CLAIMS_AT_ONCE = 4
const SHARE_MIN = 16

/**
 * Where claims return few tasks, each reserves little more than that, so that many can be under way: beside the backlog of
 * another topic an answer takes long, and on-time tasks of 64 cells must not wait for four of them. A claim that comes
 * back full doubles the next reservation at once.
 */
const SHARE_LEAST = 4
const WEIGHT_OF_NEWEST = 0.2

/** After one lease of waiting without becoming idle, suspects do not wait again for this many leases. */
const CROWDED_LEASES = 10

/** A part of the capacity that is set aside for one claim, until `claimed`. */
export type Reservation = LanesReservation | SuspectReservation

export interface LanesReservation {
  readonly from: 'lanes'
  readonly limit: number
}

export interface SuspectReservation {
  readonly from: 'suspects'
  readonly limit: 1
  /** True if other handlers run beside the suspect: then a lost lease must not be held against it. */
  readonly isAmongOthers: boolean
}

export class Capacity {
  readonly #clock: Clock
  readonly #settings: () => Settings
  /** This node's part of the topic's rate. */
  readonly #rate: () => Rate | null
  readonly #permits: number
  readonly #batched: boolean
  readonly #meter: RateMeter
  readonly #rateLimiter: RateLimiter
  /** Callbacks of pullers that found no capacity, first come, first served. */
  readonly #waiting = new Set<() => void>()
  /** Callbacks of pullers that have a suspect and wait for the consumer to be idle. */
  readonly #waitingToBeAlone = new Set<() => void>()
  #alone: 'no' | 'wanted' | 'taken' = 'no'
  #aloneSinceMs = 0
  /** End of 'wanted' and 'taken': neither a long handler nor a hanging suspect may hold up the others beyond one lease. */
  #aloneUntilMs = 0
  #aloneNotBeforeMs = Number.NEGATIVE_INFINITY
  /** Until then suspects do not wait for an idle consumer: some handler always runs, for longer than a lease. */
  #crowdedUntilMs = Number.NEGATIVE_INFINITY
  #lastSuspect: SuspectReservation | null = null
  #busy = 0
  #reserved = 0
  /** Moving average of the tasks that a claim returns; Infinity before the first claim. */
  #perClaim = Number.POSITIVE_INFINITY
  /** Tasks claimed and not started. */
  queued = 0
  /** Outcomes not recorded yet. Many of them mean a slow or unreachable timetable: more claims would not help. */
  unrecorded = 0

  constructor(
    clock: Clock,
    rateLimiter: RateLimiter,
    settings: () => Settings,
    rate: () => Rate | null,
    permits: number,
    batched: boolean,
  ) {
    this.#clock = clock
    this.#rateLimiter = rateLimiter
    this.#settings = settings
    this.#rate = rate
    this.#permits = permits
    this.#batched = batched
    this.#meter = new RateMeter(clock.monotonicNow())
  }

  get freePermits(): number {
    return this.#permits - this.#busy
  }

  get isIdle(): boolean {
    return this.#busy === 0 && this.queued === 0 && this.#reserved === 0
  }

  /** Reserves capacity for a claim. Returns null if there is none; `whenFree` is called when there is. */
  reserve(whenFree: () => void): LanesReservation | null {
    const { batchSize } = this.#settings()
    if (this.#alone !== 'no' && this.#clock.monotonicNow() >= this.#aloneUntilMs) this.#endAlone()
    const wanted = this.#alone === 'no' ? Math.min(this.#share(), batchSize, BATCH_MAX) : 0
    const limit = wanted === 0 ? 0 : this.#rateLimiter.take(wanted, this.#rate(), this.#clock.monotonicNow())
    if (limit === 0) {
      this.#waiting.add(whenFree)
      return null
    }
    this.#reserved += limit
    return { from: 'lanes', limit }
  }

  /**
   * Reserves the whole consumer for one suspect: until the suspect ended, but for one lease at most, because a hanging
   * suspect must not hold up the others. Afterwards ordinary work gets as much time as the suspect took. Returns null if
   * the suspect has to wait; `whenIdle` is called when the consumer is idle.
   *
   * A suspect is judged only if it ran alone, so it waits until the consumer is idle. A consumer with handlers longer than
   * a lease may never be idle, and suspects would wait forever: after one lease of waiting they run among others, and
   * a lost lease is not held against them.
   */
  reserveAlone(whenIdle: () => void): SuspectReservation | null {
    const nowMs = this.#clock.monotonicNow()
    const { leaseMs } = this.#settings()
    if (this.#alone === 'wanted' && nowMs >= this.#aloneUntilMs) this.#endAlone()
    if (this.#alone === 'no' && nowMs < this.#aloneNotBeforeMs) return null
    const isCrowded = this.#alone === 'no' && nowMs < this.#crowdedUntilMs
    if (this.#alone === 'no') this.#aloneSinceMs = nowMs
    if (this.#alone !== 'taken' && (this.isIdle || (isCrowded && this.freePermits > 0))) {
      if (this.#rateLimiter.take(1, this.#rate(), nowMs) === 0) return null
      this.#lastSuspect = { from: 'suspects', limit: 1, isAmongOthers: !this.isIdle }
      this.#alone = 'taken'
      this.#aloneUntilMs = nowMs + leaseMs
      this.#reserved++
      return this.#lastSuspect
    }
    if (this.#alone === 'no') {
      this.#alone = 'wanted'
      this.#aloneUntilMs = nowMs + leaseMs
    }
    this.#waitingToBeAlone.add(whenIdle)
    return null
  }

  /** Ends a reservation: its claim returned `taken` tasks, and what was reserved beyond that is free again. */
  claimed({ limit }: Reservation, taken: number): void {
    this.#reserved -= limit
    if (limit > 1) this.#learn(limit, taken)
    // A repeated claim may return more than was reserved for it this time.
    this.#rateLimiter.giveBack(Math.max(0, limit - taken))
  }

  /** Lets ordinary work continue: the suspect ended, though other handlers may still run beside it. */
  endAlone(suspect: SuspectReservation): void {
    // A suspect that outlived its lease must not end the time of the next one.
    if (this.#alone === 'taken' && suspect === this.#lastSuspect) this.#endAlone()
    this.offer()
  }

  /** Returns the monotonic time at which `reserve` may succeed without a callback; Infinity for never. */
  nextMs(): number {
    const nowMs = this.#clock.monotonicNow()
    if (this.#alone !== 'no') return this.#aloneUntilMs
    if (this.#free() === 0) return Number.POSITIVE_INFINITY
    return Math.max(nowMs, this.#rateLimiter.nextMs(this.#rate(), nowMs))
  }

  /** Returns when `reserveAlone` may succeed. Infinity: wait for the callback of `whenIdle`. */
  nextAloneMs(whenIdle: () => void): number {
    const nowMs = this.#clock.monotonicNow()
    if (this.#alone === 'no')
      return Math.max(this.#aloneNotBeforeMs, this.#rateLimiter.nextMs(this.#rate(), nowMs))
    this.#waitingToBeAlone.add(whenIdle)
    return this.#alone === 'wanted' ? this.#aloneUntilMs : Number.POSITIVE_INFINITY
  }

  acquire(permits: number): void {
    this.#busy += permits
  }

  release(permits: number): void {
    this.#busy -= permits
  }

  finished(tasks: number): void {
    this.#meter.add(tasks, this.#clock.monotonicNow())
  }

  /** Calls one waiting puller if there is capacity. It offers again when it is done, so the rest goes to the next. */
  offer(): void {
    if (this.#alone === 'taken' && this.isIdle) this.#endAlone()
    if (this.#alone === 'wanted' && this.isIdle) {
      // The called puller asks again, unless its suspect is gone: then ordinary work must not wait for that suspect.
      this.#alone = 'no'
      return callFirst(this.#waitingToBeAlone)
    }
    if (this.#waiting.size > 0 && this.#mayGrant()) callFirst(this.#waiting)
  }

  /** Drops the callbacks of pullers that were replaced. */
  forgetWaiters(): void {
    this.#waiting.clear()
    this.#waitingToBeAlone.clear()
    if (this.#alone === 'wanted') this.#alone = 'no'
  }

  #endAlone(): void {
    const nowMs = this.#clock.monotonicNow()
    const neverIdle = this.#alone === 'wanted'
    this.#alone = 'no'
    // The suspect that waited for a whole lease runs next, so ordinary work gets no time in between.
    if (neverIdle) this.#crowdedUntilMs = nowMs + CROWDED_LEASES * this.#settings().leaseMs
    else this.#aloneNotBeforeMs = nowMs + (nowMs - this.#aloneSinceMs)
    // The pullers compute anew when to ask again.
    for (const call of this.#waitingToBeAlone) call()
    this.#waitingToBeAlone.clear()
  }

  #mayGrant(): boolean {
    const nowMs = this.#clock.monotonicNow()
    return this.#alone === 'no' && this.#free() > 0 && this.#rateLimiter.nextMs(this.#rate(), nowMs) <= nowMs
  }

  /** Returns the part of the capacity for one claim. A batch handler gets all of it: whole batches are cheaper. */
  #share(): number {
    const free = this.#free()
    if (this.#batched) return free
    const share = Math.max(SHARE_MIN, Math.ceil(free / CLAIMS_AT_ONCE))
    return Math.min(free, share, Math.max(SHARE_LEAST, Math.ceil(2 * this.#perClaim)))
  }

  #learn(limit: number, taken: number): void {
    if (taken >= limit) this.#perClaim = Math.max(this.#perClaim, limit)
    else if (this.#perClaim === Number.POSITIVE_INFINITY) this.#perClaim = taken
    else this.#perClaim += WEIGHT_OF_NEWEST * (taken - this.#perClaim)
  }

  /** Returns how many more tasks may be claimed, by all claims together. */
  #free(): number {
    const { batchSize, mergeMs } = this.#settings()
    if (this.unrecorded > UNRECORDED_BATCHES * Math.max(batchSize, this.#permits)) return 0
    const free = this.freePermits * (this.#batched ? batchSize : 1) - this.queued - this.#reserved
    // A claim of less than a batch could split the tasks of one prefix that fit into one batch.
    if (this.#batched && mergeMs > 0) return free >= batchSize ? free : 0
    const prefetch = this.#prefetch()
    if (free > 0) return free + prefetch
    // No permit is free, only the prefetch has a gap: refill it in large pieces, not task by task.
    const gap = prefetch + free
    return gap * 2 >= prefetch ? Math.max(0, gap) : 0
  }

  #prefetch(): number {
    const { leaseMs, batchSize } = this.#settings()
    return Math.floor(
      Math.min(this.#meter.perMs * Math.min(PREFETCH_MS, leaseMs / 10), PREFETCH_BATCHES * batchSize),
    )
  }
}

function callFirst(waiting: Set<() => void>): void {
  for (const call of waiting) {
    waiting.delete(call)
    return call()
  }
}
