/**
 * Takes claimed tasks to their outcomes:
 *
 *   admission (ours? late? payload fits?) ──▶ guard ──▶ handler ──▶ verdict ──▶ settler
 *
 * 'The handler failed' and 'recording it failed' meet nowhere: a performer turns whatever the user's code does into
 * a verdict, and the settler alone deals with a store that fails.
 */
import { type Clock, sleep } from '../clock.ts'
import type { Settings } from '../values/config.ts'
import { durationText } from '../values/duration.ts'
import { TocsinError } from '../errors.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Random } from '../random.ts'
import type { Decoded } from '../values/schema.ts'
import type { Task } from '../task.ts'
import type { SettleAnswer, SettleOutcome } from '../timetable.ts'
import type { TaskStore, Transact } from '../store.ts'
import { type Admitted, isTrusted, lateOutcome, taskFor } from './admission.ts'
import type { Call } from './handler-call.ts'
import { Calls } from './handler-calls.ts'
import type { HeldClaim, HeldTask } from './held.ts'
import type { Performer } from './performer.ts'
import { Renewer } from './renewer.ts'
import type { Reporter } from './reporter.ts'
import type { Capacity } from './capacity.ts'
import { Settler } from './settler.ts'
import { failure, settleOutcomeOf, type Verdict } from './verdict.ts'

export interface WorkerParts<Out> {
  readonly topic: string
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  /** In force right now. */
  readonly settings: () => Settings
  readonly decode: (body: string) => Decoded<Out> | Promise<Decoded<Out>>
  readonly performer: Performer<Out>
  /** Asked before the performer, about many tasks at once. */
  readonly guard: Performer<Out> | null
  /** A batch handler gets many tasks per call, any other one. */
  readonly batched: boolean
  /** What the handler writes and the outcomes of its tasks are one transaction. */
  readonly isTransactional: boolean
}

/** Stopping that takes longer than this says what it waits for. */
const SAID_AFTER_MS = 1_000

export class Worker<Out> {
  readonly #parts: WorkerParts<Out>
  readonly #capacity: Capacity
  readonly #onProgress: () => void
  readonly #calls: Calls
  readonly #settler: Settler
  readonly #renewer: Renewer
  readonly #reporter: Reporter
  /** Held claims by cell and stamp, so that a fence finds its task. */
  readonly #claims = new Map<string, HeldClaim>()
  #whenQuiet: (() => void) | null = null
  #stopped = false
  /** Those that wait for a connection need not wait any more. */
  readonly #stopping = new AbortController()
  /** Tasks whose handlers answered in time. */
  finishedCount = 0
  /** Outcomes that came too late to count: the claim was not ours any more. */
  staleCount = 0

