/**
 * The HTTP pulls of a topic that wait for tasks, and the pullers that claim for them. These pullers cover all cells,
 * including those of slots that other processes pull, so that a client gets due tasks of every cell from any server.
 * Claims are atomic: if two processes claim from the same cell, at worst one claim returns no task. Pullers take tasks
 * only while a pull waits. They stop after `IDLE_MS` without a pull.
 */
import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Clock } from '../clock.ts'
import type { SuspectWaiter } from '../consume/capacity.ts'
import { Claimer, type ClaimerParts, type ClaimSource } from '../consume/claimer.ts'
import { Puller, type PullerHost, reachedBy } from '../consume/puller.ts'
import type { Reporter } from '../consume/reporter.ts'
import type { ReservedStarts, StartRate } from '../consume/start-rate.ts'
import type { Claim, Look } from '../timetable.ts'
import { ALL_CELLS, cellsOfSlot } from '../values/cell.ts'
import { PendingPull } from './pending-pull.ts'
import type { Pulled, PulledTasks } from './pulled-tasks.ts'

export interface PendingPullsParts extends ClaimerParts {
  readonly clock: Clock
  readonly paused: () => boolean
}

/** A part of a pull that is reserved for one claim of at most `limit` tasks. */
export interface PullReservation extends ReservedStarts {
  readonly from: ClaimSource
  readonly pull: PendingPull
  /**
   * How much of the pull's limit is reserved. A claim of a suspect reserves the whole limit, because the suspect must
   * be the only task of the answer.
   */
  readonly reserved: number
}

/** The topic's pullers stop after this time without a pull, and start again with the next pull. */
const IDLE_MS = 60_000
const PULLERS = 16
/**
 * The minimum part of a pull's limit that one claim reserves. The parts are small so that all pullers can claim at the
 * same time, but a call for fewer tasks than this is not worth its cost.
 */
const SHARE_MIN = 8

export class PendingPulls implements PullerHost<PullReservation> {
  readonly #parts: PendingPullsParts
  readonly #reporter: Reporter
  readonly #claimer: Claimer
  readonly #pulledTasks: PulledTasks
  readonly #startRate: StartRate
  /** Pending pulls, served in the order of their arrival. */
  readonly #pulls = new Set<PendingPull>()
  /** Callbacks of pullers that found no pull to claim for. */
  readonly #waitingPullers = new Set<() => void>()
  #pullers: Puller<PullReservation>[] = []
  #unwatch: () => void = () => {}
  #callOffIdle: () => void = () => {}
  #isStopped = false

  constructor(parts: PendingPullsParts, pulledTasks: PulledTasks, startRate: StartRate, reporter: Reporter) {
    this.#parts = parts
    this.#startRate = startRate
    this.#reporter = reporter
    this.#claimer = new Claimer(parts)
    this.#pulledTasks = pulledTasks
  }

  get count(): number {
    return this.#pulls.size
  }

