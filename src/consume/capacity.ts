/**
 * How much work a consumer can take: free places, and a prefetch that keeps them busy while the next claim is under
 * way. Claim only what there is room for: what waits here cannot be done by somebody else.
 */
import type { Clock } from '../clock.ts'
import type { Settings } from '../values/config.ts'
import type { RateLimiter, Rate } from '../lib/rate-limiter.ts'
import { RateMeter } from './rate-meter.ts'

/** The prefetch is at most this much work at the measured rate, at most a tenth of the lease, and at most some batches. */
const PREFETCH_MS = 100
const PREFETCH_BATCHES = 4

/** Beyond so many batches of outcomes that are not recorded, nothing more is claimed. */
const UNRECORDED_BATCHES = 4

/** One claim call moves at most this many tasks. */
const CLAIM_MAX = 1_000

/**
 * The room is shared by so many claims under way. One that took it all would have the other cells wait for its answer,
 * and after a stall their overdue tasks would come one round trip after the other. Below the second figure it is not
 * worth sharing.
 */
const CLAIMS_AT_ONCE = 4
const SHARE_MIN = 16

/**
 * Where claims bring few tasks, each reserves little more than that, so that many can be under way: beside another topic's
 * backlog an answer takes long, and on-time tasks of 64 cells must not wait for four of them. One that comes back full
 * asks for twice as much at once.
 */
const SHARE_LEAST = 4
const LATELY = 0.2

/** Where waiting to be idle was in vain, it is not tried again for so many leases. */
const CROWDED_LEASES = 10

export class Capacity {
  readonly #clock: Clock
  readonly #settings: () => Settings
  /** This node's part of the topic's. */
  readonly #rate: () => Rate | null
  readonly #places: number
  readonly #batched: boolean
  readonly #meter: RateMeter
  readonly #rateLimiter: RateLimiter
  /** Pullers that found no room, first come first served. */
  readonly #hungry = new Set<() => void>()
  /** Pullers that have a suspect and wait for the consumer to be idle. */
  readonly #lonely = new Set<() => void>()
  /**
   * `wanted`: nothing more is claimed until the consumer is idle. `taken`: one suspect runs, and nothing else. Both end
   * at `#aloneUntilMs`: neither a long handler nor a suspect that hangs may hold up the others for more than a lease.
   */
  #alone: 'no' | 'wanted' | 'taken' = 'no'
  #aloneSinceMs = 0
  #aloneUntilMs = 0
  #aloneNotBeforeMs = Number.NEGATIVE_INFINITY
  /** Handlers run for longer than a lease, one after the other: until then nobody waits for the last of them to end. */
  #crowdedUntilMs = Number.NEGATIVE_INFINITY
  #isAmongOthers = false
  /** Suspects let in so far. */
  #turns = 0
  #busy = 0
  #reserved = 0
  /** How many tasks a claim brings, lately. Infinity: nobody knows yet. */
  #perClaim = Number.POSITIVE_INFINITY
  /** Tasks claimed and not started. */
  queued = 0
  /** Outcomes not recorded yet; the timetable is slow or away when there are many, and more claims would not help. */
  unrecorded = 0

  constructor(
    clock: Clock,
    rateLimiter: RateLimiter,
    settings: () => Settings,
    rate: () => Rate | null,
    places: number,
    batched: boolean,
  ) {
    this.#clock = clock
    this.#rateLimiter = rateLimiter
    this.#settings = settings
    this.#rate = rate
    this.#places = places
    this.#batched = batched
    this.#meter = new RateMeter(clock.monotonicNow())
  }

  get freePlaces(): number {
    return this.#places - this.#busy
  }

  get isIdle(): boolean {
    return this.#busy === 0 && this.queued === 0 && this.#reserved === 0
  }