  /** `onProgress`: a place became free. */
  constructor(parts: WorkerParts<Out>, capacity: Capacity, reporter: Reporter, onProgress: () => void) {
    this.#parts = parts
    this.#capacity = capacity
    this.#onProgress = onProgress
    const { store, clock, logger, settings } = parts
    this.#reporter = reporter
    const failed = (doing: string) => (error: unknown) => reporter.callFailed(doing, error)
    this.#calls = new Calls(
      clock,
      capacity,
      logger,
      () => settings().timeoutMs,
      (tasks, timeoutMs) => this.#timedOut(tasks, timeoutMs),
    )
    this.#settler = new Settler(store, clock, (...settled) => this.#settled(...settled), failed('settle'))
    this.#renewer = new Renewer(
      store,
      clock,
      () => settings().leaseMs,
      (claim) => this.#lost(claim),
      failed('extend'),
    )
  }

  /** Tasks in our hands: claimed, and no outcome recorded yet. */
  get inFlightCount(): number {
    return [...this.#claims.values()].reduce((sum, { open }) => sum + open, 0)
  }

  /** From now on its lease is kept, until each of its tasks is settled. */
  hold(claim: HeldClaim): void {
    this.#renewer.add(claim)
    this.#claims.set(nameOf(claim.at.cell, claim.stamp), claim)
  }

  /** Extends what is due for it, without waiting for the timer. */
  renew(): void {
    this.#renewer.step()
  }

  /** The common case, short: one task, no guard, and a payload that needs no waiting for. */
  startOne(held: HeldTask): void {
    const admission = this.#admit(held)
    if (admission instanceof Promise) void this.#startLater(admission)
    else if (admission !== null) void this.#call(this.#parts.performer, [admission])
  }

  /** Any number of tasks, guard first. Never rejects. */
  async perform(batch: readonly HeldTask[]): Promise<void> {
    const { guard, performer, batched } = this.#parts
    const places = batched ? 1 : batch.length
    this.#capacity.occupy(places)
    const admitted: Admitted<Out>[] = []
    const later: Promise<Admitted<Out> | null>[] = []
    for (const held of batch) {
      const admission = this.#admit(held)
      if (admission instanceof Promise) later.push(admission)
      else if (admission !== null) admitted.push(admission)
    }
    // Payloads that need waiting for are waited for together.
    if (later.length > 0) admitted.push(...(await Promise.all(later)).filter((one) => one !== null))
    const asked = guard === null || admitted.length === 0 ? admitted : await this.#ask(guard, admitted)
    const wanted = asked.filter((one) => this.#isStillOurs(one))
    this.#capacity.vacate(places)
    if (!batched) await Promise.all(wanted.map((one) => this.#call(performer, [one])))
    else if (wanted.length > 0) await this.#call(performer, wanted)
    this.progress()
  }

  /** It was not started: back to where it was. */
  giveBack(held: HeldTask): void {
    this.#conclude(held, { kind: 'return' })
  }

  /** Somebody cancelled or replaced a task that we hold. */
  fence(cell: number, key: string, stamp: number, cause: 'cancelled' | 'replaced'): void {
    const held = this.#heldTask(cell, key, stamp)
    // What its outcome is recorded as will tell: a lease in doubt is no reason to keep silent about it.
    if (held === undefined || (held.ended && cause === 'replaced')) return
    held.fenced = true
    held.call?.fence(held, cause === 'cancelled' ? 'cancelled' : 'lease-lost')
  }

  /** Its lease ends before that of the others of its claim. */
  limit(cell: number, key: string, stamp: number, endMs: number | null): void {
    const held = this.#heldTask(cell, key, stamp)
    if (held !== undefined) held.trustedUntilMs = endMs ?? Number.POSITIVE_INFINITY
  }

  /** Resolves when no handler runs any more, or after `timeoutMs`. */
  async quiet(timeoutMs: number): Promise<void> {
    if (this.#capacity.isIdle) return
    const { clock, logger, topic } = this.#parts
    const enough = new AbortController()
    this.#whenQuiet = () => enough.abort()
    await sleep(clock, Math.min(SAID_AFTER_MS, timeoutMs), enough.signal)
    if (!enough.signal.aborted && timeoutMs > SAID_AFTER_MS) {
      const message = 'stopping waits for running handlers; a handler must not await stop() or close()'
      logger.warn({ topic, handlers: this.#calls.count, timeoutMs }, message)
      await sleep(clock, timeoutMs - SAID_AFTER_MS, enough.signal)
    }
    this.#whenQuiet = null
  }

  /** What still runs is told to end and given to somebody else, without a failure. Then every outcome is recorded. */
  async stop(): Promise<{ released: number }> {
    this.#stopped = true
    this.#stopping.abort()
    let released = 0
    for (const call of this.#calls.abandonAll()) {
      call.abort('closed')
      released += call.tasks.filter((held) => !held.ended).length
      for (const held of call.tasks) this.#conclude(held, { kind: 'snooze', delayMs: 0 })
    }
    // Leases first: a store that records no outcome is tried for as long as they last, not for ever.
    await this.#renewer.stop()
    await this.#settler.drained()
    return { released }
  }

  async #startLater(admission: Promise<Admitted<Out> | null>): Promise<void> {
    this.#capacity.occupy(1)
    const admitted = await admission
    this.#capacity.vacate(1)
    if (admitted === null || !this.#isStillOurs(admitted)) this.progress()
    else await this.#call(this.#parts.performer, [admitted])
  }

  /** What the guard lets through. Its tasks hold their places already. */
  async #ask(guard: Performer<Out>, admitted: readonly Admitted<Out>[]): Promise<Admitted<Out>[]> {
    if (this.#stopped) {
      for (const { held } of admitted) this.giveBack(held)
      return []
    }
    const call = this.#calls.open(admitted.map(heldOf), 0)
    const verdicts = await call.orAbandoned(guard(admitted.map(taskOf), call.context))
    if (verdicts === null || !this.#calls.end(call)) return []
    return admitted.filter(({ held }, i) => {
      const verdict = verdicts[i] as Verdict
      if (verdict.kind !== 'done') this.#judge(held, verdict)
      return !held.ended
    })
  }

  async #call(performer: Performer<Out>, admitted: readonly Admitted<Out>[]): Promise<void> {
    // A payload or a guard that answered after the end of everything: nothing may start any more.
    if (this.#stopped) return admitted.forEach(({ held }) => this.giveBack(held))
    if (this.#parts.isTransactional) return this.#callWithin(performer, admitted)
    const call = this.#calls.open(admitted.map(heldOf), 1)
    const verdicts = await performer(admitted.map(taskOf), call.context)
    if (!this.#calls.end(call)) return
    this.finishedCount += admitted.length
    for (const [i, { held }] of admitted.entries()) this.#judge(held, verdicts[i] as Verdict)
    this.progress()
  }

  /** Where the transaction does not come to its commit, it is as if the handler had not been called. */
  async #callWithin(performer: Performer<Out>, admitted: readonly Admitted<Out>[]): Promise<void> {
    const { store, settings, random, topic } = this.#parts
    const tasks = admitted.map(({ held }) => held)
    const held = tasks.map(({ claim, entry }) => ({
      key: entry.key,
      cell: claim.at.cell,
      stamp: claim.stamp,
    }))
    // While it waits for a connection it has its place, but its time does not run.
    this.#capacity.occupy(1)
    let call: Call | null = null
    let verdicts: readonly Verdict[] = []
    let outcomes: SettleOutcome[] = []
    const work: Parameters<Transact>[2] = async (tx, settle) => {
      const mine = admitted.filter((one) => this.#isStillOurs(one))
      if (this.#stopped || mine.length < admitted.length) return false
      this.#capacity.vacate(1)
      call = this.#calls.open(tasks, 1)
      const answered = await call.orAbandoned(performer(admitted.map(taskOf), call.within(tx)))
      verdicts = answered ?? []
      // One that threw may have left its writes half done: they are undone, and those of the others with them.
      if (answered === null || verdicts.some(isThrown)) return false
      outcomes = tasks.map(({ entry }, i) =>
        settleOutcomeOf(verdicts[i] as Verdict, entry.failures, settings().retry, random.fraction()),
      )
      const answers = await settle(held.map((one, i) => ({ ...one, outcome: outcomes[i] as SettleOutcome })))
      return answers.every((answer) => answer === 'settled')
    }
    let isCommitted = false
    let trouble: Verdict | null = null
    try {
      isCommitted = (await store.ledger?.transact?.(topic, held, work, this.#stopping.signal)) ?? false
    } catch (error) {
      const isOurs = TocsinError.is(error) && error.retryable
      if (isOurs) this.#reporter.callFailed('transaction', error)
      trouble = isOurs ? UNDONE : failure(error)
    }
    if (call === null) this.#capacity.vacate(1)
    else if (!this.#calls.end(call)) return
    this.finishedCount += call === null ? 0 : tasks.length
    for (const [i, task] of tasks.entries()) {
      const verdict = verdicts[i] ?? null
      if (isCommitted) this.#recorded(task, outcomes[i] as SettleOutcome)
      else if (verdict !== null && isThrown(verdict)) this.#judge(task, verdict)
      else if (trouble !== null) this.#judge(task, trouble)
      // Another one of the batch threw, or was lost: this one comes again at once.
      else this.giveBack(task)
    }
    this.progress()
  }

  /** Its outcome was recorded in the handler's own transaction. */
  #recorded(held: HeldTask, outcome: SettleOutcome): void {
    if (held.ended) return
    held.ended = true
    held.call = null
    this.#settled(held, outcome, 'settled')
  }

  /** Null: not to be started, and dealt with. */
  #admit(held: HeldTask): Admitted<Out> | null | Promise<Admitted<Out> | null> {
    const { clock, settings, decode, topic } = this.#parts
    const { leaseMs, late } = settings()
    const nowMs = clock.monotonicNow()
    // Past its lease the task may be somebody else's: then giving it back is stale and changes nothing. Cancelled or
    // replaced while it waited here, it need not start at all.
    if (held.fenced || !isTrusted(held, leaseMs, nowMs)) return this.#conclude(held, { kind: 'return' })
    const firedMs = held.claim.recordMs(nowMs)
    const behindMs = firedMs - held.entry.ringMs
    const tooLate = lateOutcome(late, behindMs)
    if (tooLate !== null) return this.#conclude(held, tooLate)
    this.#reporter.checkLateness(held.entry, behindMs)
    const admit = (decoded: Decoded<Out>) => {
      if ('problem' in decoded)
        return this.#conclude(held, { kind: 'dead', cause: 'payload', error: decoded.problem, failed: false })
      this.#reporter.fired(behindMs)
      return { held, task: taskFor(topic, held, decoded.payload, firedMs) }
    }
    const decoded = decode(held.entry.body)
    if (!(decoded instanceof Promise)) return admit(decoded)
    // A schema that takes its time is under the handler's timeout.
    const call = this.#calls.open([held], 0)
    return call
      .orAbandoned(decoded)
      .then((result) => (result === null || !this.#calls.end(call) ? null : admit(result)))
  }

  /** Asked again after a schema or a guard took its time: meanwhile the lease may be over, or the task cancelled. */
  #isStillOurs({ held }: Admitted<Out>): boolean {
    const { clock, settings } = this.#parts
    if (!held.fenced && isTrusted(held, settings().leaseMs, clock.monotonicNow())) return true
    this.#conclude(held, { kind: 'return' })
    return false
  }

  #judge(held: HeldTask, verdict: Verdict): void {
    const { settings, random } = this.#parts
    if (verdict.kind === 'failed') this.#reporter.attemptFailed(held.entry, verdict)
    this.#conclude(held, settleOutcomeOf(verdict, held.entry.failures, settings().retry, random.fraction()))
  }

  #conclude(held: HeldTask, outcome: SettleOutcome): null {
    // Timed out or released meanwhile: that was its outcome, and there is only one.
    if (held.ended) return null
    held.ended = true
    held.call = null
    this.#settler.add(held, outcome)
    this.#capacity.unrecorded = this.#settler.backlog
    return null
  }

  #settled(held: HeldTask, outcome: SettleOutcome, answer: SettleAnswer): void {
    this.#forget(held)
    this.#capacity.unrecorded = this.#settler.backlog
    if (answer === 'stale') this.staleCount++
    else {
      this.#reporter.settled(outcome)
      // A task that was cancelled while it ran ends here: its retry will not happen.
      if (outcome.kind !== 'retry' || !held.fenced) this.#reporter.announce(held.entry, outcome)
    }
    this.#capacity.offer()
  }

  #heldTask(cell: number, key: string, stamp: number): HeldTask | undefined {
    return this.#claims.get(nameOf(cell, stamp))?.tasks.find((task) => task.entry.key === key)
  }

  #forget({ claim }: HeldTask): void {
    if (--claim.open > 0) return
    this.#renewer.remove(claim)
    this.#claims.delete(nameOf(claim.at.cell, claim.stamp))
  }

  #timedOut(tasks: readonly HeldTask[], timeoutMs: number): void {
    const error = `timeout: the handler ran longer than ${durationText(timeoutMs)}`
    for (const held of tasks) this.#judge(held, { kind: 'failed', delayMs: null, error })
    this.progress()
  }

  /** The store does not know the claim any more. Handlers hear of it; what they answer will be found stale. */
  #lost(claim: HeldClaim): void {
    claim.trustedUntilMs = Number.NEGATIVE_INFINITY
    for (const held of claim.tasks) held.call?.fence(held, 'lease-lost')
  }

  /** A place became free: work goes on, and whoever waits for quiet may be told. */
  progress(): void {
    this.#onProgress()
    if (this.#capacity.isIdle) this.#whenQuiet?.()
  }
}

/** After the ledger failed under a handler, it is called again after so long; that is no failure of its own. */
const UNDONE: Verdict = { kind: 'snooze', delayMs: 1_000 }

/** What was thrown, not what was answered: `{ retry }` is an outcome like any other. */
function isThrown(verdict: Verdict): boolean {
  return verdict.kind === 'failed' && verdict.delayMs === null
}

function nameOf(cell: number, stamp: number): string {
  return `${cell}/${stamp}`
}

function heldOf<Out>({ held }: Admitted<Out>): HeldTask {
  return held
}

function taskOf<Out>({ task }: Admitted<Out>): Task<Out> {
  return task
}