  /**
   * Resolves with up to `limit` tasks as soon as any are due. If no task is due within `waitMs`, resolves with no
   * tasks. When `signal` aborts, resolves at once with the tasks claimed so far: the caller must give these tasks back.
   */
  wait(limit: number, leaseMs: number, waitMs: number, signal: AbortSignal): Promise<Pulled[]> {
    if (this.#isStopped || signal.aborted) return Promise.resolve([])
    this.#open()
    return new Promise((resolve) => {
      const pull = new PendingPull(limit, leaseMs, (tasks) => {
        callOff()
        signal.removeEventListener('abort', leave)
        this.#pulls.delete(pull)
        if (this.#pulls.size === 0) this.#closeWhenIdle()
        // A client that is gone gets no tasks, so none is started. The caller gives them back.
        resolve(signal.aborted ? tasks : this.#pulledTasks.start(tasks))
      })
      const leave = () => pull.close()
      const callOff = this.#parts.clock.after(waitMs, () => {
        pull.expire()
        this.#answerSoon(pull)
      })
      signal.addEventListener('abort', leave, { once: true })
      this.#pulls.add(pull)
      this.#callWaitingPullers()
    })
  }

  /** Applies a change of the topic's configuration: paused, resumed, or another rate. */
  reconfigure(): void {
    for (const puller of this.#pullers) puller.nudge()
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    for (const pull of this.#pulls) pull.close()
    this.#callOffIdle()
    await this.#close()
    await this.#pulledTasks.givenBack()
  }

  reserve(whenFree: () => void): PullReservation | null {
    const pull = this.#mayClaim() ? this.#firstWithCapacity() : undefined
    const wanted = Math.min(pull?.capacity ?? 0, pull?.share(PULLERS, SHARE_MIN) ?? 0, BATCH_MAX)
    const { limit, starts } = this.#startRate.reserve(wanted)
    if (pull === undefined || limit === 0) {
      this.#waitingPullers.add(whenFree)
      return null
    }
    pull.reserve(limit)
    return { from: 'lanes', pull, limit, starts, reserved: limit }
  }

  /**
   * Reserves a whole pull for one suspect. A suspect is the only task of its answer: if it crashes the client, no other
   * task is affected.
   */
  reserveAlone({ nudge }: SuspectWaiter): PullReservation | null {
    const pull = this.#firstEmpty()
    const { limit, starts } = this.#startRate.reserve(pull === undefined ? 0 : 1)
    if (pull === undefined || limit === 0) {
      this.#waitingPullers.add(nudge)
      return null
    }
    const reserved = pull.capacity
    pull.reserve(reserved)
    return { from: 'suspects', pull, limit, starts, reserved }
  }

  nextReserveMs(): number {
    if (!this.#mayClaim() || this.#firstWithCapacity() === undefined) return Number.POSITIVE_INFINITY
    return this.#nextStartMs()
  }

  nextAloneMs({ nudge }: SuspectWaiter): number {
    this.#waitingPullers.add(nudge)
    return this.#firstEmpty() === undefined ? Number.POSITIVE_INFINITY : this.#nextStartMs()
  }

  async claim(cell: number, reservation: PullReservation | null): Promise<Claim> {
    const { store, settings } = this.#parts
    const { limit, from } = reservation ?? NO_TASKS
    const leaseMs = reservation?.pull.leaseMs ?? settings().leaseMs
    const sent = this.#claimer.next(cell, limit, from, leaseMs)
    const starts = reservation?.starts ?? 0
    let claim: Claim | null = null
    let tasks: Pulled[] = []
    let admitted: Pulled[] = []
    try {
      claim = await store.claim(sent.at, sent.request)
      this.#reporter.poisoned(claim.poisoned)
      this.#reporter.caught('lease', claim.rescued)
      if (claim.tasks.length > 0) reachedBy(this.#pullers, claim.nowMs)
      const isWanted = reservation !== null && !reservation.pull.isClosed && this.#mayClaim()
      tasks = this.#pulledTasks.of({ ...sent, claim })
      this.#startRate.assign(tasks, starts)
      if (isWanted) admitted = await this.#pulledTasks.admit(sent.at, tasks, from)
      else await this.#pulledTasks.giveBack(tasks)
      return claim
    } finally {
      if (claim === null) this.#claimer.unanswered(sent)
      this.#startRate.release(Math.max(0, starts - tasks.length))
      if (admitted.length < tasks.length) this.#dropAllBut(new Set(admitted), tasks)
      if (reservation !== null) this.#deliver(reservation, admitted)
    }
  }

  look(cell: number): Promise<Look> {
    return this.#parts.store.look({ topic: this.#parts.topic, cell })
  }

  foundByLook(count: number): void {
    this.#reporter.caught('look', count)
  }

  /** Does nothing: `#deliver` calls the waiting pullers after each claim. */
  passOn(): void {}

  onError(error: unknown): void {
    this.#reporter.callFailed('claim', error)
  }

  /**
   * Adds tasks to their pull. Gives back the tasks that the pull cannot take, because it is closed or has too little
   * capacity.
   */
  #deliver({ pull, from, reserved }: PullReservation, tasks: Pulled[]): void {
    // A repeated claim may return more tasks than this claim reserved.
    const taken = pull.isClosed ? [] : tasks.slice(0, reserved)
    this.#pulledTasks.giveBackSoon(tasks.slice(taken.length))
    pull.release(reserved, taken)
    // A suspect must be the only task of its answer.
    if (pull.capacity === 0 || (from === 'suspects' && taken.length > 0)) pull.close()
    else this.#answerSoon(pull)
    this.#callWaitingPullers()
  }

  /** Releases the starts of the tasks that are not handed out. */
  #dropAllBut(admitted: ReadonlySet<Pulled>, tasks: readonly Pulled[]): void {
    for (const task of tasks) if (!admitted.has(task)) this.#startRate.drop(task)
  }

  #mayClaim(): boolean {
    return !this.#isStopped && !this.#parts.paused()
  }

  #nextStartMs(): number {
    return Math.max(this.#parts.clock.monotonicNow(), this.#startRate.nextMs())
  }

  #firstEmpty(): PendingPull | undefined {
    return this.#mayClaim() ? [...this.#pulls].find(({ isEmpty }) => isEmpty) : undefined
  }

  #firstWithCapacity(): PendingPull | undefined {
    for (const pull of this.#pulls) if (pull.capacity > 0) return pull
    return undefined
  }

  #callWaitingPullers(): void {
    const waiting = [...this.#waitingPullers]
    this.#waitingPullers.clear()
    for (const call of waiting) call()
  }

  #open(): void {
    this.#callOffIdle()
    if (this.#pullers.length > 0) return
    const { clock, store, topic } = this.#parts
    this.#pullers = Array.from(
      { length: PULLERS },
      (_, slot) => new Puller(clock, this, cellsOfSlot(slot, PULLERS), store.lookMs),
    )
    this.#unwatch = store.watch(topic, {
      wake: (cell, ...ring) => this.#pullers[cell % PULLERS]?.wake(cell, ...ring),
      // The client that holds the task is not in this process, so no handler can be aborted. If the task was replaced,
      // the client's settle is answered with 'stale'.
      fence: () => {},
      limit: () => {},
      missed: () => this.reconfigure(),
    })
    store.features.pulls(topic, ALL_CELLS)
    for (const puller of this.#pullers) puller.start()
  }

  /**
   * Answers a complete pull one turn of the event loop later. In that turn, pullers may start claims for more tasks
   * with the same ring time. Then the pull is no longer complete, and is answered after these claims.
   */
  #answerSoon(pull: PendingPull): void {
    if (!pull.isComplete) return
    void this.#parts.clock.turn().then(() => {
      if (pull.isComplete) pull.close()
    })
  }

  #closeWhenIdle(): void {
    this.#callOffIdle()
    this.#callOffIdle = this.#parts.clock.after(IDLE_MS, () => void this.#close(), true)
  }

  async #close(): Promise<void> {
    const pullers = this.#pullers
    this.#pullers = []
    this.#waitingPullers.clear()
    this.#unwatch()
    this.#unwatch = () => {}
    await Promise.all(pullers.map((puller) => puller.stop()))
  }
}

/** A claim with this limit takes no tasks. It only makes tasks with expired leases available again. */
const NO_TASKS = { limit: 0, from: 'lanes' } as const
