/**
 * Runs claimed tasks until they have a verdict:
 *
 *   admission (held? late? payload fits?) ──▶ guard ──▶ handler ──▶ verdict ──▶ held tasks, which record the outcome
 *
 * The performer wraps the user's code and converts each result and each error into a verdict. So an error of a handler
 * is never mistaken for an error of the store.
 */
import { type Clock, sleep } from '../clock.ts'
import type { Task } from '../task.ts'
import type { Logger } from '../telemetry/logger.ts'
import { durationText } from '../values/duration.ts'
import { Admission, type AdmissionParts, type Admitted } from './admission.ts'
import type { Capacity } from './capacity.ts'
import { HandlerCalls } from './handler-calls.ts'
import type { HeldTask } from './held.ts'
import type { HeldTasks } from './held-tasks.ts'
import type { Performer } from './performer.ts'
import type { Reporter } from './reporter.ts'
import type { StartRate } from './start-rate.ts'
import {
  TransactionalCall,
  type TransactionalCallHost,
  type TransactionalCallParts,
} from './transactional-call.ts'
import type { Verdict } from './verdict.ts'

export interface WorkerParts<Out> extends AdmissionParts<Out>, TransactionalCallParts<Out> {
  readonly clock: Clock
  readonly logger: Logger
  /** Called before the performer, with many tasks at once; null if the consumer has no guard. */
  readonly guard: Performer<Out> | null
  /** True if the handler's writes and the outcomes of its tasks commit in one transaction. */
  readonly isTransactional: boolean
}

/** `quiet` logs a warning if it still waits for handlers after this time. */
const LOGGED_AFTER_MS = 1_000

export class Worker<Out> {
  readonly #parts: WorkerParts<Out>
  readonly #capacity: Capacity
  readonly #startRate: StartRate
  readonly #heldTasks: HeldTasks
  readonly #onProgress: () => void
  readonly #calls: HandlerCalls
  readonly #admission: Admission<Out>
  readonly #host: TransactionalCallHost<Out>
  readonly #stopping = new AbortController()
  #whenQuiet: (() => void) | null = null
  #isStopped = false

  /** Calls `onProgress` whenever a permit became free. */
  constructor(
    parts: WorkerParts<Out>,
    capacity: Capacity,
    startRate: StartRate,
    heldTasks: HeldTasks,
    reporter: Reporter,
    onProgress: () => void,
  ) {
    this.#parts = parts
    this.#capacity = capacity
    this.#startRate = startRate
    this.#heldTasks = heldTasks
    this.#onProgress = onProgress
    const { clock, logger, settings } = parts
    const calls = new HandlerCalls(
      clock,
      capacity,
      logger,
      () => settings().timeoutMs,
      (tasks, timeoutMs) => this.#timedOut(tasks, timeoutMs),
    )
    const admission = new Admission(parts, heldTasks, calls, reporter)
    this.#calls = calls
    this.#admission = admission
    const stopping = this.#stopping.signal
    this.#host = { capacity, startRate, calls, admission, heldTasks, reporter, stopping }
  }

  /** Returns the number of tasks whose handlers answered before their timeout. */
  get finishedCount(): number {
    return this.#calls.finishedCount
  }

  /**
   * Starts one task, for a consumer with neither a guard nor a batch handler. The hot path: the handler is called before
   * `startOne` returns, unless the schema is async or the handler runs in a transaction.
   */
  startOne(held: HeldTask): void {
    const admission = this.#admission.admit(held)
    if (admission instanceof Promise) void this.#startLater(admission)
    else if (admission !== null) void this.#call([admission])
  }

