/**
 * How many tasks a consumer may claim: the tasks for its free permits (a permit allows one handler call), and a
 * prefetch that keeps the handlers busy while the next claim is under way. The consumer never claims more, because a
 * claimed task that waits here cannot run in another process.
 *
 * Suspects (tasks that lost two leases in a row, perhaps because they crashed their process) run alone, so that the
 * next lost lease can be blamed on them. `#alone` is 'wanted' while a suspect waits for an idle consumer, and 'taken'
 * while a suspect runs:
 *
 *                        reserveAlone, consumer busy
 *      ┌──────────┐ ───────────────────────────────────▶ ┌──────────┐
 *      │   'no'   │                                      │ 'wanted' │  nothing is claimed: running handlers drain
 *      └──────────┘ ◀─────────────────────────────────── └──────────┘
 *        ▲  ▲   │      one lease passed: 'crowded'             │
 *        │  │   │                                              │ consumer idle: the drain is offered to one puller
 *        │  │   │ reserveAlone, consumer idle (or crowded,     ▼
 *        │  │   │ and a permit is free)                  ┌──────────┐
 *        │  └───┼─────────────────────────────────────── │ 'ready'  │  nothing is claimed but a suspect
 *        │      │      the puller has no suspect any more└──────────┘
 *        │      ▼                                              │ reserveAlone
 *      ┌──────────┐ ◀──────────────────────────────────────────┘
 *      │ 'taken'  │  one suspect runs, nothing else is claimed
 *      └──────────┘
 *        └─▶ 'no' when the suspect ended, the consumer is idle, or one lease passed
 */
import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { Settings } from '../values/config.ts'
import { RateMeter } from './rate-meter.ts'
import type { ReservedStarts, StartRate } from './start-rate.ts'

/**
 * The prefetch is the number of tasks that the consumer can finish, at the measured rate, in PREFETCH_MS or in a tenth of
 * the lease if that is shorter. It is never more than PREFETCH_BATCHES batches.
 */
const PREFETCH_MS = 100
const PREFETCH_BATCHES = 16

/**
 * A consumer claims nothing while it has too many unrecorded outcomes: more than this number times the batch size, or
 * times the number of permits if that is larger.
 */
const UNRECORDED_BATCHES = 8

/**
 * One claim may reserve a share of the free capacity: the free capacity divided by CLAIMS_AT_ONCE, but at least
 * SHARE_MIN. If one claim reserved all capacity, the claims of other cells would wait for its answer. After a stall,
 * the overdue tasks of many cells would then arrive one round trip after another. The share is smaller if recent claims
 * returned few tasks (see SHARE_LEAST).
 */
const CLAIMS_AT_ONCE = 4
const SHARE_MIN = 16

/**
 * The minimum share. If recent claims returned few tasks, the share of a claim is twice the average number of returned
 * tasks (`#perClaim`), but at least SHARE_LEAST. Small shares let the claims of many cells run at once. With large
 * shares, only CLAIMS_AT_ONCE claims fit, and due tasks of other cells wait for slow answers. If a claim returns as
 * many tasks as it reserved, the next claim may reserve twice as many. WEIGHT_OF_NEWEST is the weight of the newest
 * claim in the average.
 */
const SHARE_LEAST = 4
const WEIGHT_OF_NEWEST = 0.2

/** After a suspect waited a whole lease for an idle consumer, suspects run without waiting during this many leases. */
const CROWDED_LEASES = 10

/**
 * Suspects take at most one part in this many of a consumer's time. The time of a suspect includes the time in which
 * the consumer drained for it.
 */
const SUSPECT_SHARE = 5

const NO_STARTS: ReservedStarts = { limit: 0, starts: 0 }

/** A part of the capacity that is reserved for one claim until `claimed` is called. */
export type Reservation = LanesReservation | SuspectReservation

export interface LanesReservation extends ReservedStarts {
  readonly from: 'lanes'
}

export interface SuspectReservation extends ReservedStarts {
  readonly from: 'suspects'
  /** True if other handlers run at the same time: then a lost lease must not be blamed on the suspect. */
  readonly isAmongOthers: boolean
}

/** A puller that has a suspect and waits until the consumer is idle. */
export interface SuspectWaiter {
  /** Tells the puller to compute anew when to try again. */
  readonly nudge: () => void
  /** Tells the puller that the consumer is idle and kept idle until the end of the puller's next pass. */
  readonly offerAlone: () => void
}

