import type { Clock } from '../clock.ts'
import { lateOutcome } from '../consume/admission.ts'
import type { AnsweredClaim, ClaimSource } from '../consume/claimer.ts'
import type { Reporter } from '../consume/reporter.ts'
import type { RatedTask, StartRate } from '../consume/start-rate.ts'
import { groupBy } from '../lib/group-by.ts'
import type { TaskStore } from '../store.ts'
import type { CellAddress, ClaimedTask, SettleOutcome } from '../timetable.ts'
import type { Settings } from '../values/config.ts'

/** A task that was claimed for a pending pull, with the fields of its token. */
export interface Pulled extends RatedTask {
  readonly entry: ClaimedTask
  readonly cell: number
  readonly stamp: number
  readonly req: string
  /** The time of the timetable's clock when the task was claimed. */
  readonly firedMs: number
  /** The end of the lease on the timetable's clock. */
  readonly leaseUntilMs: number
  /** The monotonic time when the claim was first sent. No other process has the task before `sentMs + leaseMs`. */
  readonly sentMs: number
  readonly leaseMs: number
}

export interface PulledTasksParts {
  readonly topic: string
  readonly store: TaskStore
  readonly clock: Clock
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
}

/**
 * A task is given back if more than this part of its lease has passed before it is handed out, because the rest of the
 * lease is too short for the client.
 */
const SPENT_SHARE = 0.5

/**
 * Tasks that are claimed for clients and not handed out yet. Hands out the tasks that may start, and settles or gives
 * back all other tasks.
 */
export class PulledTasks {
  readonly #parts: PulledTasksParts
  readonly #startRate: StartRate
  readonly #reporter: Reporter
  /** Calls under way that give tasks back and that no pull waits for. */
  readonly #givingBack = new Set<Promise<void>>()

  constructor(parts: PulledTasksParts, startRate: StartRate, reporter: Reporter) {
    this.#parts = parts
    this.#startRate = startRate
    this.#reporter = reporter
  }

  /** Returns the tasks of a claim. */
  of({ at, request, sentMs, claim }: AnsweredClaim): Pulled[] {
    const { cell } = at
    const { req, leaseMs } = request
    const { stamp, nowMs: firedMs } = claim
    // For a repeated claim, a part of the lease has passed already.
    const leaseUntilMs = firedMs + leaseMs - Math.ceil(this.#parts.clock.monotonicNow() - sentMs)
    const common = { cell, stamp, req, firedMs, leaseUntilMs, sentMs, leaseMs }
    return claim.tasks.map((entry) => ({ entry, ...common, hasStart: false }))
  }

  /**
   * Returns the tasks of one claim that may be handed out. Gives back the whole claim if too much of its lease has
   * passed. Settles the tasks that are too late for the topic's `late` policy. Leaves out a suspect that the claim no
   * longer holds.
   */
  async admit(at: CellAddress, tasks: readonly Pulled[], from: ClaimSource): Promise<Pulled[]> {
    if (tasks.some((task) => this.#isSpent(task))) {
      await this.giveBack(tasks)
      return []
    }
    const inTime = await this.#settleLate(at, tasks)
    const admitted = from === 'suspects' ? await this.#begun(at, inTime) : inTime
    await this.#handOut(at, admitted)
    return admitted
  }

  /**
   * Called when tasks are handed out. Returns the tasks that start now, and gives back the others: those whose leases
   * have too little time left for the client, because a pull waits for all its claims, and those whose start the topic's
   * rate does not allow any more.
   */
  start(tasks: readonly Pulled[]): Pulled[] {
    const started: Pulled[] = []
    const others: Pulled[] = []
    for (const task of tasks)
      (!this.#isSpent(task) && this.#startRate.start(task) ? started : others).push(task)
    this.giveBackSoon(others)
    for (const { entry, firedMs } of started) {
      this.#reporter.fired(firedMs - entry.ringMs)
      this.#reporter.checkLateness(entry, firedMs - entry.ringMs)
    }
    return started
  }

  /**
   * Gives tasks back to the timetable, which does not count their deliveries. Never rejects: if the call fails, the
   * tasks are due again when their leases expire.
   */
  async giveBack(tasks: readonly Pulled[]): Promise<void> {
    const { store, topic } = this.#parts
    const outcome = { kind: 'return' } as const
    for (const task of tasks) this.#startRate.drop(task)
    await Promise.all(
      [...groupBy(tasks, ({ cell }) => cell)].map(([cell, some]) =>
        store
          .settle(
            { topic, cell },
            some.map(({ entry, stamp }) => ({ key: entry.key, stamp, outcome })),
          )
          .catch((error: unknown) => this.#reporter.callFailed('settle', error)),
      ),
    )
  }

  giveBackSoon(tasks: readonly Pulled[]): void {
    if (tasks.length === 0) return
    const done = this.giveBack(tasks).finally(() => this.#givingBack.delete(done))
    this.#givingBack.add(done)
  }

  /** Resolves when all calls under way that give tasks back have ended. */
  async givenBack(): Promise<void> {
    await Promise.all(this.#givingBack)
  }

  #isSpent({ sentMs, leaseMs }: Pulled): boolean {
    return this.#parts.clock.monotonicNow() - sentMs > leaseMs * SPENT_SHARE
  }

  /** Settles the tasks that the topic's `late` policy ends, and returns all other tasks. */
  async #settleLate(at: CellAddress, tasks: readonly Pulled[]): Promise<Pulled[]> {
    const { store, settings } = this.#parts
    const { late } = settings()
    const inTime: Pulled[] = []
    const tooLate: { readonly task: Pulled; readonly outcome: SettleOutcome }[] = []
    for (const task of tasks) {
      const outcome = lateOutcome(late, task.firedMs - task.entry.ringMs)
      if (outcome === null) inTime.push(task)
      else tooLate.push({ task, outcome })
    }
    if (tooLate.length === 0) return inTime
    const answers = await store.settle(
      at,
      tooLate.map(({ task, outcome }) => ({ key: task.entry.key, stamp: task.stamp, outcome })),
    )
    for (const [i, { task, outcome }] of tooLate.entries()) {
      if (answers[i] !== 'settled') continue
      this.#reporter.settled(outcome)
      this.#reporter.announce(task.entry, outcome)
    }
    return inTime
  }

  /**
   * Records the start of a suspect before it is handed out. A lost lease is blamed only on a task whose start is
   * recorded. Returns no task if the claim no longer holds the suspect.
   */
  async #begun(at: CellAddress, tasks: Pulled[]): Promise<Pulled[]> {
    const [suspect] = tasks
    if (suspect === undefined) return []
    return (await this.#parts.store.begin(at, suspect.entry.key, suspect.stamp)) ? tasks : []
  }

  /** Tells the store that clients now have these tasks. The claim request must not be retried afterwards. */
  async #handOut(at: CellAddress, tasks: readonly Pulled[]): Promise<void> {
    const [first] = tasks
    if (first === undefined) return
    const keys = tasks.map(({ entry }) => entry.key)
    await this.#parts.store.features.handOut(at, first.stamp, keys)
  }
}
