import { TocsinError } from '../errors.ts'
import type { HeldPlace } from '../ledger.ts'
import type { Random } from '../random.ts'
import type { TaskStore, Transact } from '../store.ts'
import type { SettleOutcome } from '../timetable.ts'
import type { Settings } from '../values/config.ts'
import type { Admission, Admitted } from './admission.ts'
import type { Capacity } from './capacity.ts'
import type { HandlerCall } from './handler-call.ts'
import type { HandlerCalls } from './handler-calls.ts'
import type { HeldTask } from './held.ts'
import type { HeldTasks } from './held-tasks.ts'
import type { Performer } from './performer.ts'
import type { Reporter } from './reporter.ts'
import type { StartRate } from './start-rate.ts'
import { failure, settleOutcomeOf, type Verdict } from './verdict.ts'

export interface TransactionalCallParts<Out> {
  readonly topic: string
  readonly store: TaskStore
  readonly random: Random
  readonly performer: Performer<Out>
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
}

/** The objects of a consumer that a call works with. */
export interface TransactionalCallHost<Out> {
  readonly capacity: Capacity
  readonly startRate: StartRate
  readonly calls: HandlerCalls
  readonly admission: Admission<Out>
  readonly heldTasks: HeldTasks
  readonly reporter: Reporter
  /**
   * Aborted when the consumer stops and has waited for running handlers. Calls that still wait for a connection then
   * end without calling the handler.
   */
  readonly stopping: AbortSignal
}

type Work = Parameters<Transact>[2]

/** The verdict if the ledger failed during a handler call: the task rings again after this delay, without a failure. */
const LEDGER_FAILED: Verdict = { kind: 'snooze', delayMs: 1_000 }

/**
 * One call of a handler with `transaction: true`. The handler's writes and the outcomes of its tasks commit in one
 * transaction.
 *
 *   wait for a connection ──▶ BEGIN ──▶ handler ──▶ settle its tasks ──▶ COMMIT
 *                                          └─ a task threw, timed out or was lost ──▶ ROLLBACK
 *
 * A rollback undoes the writes of all tasks of the call. A task that threw or timed out has failed. The other tasks of
 * the call did not fail, and are delivered again. An error of the transaction itself is judged by `#verdictOfError`.
 */
export class TransactionalCall<Out> {
  readonly #parts: TransactionalCallParts<Out>
  readonly #host: TransactionalCallHost<Out>
  readonly #admitted: readonly Admitted<Out>[]
  readonly #tasks: readonly HeldTask[]
  readonly #places: readonly HeldPlace[]
  /** Null until the call has a connection. */
  #call: HandlerCall | null = null
  #verdicts: readonly Verdict[] = []
  #outcomes: readonly SettleOutcome[] = []

  constructor(
    parts: TransactionalCallParts<Out>,
    host: TransactionalCallHost<Out>,
    admitted: readonly Admitted<Out>[],
  ) {
    this.#parts = parts
    this.#host = host
    this.#admitted = admitted
    this.#tasks = admitted.map(({ held }) => held)
    this.#places = this.#tasks.map(({ claim, entry }) => ({
      key: entry.key,
      cell: claim.at.cell,
      stamp: claim.stamp,
    }))
  }

  /**
   * Runs the call, decides the outcomes of its tasks, and resolves with true. Resolves with false if the call was
   * abandoned after a timeout or a stop: then its tasks already have their outcomes. Never rejects.
   */
  async run(): Promise<boolean> {
    const { store, topic } = this.#parts
    const { capacity, calls, stopping } = this.#host
    // A call that waits for a connection takes a permit, but its timeout has not started.
    capacity.acquire(1)
    let isCommitted = false
    let failed: Verdict | null = null
    try {
      isCommitted = await store.features.handlerTransactions()(topic, this.#places, this.#work, stopping)
    } catch (error) {
      failed = this.#verdictOfError(error)
    }
    if (this.#call === null) capacity.release(1)
    else if (!calls.end(this.#call)) return false
    this.#conclude(isCommitted, failed)
    return true
  }

  /** Runs inside the transaction. Resolves with true to commit, and with false to roll back. */
  readonly #work: Work = async (tx, settle) => {
    const { capacity, startRate, calls, admission, stopping } = this.#host
    const ours = this.#tasks.filter((held) => admission.isStillOurs(held))
    if (stopping.aborted || ours.length < this.#tasks.length) return false
    // If the rate does not allow all starts now, all tasks are given back.
    if (!this.#tasks.every((held) => startRate.start(held))) return false
    capacity.release(1)
    this.#call = calls.open(this.#tasks, 1)
    const tasks = this.#admitted.map(({ task }) => task)
    const answer = this.#parts.performer(tasks, this.#call.within(tx))
    startRate.started(tasks.length)
    const answered = await this.#call.orAbandoned(answer)
    this.#verdicts = answered ?? []
    // A task that threw may have left its writes half done. Roll back the whole transaction, including the writes of
    // other tasks.
    if (answered === null || this.#verdicts.some(isThrown)) return false
    this.#outcomes = this.#tasks.map((held, i) => this.#outcomeOf(held, answered[i] as Verdict))
    const answers = await settle(
      this.#places.map((place, i) => ({ ...place, outcome: this.#outcomes[i] as SettleOutcome })),
    )
    return answers.every((answer) => answer === 'settled')
  }

  #outcomeOf({ entry }: HeldTask, verdict: Verdict): SettleOutcome {
    const { settings, random } = this.#parts
    return settleOutcomeOf(verdict, entry.failures, settings().retry, random.fraction())
  }

  /**
   * Returns the verdict for an error of the transaction itself; errors of the handler are verdicts already. A retryable
   * error, such as an unreachable ledger, is no failure of the handler. Any other error is: for example, a statement of
   * the handler failed, so PostgreSQL did not commit.
   */
  #verdictOfError(error: unknown): Verdict {
    if (!TocsinError.is(error) || !error.retryable) return failure(error)
    this.#host.reporter.callFailed('transaction', error)
    return LEDGER_FAILED
  }

  #conclude(isCommitted: boolean, failed: Verdict | null): void {
    const { heldTasks } = this.#host
    for (const [i, held] of this.#tasks.entries()) {
      const verdict = this.#verdicts[i] ?? null
      if (isCommitted) heldTasks.recorded(held, this.#outcomes[i] as SettleOutcome)
      else if (verdict !== null && isThrown(verdict)) heldTasks.judge(held, verdict)
      else if (failed !== null) heldTasks.judge(held, failed)
      // Another task of the batch threw or was lost. This task is delivered again at once.
      else heldTasks.giveBack(held)
    }
  }
}

/**
 * Returns true if the handler threw or returned a value that is not an outcome. Returns false if it returned an
 * outcome, including `{ retry }`, which has a delay and commits like the other outcomes.
 */
function isThrown(verdict: Verdict): boolean {
  return verdict.kind === 'failed' && verdict.delayMs === null
}
