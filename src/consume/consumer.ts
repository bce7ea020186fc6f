/**
 * The path of a task from due to settled:
 *
 *   timetable ── wake ──▶ puller (one per slot) ── reserve ──▶ capacity
 *       ▲                   │ ▲                                  │
 *       │                   │ └── reservation, or call back ─────┘
 *       │                 claim (claimer: repeats a claim whose reply was lost)
 *       │                   ▼
 *       │                 held tasks ── extend ──▶ renewer: keeps the lease until the outcome is recorded
 *       │                   │
 *       │                   ├── lanes ─────▶ queue, or gatherer ────┐
 *       │                   └── suspect ───▶ begin, then alone ─────┤
 *       │                                                           ▼
 *       │                 worker: admission ──▶ guard ──▶ handler call ──▶ verdict
 *       │                   (lease, late policy, payload)                    │
 *       └── settle, in batches ── settler ◀── outcome ◀── held tasks ◀───────┘
 *
 * The queue is small. A queued task starts when a permit (the right to one handler call) becomes free. For a batch
 * handler, a gatherer takes the place of the queue and collects the tasks of many claims. On stop and pause, the tasks
 * of both are given back.
 */
import { cellsOfSlot } from '../values/cell.ts'
import { sleep } from '../clock.ts'
import type { Claim, Look } from '../timetable.ts'
import type { RateLimiter } from '../lib/rate-limiter.ts'
import { Capacity, type Reservation, type SuspectReservation, type SuspectWaiter } from './capacity.ts'
import { Claimer, type ClaimerParts } from './claimer.ts'
import { Gatherer } from './gatherer.ts'
import { HeldClaim, HeldTask } from './held.ts'
import { HeldTasks, type HeldTasksParts } from './held-tasks.ts'
import { type Moment, Puller, type PullerHost, reachedBy } from './puller.ts'
import { rateOfShare } from './rate-share.ts'
import { Reporter, type ReporterParts } from './reporter.ts'
import { StartRate } from './start-rate.ts'
import { Worker, type WorkerParts } from './worker.ts'

export interface ConsumerParts<Out> extends WorkerParts<Out>, HeldTasksParts, ClaimerParts, ReporterParts {
  readonly paused: () => boolean
  /** The rate limiter of the topic. All consumers of the topic in this process share it. */
  readonly rateLimiter: RateLimiter
  /** The maximum number of concurrent handler calls. */
  readonly concurrency: number
  /** Returns the slots that this process pulls, and the number of slots of the topic. */
  readonly share: () => { readonly owned: readonly number[]; readonly slots: number }
}

export interface StopReport {
  /** The number of tasks whose handlers ended while `stop` waited. */
  readonly finished: number
  /** The number of tasks given back: they are due at once for another consumer, without a failure. */
  readonly released: number
}

/** A claim with this limit takes no tasks. It only makes tasks with expired leases available again. */
const NO_TASKS = { limit: 0, from: 'lanes' } as const

const BEGIN_TRIES = 3
const BEGIN_RETRY_MS = 100

export class RunningConsumer<Out> implements PullerHost<Reservation> {
  readonly #parts: ConsumerParts<Out>
  readonly #capacity: Capacity
  readonly #startRate: StartRate
  readonly #reporter: Reporter
  readonly #claimer: Claimer
  readonly #heldTasks: HeldTasks
  readonly #worker: Worker<Out>
  /** Null if the handler gets one task per call. */
  readonly #gatherer: Gatherer | null
  readonly #unwatch: () => void
  /** Pullers by slot. */
  readonly #pullers = new Map<number, Puller<Reservation>>()
  /** The topic's number of slots; 0 before the first assignment. */
  #slots = 0
  #retired: Promise<unknown> = Promise.resolve()
  #queue: HeldTask[] = []
  #willStart = false
  #givenBackCount = 0
  #recordMs = Number.NEGATIVE_INFINITY
  #stopping: Promise<StopReport> | null = null