  /** The suspect that was let in last, and whether that was beside others: then its loss must not be held against it. */
  get turn(): { readonly number: number; readonly isAmongOthers: boolean } {
    return { number: this.#turns, isAmongOthers: this.#isAmongOthers }
  }

  /** This suspect is done: nobody waits for it any more, though others may still run beside it. */
  endTurn(number: number): void {
    if (this.#alone === 'taken' && number === this.#turns) this.#aloneEnded()
    this.offer()
  }

  /** How many tasks a puller may claim now. At 0 it is called back when there is room. */
  reserve(whenRoom: () => void): number {
    const { batchSize } = this.#settings()
    if (this.#alone !== 'no' && this.#clock.monotonicNow() >= this.#aloneUntilMs) this.#aloneEnded()
    const wanted = this.#alone === 'no' ? Math.min(this.#share(), batchSize, CLAIM_MAX) : 0
    const granted =
      wanted === 0 ? 0 : this.#rateLimiter.take(wanted, this.#rate(), this.#clock.monotonicNow())
    if (granted === 0) this.#hungry.add(whenRoom)
    this.#reserved += granted
    return granted
  }

  /** A claim came back: what was reserved and not needed is free again. */
  claimed(reserved: number, taken: number): void {
    this.#reserved -= reserved
    if (reserved > 1) this.#learn(reserved, taken)
    // A repeated claim may bring more than was reserved for it this time.
    this.#rateLimiter.giveBack(Math.max(0, reserved - taken))
  }

  /** When it is worth asking for room again without being called: a monotonic moment, Infinity for never. */
  nextMs(): number {
    const nowMs = this.#clock.monotonicNow()
    if (this.#alone !== 'no') return this.#aloneUntilMs
    if (this.#capacity() === 0) return Number.POSITIVE_INFINITY
    return Math.max(nowMs, this.#rateLimiter.nextMs(this.#rate(), nowMs))
  }

  /** When it is worth asking to be alone again. Infinity: `whenIdle` is called. */
  nextAloneMs(whenIdle: () => void): number {
    const nowMs = this.#clock.monotonicNow()
    if (this.#alone === 'no')
      return Math.max(this.#aloneNotBeforeMs, this.#rateLimiter.nextMs(this.#rate(), nowMs))
    this.#lonely.add(whenIdle)
    return this.#alone === 'wanted' ? this.#aloneUntilMs : Number.POSITIVE_INFINITY
  }

  occupy(places: number): void {
    this.#busy += places
  }

  vacate(places: number): void {
    this.#busy -= places
  }

  finished(tasks: number): void {
    this.#meter.add(tasks, this.#clock.monotonicNow())
  }

  /** Tells one hungry puller that there is room; what it leaves goes to the next. */
  offer(): void {
    if (this.#alone === 'taken' && this.isIdle) this.#aloneEnded()
    if (this.#alone === 'wanted' && this.isIdle) {
      // Whoever is told asks again, unless its suspect is gone: then nobody may wait for it.
      this.#alone = 'no'
      return callFirst(this.#lonely)
    }
    if (this.#hungry.size > 0 && this.#mayGrant()) callFirst(this.#hungry)
  }

  /**
   * The whole consumer for one suspect, until it is idle again, or for one lease: a suspect that hangs must not hold
   * up the others. Between two of them, ordinary work gets as much time as the last one took.
   *
   * Idle it must be for the suspect to be judged by what happens. But where handlers take longer than a lease, and there
   * is always one, it never is, and suspects would wait for ever: after one lease in vain they run 'among others', beside
   * what runs already, and nothing is held against them should the process die.
   */
  reserveAlone(whenIdle: () => void): boolean {
    const nowMs = this.#clock.monotonicNow()
    const { leaseMs } = this.#settings()
    if (this.#alone === 'wanted' && nowMs >= this.#aloneUntilMs) this.#aloneEnded()
    if (this.#alone === 'no' && nowMs < this.#aloneNotBeforeMs) return false
    const isCrowded = this.#alone === 'no' && nowMs < this.#crowdedUntilMs
    if (this.#alone === 'no') this.#aloneSinceMs = nowMs
    if (this.#alone !== 'taken' && (this.isIdle || (isCrowded && this.freePlaces > 0))) {
      if (this.#rateLimiter.take(1, this.#rate(), nowMs) === 0) return false
      this.#isAmongOthers = !this.isIdle
      this.#turns++
      this.#alone = 'taken'
      this.#aloneUntilMs = nowMs + leaseMs
      this.#reserved++
      return true
    }
    if (this.#alone === 'no') {
      this.#alone = 'wanted'
      this.#aloneUntilMs = nowMs + leaseMs
    }
    this.#lonely.add(whenIdle)
    return false
  }

  #aloneEnded(): void {
    const nowMs = this.#clock.monotonicNow()
    const wasInVain = this.#alone === 'wanted'
    this.#alone = 'no'
    if (wasInVain) this.#crowdedUntilMs = nowMs + CROWDED_LEASES * this.#settings().leaseMs
    // Whoever waited in vain has its turn now.
    else this.#aloneNotBeforeMs = nowMs + (nowMs - this.#aloneSinceMs)
    // They find out when they may ask again.
    for (const call of this.#lonely) call()
    this.#lonely.clear()
  }

  #mayGrant(): boolean {
    const nowMs = this.#clock.monotonicNow()
    return (
      this.#alone === 'no' && this.#capacity() > 0 && this.#rateLimiter.nextMs(this.#rate(), nowMs) <= nowMs
    )
  }

  /** The pullers were replaced: nobody waits any more. */
  forgetWaiters(): void {
    this.#hungry.clear()
    this.#lonely.clear()
    if (this.#alone === 'wanted') this.#alone = 'no'
  }

  /** What one claim may have of it. Batches are not shared: they are worth more in one piece. */
  #share(): number {
    const room = this.#capacity()
    if (this.#batched) return room
    const share = Math.max(SHARE_MIN, Math.ceil(room / CLAIMS_AT_ONCE))
    return Math.min(room, share, Math.max(SHARE_LEAST, Math.ceil(2 * this.#perClaim)))
  }

  #learn(reserved: number, taken: number): void {
    if (taken >= reserved) this.#perClaim = Math.max(this.#perClaim, reserved)
    else if (this.#perClaim === Number.POSITIVE_INFINITY) this.#perClaim = taken
    else this.#perClaim += LATELY * (taken - this.#perClaim)
  }

  #capacity(): number {
    const { batchSize, mergeMs } = this.#settings()
    if (this.unrecorded > UNRECORDED_BATCHES * Math.max(batchSize, this.#places)) return 0
    const free = this.freePlaces * (this.#batched ? batchSize : 1) - this.queued - this.#reserved
    // A claim of less than a batch could cut a prefix that one batch would hold.
    if (this.#batched && mergeMs > 0) return free >= batchSize ? free : 0
    const prefetch = this.#prefetch()
    if (free > 0) return free + prefetch
    // Only the prefetch has gaps: fill it in large pieces, not task by task.
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