  /** Runs any number of tasks: first the guard, then the handlers. Resolves when the handlers ended. Never rejects. */
  async perform(batch: readonly HeldTask[]): Promise<void> {
    const { guard, batched } = this.#parts
    const permits = batched ? 1 : batch.length
    this.#capacity.acquire(permits)
    const admitted: Admitted<Out>[] = []
    const later: Promise<Admitted<Out> | null>[] = []
    for (const held of batch) {
      const admission = this.#admission.admit(held)
      if (admission instanceof Promise) later.push(admission)
      else if (admission !== null) admitted.push(admission)
    }
    // Await all async schemas together, not one after the other.
    if (later.length > 0) admitted.push(...(await Promise.all(later)).filter((one) => one !== null))
    const guarded = guard === null || admitted.length === 0 ? admitted : await this.#ask(guard, admitted)
    const ours = guarded.filter(({ held }) => this.#admission.isStillOurs(held))
    this.#capacity.release(permits)
    if (!batched) await Promise.all(ours.map((one) => this.#call([one])))
    else if (ours.length > 0) await this.#call(ours)
    this.progress()
  }

  /** Resolves when no handler runs any more, or after `timeoutMs`. */
  async quiet(timeoutMs: number): Promise<void> {
    if (this.#capacity.isIdle) return
    const { clock, logger, topic } = this.#parts
    const quiet = new AbortController()
    this.#whenQuiet = () => quiet.abort()
    await sleep(clock, Math.min(LOGGED_AFTER_MS, timeoutMs), quiet.signal)
    if (!quiet.signal.aborted && timeoutMs > LOGGED_AFTER_MS) {
      const message = 'stopping waits for running handlers; a handler must not await stop() or close()'
      logger.warn({ topic, handlers: this.#calls.count, timeoutMs }, message)
      await sleep(clock, timeoutMs - LOGGED_AFTER_MS, quiet.signal)
    }
    this.#whenQuiet = null
  }

  /** Aborts the handlers that still run. Gives their tasks back without a failure, due at once for another consumer. */
  stop(): { released: number } {
    this.#isStopped = true
    this.#stopping.abort()
    let released = 0
    for (const call of this.#calls.abandonAll()) {
      call.abort('closed')
      released += call.tasks.filter((held) => !held.isEnded).length
      for (const held of call.tasks) this.#heldTasks.conclude(held, { kind: 'snooze', delayMs: 0 })
    }
    return { released }
  }

  /** Called after a permit became free: starts more tasks, or ends the wait in `quiet`. */
  progress(): void {
    this.#onProgress()
    if (this.#capacity.isIdle) this.#whenQuiet?.()
  }

  async #startLater(admission: Promise<Admitted<Out> | null>): Promise<void> {
    this.#capacity.acquire(1)
    const admitted = await admission
    this.#capacity.release(1)
    if (admitted === null || !this.#admission.isStillOurs(admitted.held)) this.progress()
    else await this.#call([admitted])
  }

  /**
   * Calls the guard, and returns the tasks that the guard accepts. The other tasks get their outcomes here. The call of
   * the guard takes 0 permits, because `perform` has taken the permits of these tasks.
   */
  async #ask(guard: Performer<Out>, admitted: readonly Admitted<Out>[]): Promise<Admitted<Out>[]> {
    if (this.#isStopped) {
      for (const { held } of admitted) this.#heldTasks.giveBack(held)
      return []
    }
    const call = this.#calls.open(admitted.map(heldOf), 0)
    const verdicts = await call.orAbandoned(guard(admitted.map(taskOf), call.context))
    if (verdicts === null || !this.#calls.end(call)) return []
    return admitted.filter(({ held }, i) => {
      const verdict = verdicts[i] as Verdict
      if (verdict.kind !== 'done') this.#heldTasks.judge(held, verdict)
      return !held.isEnded
    })
  }

  async #call(admitted: readonly Admitted<Out>[]): Promise<void> {
    // A schema or a guard may answer after `stop`. No handler may start then.
    if (this.#isStopped) return admitted.forEach(({ held }) => this.#heldTasks.giveBack(held))
    if (this.#parts.isTransactional) return this.#callInTransaction(admitted)
    // Most topics have no rate limit: do not copy the tasks for them.
    const starting = this.#startRate.isLimited
      ? admitted.filter(({ held }) => this.#mayStart(held))
      : admitted
    if (starting.length === 0) return this.progress()
    const call = this.#calls.open(starting.map(heldOf), 1)
    const answer = this.#parts.performer(starting.map(taskOf), call.context)
    this.#startRate.started(starting.length)
    const verdicts = await answer
    if (!this.#calls.end(call)) return
    for (const [i, { held }] of starting.entries()) this.#heldTasks.judge(held, verdicts[i] as Verdict)
    this.progress()
  }

  /** Returns false and gives the task back if the topic's rate does not allow its start now. */
  #mayStart(held: HeldTask): boolean {
    if (this.#startRate.start(held)) return true
    this.#heldTasks.giveBack(held)
    return false
  }

  async #callInTransaction(admitted: readonly Admitted<Out>[]): Promise<void> {
    const call = new TransactionalCall(this.#parts, this.#host, admitted)
    if (await call.run()) this.progress()
  }

  #timedOut(tasks: readonly HeldTask[], timeoutMs: number): void {
    const error = `timeout: the handler ran longer than ${durationText(timeoutMs)}`
    for (const held of tasks) this.#heldTasks.judge(held, { kind: 'failed', delayMs: null, error })
    this.progress()
  }
}

function heldOf<Out>({ held }: Admitted<Out>): HeldTask {
  return held
}

function taskOf<Out>({ task }: Admitted<Out>): Task<Out> {
  return task
}
