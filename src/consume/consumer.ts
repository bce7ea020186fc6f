/**
 * What the user's handler is wrapped in:
 *
 *   pullers ──claim──▶ queue ──▶ worker ──▶ outcomes
 *
 * The queue is the prefetch: small, started as places become free, and given back on stop and pause.
 */
import { cellsOfSlot, prefixOf } from '../values/cell.ts'
import { sleep } from '../clock.ts'
import type { Claim, Look } from '../timetable.ts'
import type { RateLimiter } from '../lib/rate-limiter.ts'
import { HeldClaim, type HeldTask, type SentClaim } from './held.ts'
import { Puller, type PullerHost } from './puller.ts'
import { rateOfShare } from './rate-share.ts'
import { Capacity } from './capacity.ts'
import { UnansweredClaims } from './unanswered-claims.ts'
import { Reporter, type ReporterParts } from './reporter.ts'
import { Worker, type WorkerParts } from './worker.ts'

export interface ConsumerParts<Out> extends WorkerParts<Out>, ReporterParts {
  readonly paused: () => boolean
  /** Of the topic: its consumers in this process share it. */
  readonly rateLimiter: RateLimiter
  /** Calls of the handler at a time. */
  readonly concurrency: number
  /** The slots to pull, and of how many. */
  readonly share: () => { readonly owned: readonly number[]; readonly slots: number }
}

export interface StopReport {
  /** Tasks whose handlers ended while we waited. */
  readonly finished: number
  /** Tasks given back: due at once for somebody else, no failure. */
  readonly released: number
}

const BEGIN_TRIES = 3
const BEGIN_RETRY_MS = 100

export class RunningConsumer<Out> implements PullerHost {
  readonly #parts: ConsumerParts<Out>
  readonly #capacity: Capacity
  readonly #reporter: Reporter
  readonly #worker: Worker<Out>
  readonly #oneByOne: boolean
  readonly #unwatch: () => void
  /** By slot. */
  readonly #pullers = new Map<number, Puller>()
  /** Of how many slots these are some; 0: none was dealt yet. */
  #slots = 0
  #retired: Promise<unknown> = Promise.resolve()
  #queue: HeldTask[] = []
  #startsSoon = false
  #givenBackCount = 0
  #recordMs = Number.NEGATIVE_INFINITY
  readonly #unanswered: UnansweredClaims
  #stopping: Promise<StopReport> | null = null