  constructor(parts: ConsumerParts<Out>) {
    this.#parts = parts
    const { clock, settings, share, concurrency, batched } = parts
    const startRate = new StartRate(clock, parts.rateLimiter, () => {
      const { rate } = settings()
      return rate === null ? null : rateOfShare(rate, share())
    })
    const capacity = new Capacity(clock, startRate, settings, concurrency, batched)
    const reporter = new Reporter(parts)
    const heldTasks = new HeldTasks(parts, capacity, startRate, reporter)
    this.#startRate = startRate
    this.#capacity = capacity
    this.#reporter = reporter
    this.#claimer = new Claimer(parts)
    this.#heldTasks = heldTasks
    this.#worker = new Worker(parts, capacity, startRate, heldTasks, reporter, () => this.#startMore())
    this.#gatherer = batched
      ? new Gatherer({
          clock,
          settings,
          mayBring: (...by) => this.#mayBring(...by),
          // One turn later: after a stall, replies that have arrived are read first.
          onTime: () => this.#start(),
        })
      : null
    this.#unwatch = parts.store.watch(parts.topic, {
      wake: (cell, ...ring) => this.#pullers.get(cell % this.#slots)?.wake(cell, ...ring),
      fence: (cell, key, stamp, cause) => this.#heldTasks.fence(cell, key, stamp, cause),
      limit: (cell, key, stamp, endMs) => this.#heldTasks.limit(cell, key, stamp, endMs),
      // A notice that a queued task was cancelled or replaced may have been lost, so give the queued tasks back. The
      // store answers 'stale' for a replaced task, and ends a cancelled task. The other tasks are due again at once.
      missed: () => this.#giveBackQueue(),
    })
    this.deal()
  }

  /** Returns the number of claimed tasks whose outcome is not recorded yet. */
  get inFlightCount(): number {
    return this.#heldTasks.count
  }

  /** Returns the number of claimed tasks that wait for the other tasks of their batch, or for a permit. */
  get gatheredCount(): number {
    return this.#gatherer?.count ?? 0
  }

  /** Returns the number of tasks whose handlers answered before their timeout. */
  get finishedCount(): number {
    return this.#worker.finishedCount
  }

  /** Returns the number of outcomes that were not recorded because the claim no longer held the task. */
  get staleCount(): number {
    return this.#heldTasks.staleCount
  }

  /** Applies a change of the topic's configuration. */
  reconfigure(): void {
    if (this.#stopping !== null) return
    if (this.#parts.paused()) this.#giveBackQueue()
    else if (this.gatheredCount > 0) this.#start()
    for (const puller of this.#pullers.values()) puller.nudge()
  }

  /** Starts and stops pullers after a change of the slot assignment. Tasks that are claimed already still run here. */
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
    store.features.pulls(
      topic,
      owned.flatMap((slot) => cellsOfSlot(slot, slots)),
    )
    for (const slot of owned) {
      if (this.#pullers.has(slot)) continue
      const puller = new Puller(clock, this, cellsOfSlot(slot, slots), store.lookMs)
      this.#pullers.set(slot, puller)
      puller.start()
    }
    // Start a pass of each puller, because `forgetWaiters` also dropped the callbacks of the remaining pullers.
    for (const puller of this.#pullers.values()) puller.nudge()
  }

  stop(timeoutMs: number): Promise<StopReport> {
    this.#stopping ??= this.#stop(timeoutMs)
    return this.#stopping
  }

  reserve(whenFree: () => void): Reservation | null {
    return this.#takesWork() ? this.#capacity.reserve(whenFree) : null
  }

  reserveAlone(waiter: SuspectWaiter): Reservation | null {
    return this.#takesWork() ? this.#capacity.reserveAlone(waiter) : null
  }

  nextReserveMs(): number {
    return this.#takesWork() ? this.#capacity.nextMs() : Number.POSITIVE_INFINITY
  }

  nextAloneMs(waiter: SuspectWaiter): number {
    return this.#takesWork() ? this.#capacity.nextAloneMs(waiter) : Number.POSITIVE_INFINITY
  }

  foundByLook(count: number): void {
    this.#reporter.caught('look', count)
  }

  passOn(offered: SuspectWaiter | null): void {
    if (offered !== null) this.#capacity.passed(offered)
    this.#startMore()
  }

  onError(error: unknown): void {
    this.#reporter.callFailed('claim', error)
  }

  async claim(cell: number, reservation: Reservation | null): Promise<Claim> {
    const { store, clock, settings } = this.#parts
    const { limit, from } = reservation ?? NO_TASKS
    // After a stall, leases of this process may have expired. A claim takes tasks with expired leases away from their
    // holders, so extend the leases of this process first.
    this.#heldTasks.renew()
    const sent = this.#claimer.next(cell, limit, from, settings().leaseMs)
    let claim: Claim | null = null
    let taken = 0
    try {
      const answer = store.claim(sent.at, sent.request)
      // Other cells need not wait for the answer.
      if (reservation !== null) this.#capacity.offer()
      claim = await answer
      // Await nothing before the tasks are held: a `fence` call that arrives earlier would not find its task.
      this.#reporter.poisoned(claim.poisoned)
      this.#reporter.caught('lease', claim.rescued)
      taken = claim.tasks.length
      if (taken > 0) {
        this.#reached(claim.nowMs)
        this.#accept(new HeldClaim({ ...sent, claim }, clock.monotonicNow()), reservation)
      }
      return claim
    } finally {
      if (claim === null) this.#claimer.unanswered(sent)
      // The reservation of a suspect ends later, when the suspect has started.
      if (reservation !== null && (from === 'lanes' || taken === 0))
        this.#capacity.claimed(reservation, taken)
      this.#startMore()
    }
  }

  look(cell: number): Promise<Look> {
    return this.#parts.store.look({ topic: this.#parts.topic, cell })
  }

  /** Passes `recordMs`, the timetable's clock in the reply to a claim, to all pullers: more cells may be due now. */
  #reached(recordMs: number): void {
    if (recordMs === this.#recordMs) return
    this.#recordMs = recordMs
    reachedBy(this.#pullers.values(), recordMs)
  }

  #accept(claim: HeldClaim, reservation: Reservation | null): void {
    this.#heldTasks.hold(claim)
    this.#startRate.assign(claim.tasks, reservation?.starts ?? 0)
    if (reservation?.from === 'suspects') return void this.#runAlone(claim.tasks[0] as HeldTask, reservation)
    if (this.#gatherer !== null) this.#gatherer.add(claim.tasks)
    else for (const held of claim.tasks) this.#queue.push(held)
    this.#countQueued()
    if (this.#takesWork()) this.#start()
    else this.#giveBackQueue()
  }

  /**
   * Runs a suspect. Its start is recorded first, because a lost lease is blamed only on a task whose start is recorded.
   * If other handlers run at the same time, the start is not recorded.
   */
  async #runAlone(held: HeldTask, reservation: SuspectReservation): Promise<void> {
    const isOurs = !this.#capacity.isAlone(reservation) || (await this.#begin(held))
    if (isOurs && this.#takesWork())
      void this.#worker.perform([held]).then(() => this.#capacity.endAlone(reservation))
    else this.#heldTasks.giveBack(held)
    this.#capacity.claimed(reservation, 1)
    this.#worker.progress()
  }

  /**
   * Records that a suspect starts, and returns whether the claim still holds it. A failed call is retried: the start
   * may be recorded already, and a recorded start without a run could make the task poison.
   */
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

  /**
   * Starts queued tasks. A batch handler starts one turn of the event loop later, so that one batch gets the tasks that
   * all pullers claimed at the same moment.
   */
  #start(): void {
    if (!this.#parts.batched) return this.#startNow()
    if (this.#willStart) return
    this.#willStart = true
    void this.#parts.clock.turn().then(() => {
      this.#willStart = false
      this.#startNow()
    })
  }

  #startNow(): void {
    while (this.#capacity.freePermits > 0 && this.#takesWork()) {
      // Take tasks off the queue first, because the handler starts synchronously and may pause the topic.
      const next = this.#takeNext()
      if (next === null) return
      this.#countQueued()
      if (next instanceof HeldTask) this.#worker.startOne(next)
      else void this.#worker.perform(next)
    }
  }

  /** Takes the tasks that start next off the queue: one task, or the tasks of one call of a guard or batch handler. */
  #takeNext(): HeldTask | HeldTask[] | null {
    if (this.#gatherer !== null) return this.#gatherer.next()
    if (this.#parts.guard === null) return this.#queue.shift() ?? null
    return this.#queue.length === 0 ? null : this.#queue.splice(0, this.#capacity.freePermits)
  }

  /** Returns true if claims may still bring tasks that ring by `by` into the batch that is being gathered. */
  #mayBring(by: Moment, patienceMs: number): boolean {
    const nowMs = this.#parts.clock.monotonicNow()
    if (!this.#capacity.mayClaimBy(Math.max(by.atMs, nowMs))) return false
    // Until then, any cell may get a task. Afterwards, only tasks that rang by then count.
    if (nowMs < by.atMs) return true
    for (const puller of this.#pullers.values()) if (puller.isDueBy(by, patienceMs)) return true
    return false
  }

  #countQueued(): void {
    this.#capacity.queued = this.#gatherer?.count ?? this.#queue.length
  }

  /** Starts queued tasks, because a permit became free or a claim ended. Offers the remaining capacity to pullers. */
  #startMore(): void {
    if (this.#capacity.queued > 0) this.#start()
    this.#capacity.offer()
  }

  async #stop(timeoutMs: number): Promise<StopReport> {
    const finishedBefore = this.#worker.finishedCount
    const givenBackBefore = this.#givenBackCount
    this.#giveBackQueue()
    await Promise.all([this.#retired, ...[...this.#pullers.values()].map((puller) => puller.stop())])
    await this.#worker.quiet(timeoutMs)
    const finished = this.#worker.finishedCount - finishedBefore
    const { released } = this.#worker.stop()
    await this.#heldTasks.stop()
    this.#unwatch()
    return { finished, released: this.#givenBackCount - givenBackBefore + released }
  }

  #giveBackQueue(): void {
    const given = this.#gatherer?.takeAll() ?? this.#queue
    this.#queue = []
    this.#countQueued()
    this.#givenBackCount += given.length
    for (const held of given) this.#heldTasks.giveBack(held)
  }
}