export class Capacity {
  readonly #clock: Clock
  readonly #settings: () => Settings
  readonly #startRate: StartRate
  readonly #permits: number
  readonly #batched: boolean
  readonly #meter = new RateMeter()
  /** Callbacks of pullers that found no capacity. They are called in the order of their arrival. */
  readonly #waiting = new Set<() => void>()
  readonly #waitingToBeAlone = new Set<SuspectWaiter>()
  #alone: 'no' | 'wanted' | 'ready' | 'taken' = 'no'
  /** In the state 'ready': the puller that the drained consumer was offered to. */
  #readyFor: SuspectWaiter | null = null
  /** In the states 'wanted' and 'ready': the start that is reserved for the suspect. */
  #wantedStarts: ReservedStarts = NO_STARTS
  #aloneSinceMs = 0
  /** The time that suspects took since ordinary tasks last got their part of the time. */
  #aloneMs = 0
  /**
   * The monotonic time at which the state 'wanted', 'ready' or 'taken' ends at the latest: one lease after the drain or
   * the suspect began. So neither a long handler nor a hanging suspect delays other tasks for longer.
   */
  #aloneUntilMs = 0
  #aloneNotBeforeMs = Number.NEGATIVE_INFINITY
  /**
   * Until this time suspects run without waiting for an idle consumer, because the consumer was not idle for a whole
   * lease.
   */
  #crowdedUntilMs = Number.NEGATIVE_INFINITY
  #lastSuspect: SuspectReservation | null = null
  #busy = 0
  #reserved = 0
  /** The moving average of the number of tasks that a claim returns; Infinity before the first claim. */
  #perClaim = Number.POSITIVE_INFINITY
  #queued = 0
  #hasWork = false
  /**
   * The number of outcomes that are not recorded yet. If it is high, the timetable is slow or unreachable, and more
   * claims would not help.
   */
  unrecorded = 0

  constructor(
    clock: Clock,
    startRate: StartRate,
    settings: () => Settings,
    permits: number,
    batched: boolean,
  ) {
    this.#clock = clock
    this.#startRate = startRate
    this.#settings = settings
    this.#permits = permits
    this.#batched = batched
  }

  get freePermits(): number {
    return this.#permits - this.#busy
  }

  /** The number of tasks that are claimed and not started. */
  get queued(): number {
    return this.#queued
  }

  set queued(tasks: number) {
    this.#queued = tasks
    this.#noteWork()
  }

  get isIdle(): boolean {
    return !this.#hasWork && this.#reserved === 0
  }