  constructor(parts: ConsumerParts<Out>) {
    this.#parts = parts
    this.#oneByOne = !parts.batched && parts.guard === null
    this.#unanswered = new UnansweredClaims(parts.clock)
    this.#capacity = new Capacity(
      parts.clock,
      parts.rateLimiter,
      parts.settings,
      () => rateOfShare(parts.settings().rate, parts.share()),
      parts.concurrency,
      parts.batched,
    )
    this.#reporter = new Reporter(parts)
    this.#worker = new Worker(parts, this.#capacity, this.#reporter, () => this.#goOn())
    this.#unwatch = parts.store.watch(parts.topic, {
      wake: (cell, ...ring) => this.#pullers.get(cell % this.#slots)?.wake(cell, ...ring),
      fence: (cell, key, stamp, cause) => this.#worker.fence(cell, key, stamp, cause),
      limit: (cell, key, stamp, endMs) => this.#worker.limit(cell, key, stamp, endMs),
      // Given back by its stamp, a task that was replaced answers 'stale', and the others come again at once.
      missed: () => this.#giveBackQueue(),
    })
    this.deal()
  }

  get inFlightCount(): number {
    return this.#worker.inFlightCount
  }

  /** Tasks whose handlers answered in time. */
  get finishedCount(): number {
    return this.#worker.finishedCount
  }

  /** Outcomes that came too late to count. */
  get staleCount(): number {
    return this.#worker.staleCount
  }

  /** The topic's configuration changed. */
  reconfigure(): void {
    if (this.#stopping !== null) return
    if (this.#parts.paused()) this.#giveBackQueue()
    for (const puller of this.#pullers.values()) puller.nudge()
  }

  /** Other slots are ours. Nothing moves: only who looks changes, and what was claimed before is carried out here. */
  deal(): void {
    if (this.#stopping !== null) return
    const { clock, store, share, topic } = this.#parts
    const { owned, slots } = share()
    const isRedealt = slots !== this.#slots
    const leaving = [...this.#pullers].filter(([slot]) => isRedealt || !owned.includes(slot))
    this.#retired = Promise.all([this.#retired, ...leaving.map(([, puller]) => puller.stop())])
    for (const [slot] of leaving) this.#pullers.delete(slot)
    this.#capacity.forgetWaiters()
    this.#slots = slots
    store.ledger?.pulls(
      topic,
      owned.flatMap((slot) => cellsOfSlot(slot, slots)),
    )
    for (const slot of owned) {
      if (this.#pullers.has(slot)) continue
      const puller = new Puller(clock, this, cellsOfSlot(slot, slots), store.lookMs)
      this.#pullers.set(slot, puller)
      puller.start()
    }
    // Those that stay may have waited among those that were forgotten.
    for (const puller of this.#pullers.values()) puller.nudge()
  }

  stop(timeoutMs: number): Promise<StopReport> {
    this.#stopping ??= this.#stop(timeoutMs)
    return this.#stopping
  }

  reserve(whenRoom: () => void): number {
    return this.#takesWork() ? this.#capacity.reserve(whenRoom) : 0
  }

  reserveAlone(whenIdle: () => void): boolean {
    return this.#takesWork() && this.#capacity.reserveAlone(whenIdle)
  }

  nextRoomMs(): number {
    return this.#takesWork() ? this.#capacity.nextMs() : Number.POSITIVE_INFINITY
  }

  nextAloneMs(whenIdle: () => void): number {
    return this.#takesWork() ? this.#capacity.nextAloneMs(whenIdle) : Number.POSITIVE_INFINITY
  }

  passOn(): void {
    this.#capacity.offer()
  }

  onError(error: unknown): void {
    this.#reporter.callFailed('claim', error)
  }

  async claim(cell: number, limit: number, from: 'lanes' | 'suspects'): Promise<Claim> {
    const { topic, store, clock } = this.#parts
    const at = { topic, cell }
    // After a stall, what we hold must not be rescued away from us by our own claim: leases first.
    this.#worker.renew()
    const sent = this.#unanswered.take(cell, from) ?? this.#newClaim(limit, from)
    let taken = 0
    let isAnswered = false
    try {
      const claim = await store.claim(at, sent.request)
      isAnswered = true
      taken = claim.tasks.length
      if (taken > 0) this.#reached(claim.nowMs)
      this.#reporter.poisoned(claim.poisoned)
      if (taken > 0) this.#accept(new HeldClaim(at, sent, claim, clock.monotonicNow()), from)
      return claim
    } finally {
      if (!isAnswered) this.#unanswered.keep(cell, sent)
      // A suspect keeps its reservation until it has started.
      if (from === 'lanes' || taken === 0) this.#capacity.claimed(limit, taken)
      this.#capacity.offer()
    }
  }

  look(cell: number): Promise<Look> {
    return this.#parts.store.look({ topic: this.#parts.topic, cell })
  }

  #newClaim(limit: number, from: 'lanes' | 'suspects'): SentClaim {
    const { clock, random, settings } = this.#parts
    const { leaseMs, mergeMs } = settings()
    const request = { req: random.uniqueId(), limit, leaseMs, from, wholePrefixes: mergeMs > 0 }
    return { request, sentMs: clock.monotonicNow() }
  }

  /** What one puller heard of the timetable's clock, the others need not find out. */
  #reached(recordMs: number): void {
    if (recordMs === this.#recordMs) return
    this.#recordMs = recordMs
    for (const puller of this.#pullers.values()) puller.reached(recordMs)
  }

  #accept(claim: HeldClaim, from: 'lanes' | 'suspects'): void {
    this.#worker.hold(claim)
    if (from === 'suspects') return void this.#runAlone(claim.tasks[0] as HeldTask)
    for (const held of claim.tasks) this.#queue.push(held)
    this.#capacity.queued = this.#queue.length
    if (this.#takesWork()) this.#start()
    else this.#giveBackQueue()
  }

  /** A suspect's start is recorded before it starts: only then can a lost lease be held against it. */
  async #runAlone(held: HeldTask): Promise<void> {
    const { number, isAmongOthers } = this.#capacity.turn
    const ours = isAmongOthers || (await this.#begin(held))
    if (ours && this.#takesWork())
      void this.#worker.perform([held]).then(() => this.#capacity.endTurn(number))
    else this.#worker.giveBack(held)
    this.#capacity.claimed(1, 1)
    this.#worker.progress()
  }

  /** Repeated when it fails: it may have taken effect, and a start on record that never happened could convict. */
  async #begin({ claim, entry }: HeldTask): Promise<boolean> {
    const { store, clock } = this.#parts
    for (let tries = 1; ; tries++) {
      try {
        return await store.begin(claim.at, entry.key, claim.stamp)
      } catch (error) {
        this.#reporter.callFailed('begin', error)
        if (tries === BEGIN_TRIES) return false
        await sleep(clock, BEGIN_RETRY_MS)
      }
    }
  }

  #takesWork(): boolean {
    return this.#stopping === null && !this.#parts.paused()
  }

  /** Batches wait for the end of the turn: what all pullers claimed at one moment then comes in one call. */
  #start(): void {
    if (!this.#parts.batched) return this.#startNow()
    if (this.#startsSoon) return
    this.#startsSoon = true
    void this.#parts.clock.turn().then(() => {
      this.#startsSoon = false
      this.#startNow()
    })
  }

  #startNow(): void {
    while (this.#queue.length > 0 && this.#capacity.freePlaces > 0 && this.#takesWork()) {
      // Out of the queue first: the handler starts before this returns, and may pause the topic.
      const batch = this.#oneByOne ? null : this.#queue.splice(0, this.#callSize())
      const one = batch === null ? this.#queue.shift() : undefined
      this.#capacity.queued = this.#queue.length
      if (one !== undefined) this.#worker.startOne(one)
      else void this.#worker.perform(batch as HeldTask[])
    }
  }

  #callSize(): number {
    const { batched, settings } = this.#parts
    if (!batched) return this.#capacity.freePlaces
    const { batchSize, mergeMs } = settings()
    return mergeMs === 0 ? batchSize : wholePrefixes(this.#queue, batchSize)
  }

  /** A place became free: start what waits, tell pullers of room. */
  #goOn(): void {
    if (this.#queue.length > 0) this.#start()
    this.#capacity.offer()
  }

  async #stop(timeoutMs: number): Promise<StopReport> {
    const finishedBefore = this.#worker.finishedCount
    const givenBackBefore = this.#givenBackCount
    this.#giveBackQueue()
    await Promise.all([this.#retired, ...[...this.#pullers.values()].map((puller) => puller.stop())])
    await this.#worker.quiet(timeoutMs)
    const finished = this.#worker.finishedCount - finishedBefore
    const { released } = await this.#worker.stop()
    this.#unwatch()
    return { finished, released: this.#givenBackCount - givenBackBefore + released }
  }

  #giveBackQueue(): void {
    const given = this.#queue
    this.#queue = []
    this.#capacity.queued = 0
    this.#givenBackCount += given.length
    for (const held of given) this.#worker.giveBack(held)
  }
}

/** How many tasks make a call of at most `max` that splits no prefix, unless one prefix alone is larger. */
function wholePrefixes(queue: readonly HeldTask[], max: number): number {
  const next = queue[max]
  if (next === undefined) return max
  const cut = prefixOf(next.entry.key)
  let size = max
  while (size > 0 && prefixOf((queue[size - 1] as HeldTask).entry.key) === cut) size--
  return size === 0 ? max : size
}