  /** The largest number of tasks that run at once, or that one claim takes. */
  get batchMax(): number {
    return Math.max(this.#settings().batchSize, this.#permits)
  }

  /**
   * Reserves capacity for a claim. Returns null if there is no capacity, if a suspect waits or runs, or if the rate
   * limit is reached. `whenFree` is called when there is capacity again. `nextMs` returns when the rate limit allows
   * the next claim.
   */
  reserve(whenFree: () => void): LanesReservation | null {
    const { batchSize } = this.#settings()
    this.#expireAlone(this.#clock.monotonicNow())
    const wanted = this.#alone === 'no' ? Math.min(this.#share(), batchSize, BATCH_MAX) : 0
    const { limit, starts } = wanted === 0 ? NO_STARTS : this.#startRate.reserve(wanted)
    if (limit === 0) {
      this.#waiting.add(whenFree)
      return null
    }
    this.#reserved += limit
    return { from: 'lanes', limit, starts }
  }

  /**
   * Reserves the consumer for one suspect: no other task starts until the suspect ends, but for at most one lease,
   * because a hanging suspect must not delay other tasks for longer. Afterwards ordinary tasks get SUSPECT_SHARE - 1
   * times as much time as the suspect took.
   *
   * Only a suspect that ran alone can be blamed for a lost lease, so a suspect waits until the consumer is idle. If that
   * does not happen within one lease, because handlers run longer, suspects start beside the tasks that still run, and
   * a lost lease is not blamed on them.
   *
   * Returns null if the suspect has to wait. Try again when `waiter` is called, or at `nextAloneMs`.
   */
  reserveAlone(waiter: SuspectWaiter): SuspectReservation | null {
    const nowMs = this.#clock.monotonicNow()
    this.#expireAlone(nowMs)
    if (this.#alone === 'no' && !this.#wantAlone(nowMs)) return null
    if (this.#alone !== 'taken' && this.#mayStartSuspect(nowMs)) return this.#takeAlone(nowMs)
    this.#waitingToBeAlone.add(waiter)
    return null
  }

  /** Ends the reservation of a claim that returned `taken` tasks. Reserved capacity that was not used is free again. */
  claimed({ limit, starts }: Reservation, taken: number): void {
    this.#reserved -= limit
    if (limit > 1) this.#learn(limit, taken)
    // A repeated claim may return more tasks than were reserved for it this time.
    this.#startRate.release(Math.max(0, starts - taken))
  }

  /** Returns whether the suspect still has the consumer to itself: not if its claim took longer than one lease. */
  isAlone(suspect: SuspectReservation): boolean {
    return !suspect.isAmongOthers && this.#alone === 'taken' && suspect === this.#lastSuspect
  }

  /** Ends the reservation of a suspect that ended, so that ordinary tasks run again. Other handlers may still run. */
  endAlone(suspect: SuspectReservation): void {
    // If this suspect ran longer than its reservation, the current reservation may belong to another suspect. Do not
    // end the reservation of another suspect.
    if (this.#alone === 'taken' && suspect === this.#lastSuspect) this.#endAlone()
    this.offer()
  }

  /** Returns the monotonic time at which `reserve` may succeed; Infinity if the callback `whenFree` must come first. */
  nextMs(): number {
    const nowMs = this.#clock.monotonicNow()
    if (this.#alone !== 'no') return this.#aloneUntilMs
    if (this.#free() === 0) return Number.POSITIVE_INFINITY
    return Math.max(nowMs, this.#startRate.nextMs())
  }

  /** Returns false if no claim is under way, and the rate limit or a suspect allows none before `atMs`. */
  mayClaimBy(atMs: number): boolean {
    if (this.#reserved > 0) return true
    if (this.#alone !== 'no') return false
    return this.#startRate.mayReserveBy(atMs)
  }

  /**
   * Returns the monotonic time at which `reserveAlone` may succeed; Infinity if a call of `waiter` must come first.
   */
  nextAloneMs(waiter: SuspectWaiter): number {
    if (this.#alone === 'no') return Math.max(this.#aloneNotBeforeMs, this.#startRate.nextMs())
    this.#waitingToBeAlone.add(waiter)
    return this.#alone === 'taken' ? Number.POSITIVE_INFINITY : this.#aloneUntilMs
  }

  acquire(permits: number): void {
    this.#busy += permits
    this.#noteWork()
  }

  release(permits: number): void {
    this.#busy -= permits
    this.#noteWork()
  }

  /** Counts tasks whose handlers ended. Must be called before their permits are released. */
  finished(tasks: number): void {
    this.#meter.add(tasks, this.#clock.monotonicNow())
  }

  /**
   * Calls one waiting puller if there is capacity. The puller calls `offer` again when it is done, so that the next
   * puller gets the rest of the capacity.
   */
  offer(): void {
    if (this.#alone === 'taken' && this.isIdle) this.#endAlone()
    if (this.#alone === 'wanted' && this.#mayStartSuspect(this.#clock.monotonicNow()))
      return this.#offerAlone()
    if (this.#waiting.size > 0 && this.#mayGrant()) callFirst(this.#waiting)
  }

  /**
   * Called at the end of a puller's pass that began after `offerAlone`. If the puller reserved nothing, it has no
   * suspect any more, and ordinary tasks need not wait.
   */
  passed(waiter: SuspectWaiter): void {
    if (this.#alone === 'ready' && this.#readyFor === waiter) this.#endAlone()
  }

  /** Drops all callbacks, because the pullers that they belong to may have been replaced. */
  forgetWaiters(): void {
    this.#waiting.clear()
    if (this.#alone === 'wanted' || this.#alone === 'ready') this.#stopAlone(this.#clock.monotonicNow())
    this.#waitingToBeAlone.clear()
  }

  /** Begins to drain the consumer for a suspect. Returns false if no suspect may run yet. */
  #wantAlone(nowMs: number): boolean {
    if (nowMs < this.#aloneNotBeforeMs) return false
    // Reserve the start first: a drained consumer must not wait for the rate.
    const wanted = this.#startRate.reserve(1)
    if (wanted.limit === 0) return false
    this.#wantedStarts = wanted
    this.#alone = 'wanted'
    this.#aloneSinceMs = nowMs
    this.#aloneUntilMs = nowMs + this.#settings().leaseMs
    return true
  }

  #mayStartSuspect(nowMs: number): boolean {
    return this.isIdle || (nowMs < this.#crowdedUntilMs && this.freePermits > 0)
  }

  /** Keeps the drained consumer for one puller, until the end of its next pass. */
  #offerAlone(): void {
    for (const waiter of this.#waitingToBeAlone) {
      this.#waitingToBeAlone.delete(waiter)
      this.#alone = 'ready'
      this.#readyFor = waiter
      return waiter.offerAlone()
    }
  }

  #takeAlone(nowMs: number): SuspectReservation {
    const suspect = { from: 'suspects', ...this.#wantedStarts, isAmongOthers: !this.isIdle } as const
    this.#wantedStarts = NO_STARTS
    this.#readyFor = null
    this.#alone = 'taken'
    this.#aloneUntilMs = nowMs + this.#settings().leaseMs
    this.#reserved++
    this.#lastSuspect = suspect
    return suspect
  }

  #expireAlone(nowMs: number): void {
    if (this.#alone !== 'no' && nowMs >= this.#aloneUntilMs) this.#endAlone()
  }

  #endAlone(): void {
    const nowMs = this.#clock.monotonicNow()
    const neverIdle = this.#alone === 'wanted'
    this.#stopAlone(nowMs)
    if (neverIdle) {
      // A suspect that waited for a whole lease runs next.
      this.#crowdedUntilMs = nowMs + CROWDED_LEASES * this.#settings().leaseMs
    } else {
      this.#aloneNotBeforeMs = nowMs + (SUSPECT_SHARE - 1) * this.#aloneMs
      this.#aloneMs = 0
    }
    // Each puller computes a new time for its next call of `reserveAlone`.
    const waiting = [...this.#waitingToBeAlone]
    this.#waitingToBeAlone.clear()
    for (const waiter of waiting) waiter.nudge()
  }

  #stopAlone(nowMs: number): void {
    this.#startRate.release(this.#wantedStarts.starts)
    this.#wantedStarts = NO_STARTS
    this.#readyFor = null
    this.#alone = 'no'
    this.#aloneMs += nowMs - this.#aloneSinceMs
  }

  #noteWork(): void {
    const hasWork = this.#busy > 0 || this.#queued > 0
    if (hasWork === this.#hasWork) return
    this.#hasWork = hasWork
    if (hasWork) this.#meter.begin(this.#clock.monotonicNow())
    else this.#meter.end(this.#clock.monotonicNow())
  }

  #mayGrant(): boolean {
    if (this.#alone !== 'no' || this.#free() === 0) return false
    return this.#startRate.nextMs() <= this.#clock.monotonicNow()
  }

  /**
   * Returns the part of the free capacity that one claim may reserve. A batch handler's claim may reserve all of it if
   * smaller claims would make more batches: with `merge` they could split the tasks of one prefix, and without `linger`
   * no batch waits for the next claim.
   */
  #share(): number {
    const free = this.#free()
    if (this.#isMerging || (this.#batched && this.#settings().lingerMs === 0)) return free
    const share = Math.max(SHARE_MIN, Math.ceil(free / CLAIMS_AT_ONCE))
    return Math.min(free, share, Math.max(SHARE_LEAST, Math.ceil(2 * this.#perClaim)))
  }

  #learn(limit: number, taken: number): void {
    if (taken >= limit) this.#perClaim = Math.max(this.#perClaim, limit)
    else if (this.#perClaim === Number.POSITIVE_INFINITY) this.#perClaim = taken
    else this.#perClaim += WEIGHT_OF_NEWEST * (taken - this.#perClaim)
  }

  /** Returns how many more tasks all claims together may take. */
  #free(): number {
    const { batchSize } = this.#settings()
    if (this.unrecorded > UNRECORDED_BATCHES * this.batchMax) return 0
    const free = this.freePermits * (this.#batched ? batchSize : 1) - this.#queued - this.#reserved
    // The last claim of a batch may take more than the batch has room for. The rest goes into the next batch.
    if (this.#isMerging) return free > 0 ? Math.max(free, batchSize) : 0
    const prefetch = this.#prefetch()
    if (free > 0) return free + prefetch
    // No permit is free, so claim only for the prefetch. Refill the prefetch when a quarter of it is used, not task by task.
    const gap = prefetch + free
    return gap * 4 >= prefetch ? Math.max(0, gap) : 0
  }

  /** True if a batch must not split the tasks of one prefix. */
  get #isMerging(): boolean {
    return this.#batched && this.#settings().mergeMs > 0
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
