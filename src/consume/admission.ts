/**
 * The checks before a handler starts: Does the claim still hold the task? Is the task too late? Does its payload fit
 * the schema?
 */
import type { Clock } from '../clock.ts'
import type { Task } from '../task.ts'
import type { SettleOutcome } from '../timetable.ts'
import type { Settings } from '../values/config.ts'
import { durationText } from '../values/duration.ts'
import type { Decoded } from '../values/schema.ts'
import type { HandlerCalls } from './handler-calls.ts'
import type { HeldTask } from './held.ts'
import type { HeldTasks } from './held-tasks.ts'
import type { Reporter } from './reporter.ts'

export interface AdmissionParts<Out> {
  readonly topic: string
  readonly clock: Clock
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
  readonly decode: (body: string) => Decoded<Out> | Promise<Decoded<Out>>
  /** True if each call of the handler gets a batch of tasks, false if it gets one task. */
  readonly batched: boolean
}

/** A task that may start, and the argument of its handler. */
export interface Admitted<Out> {
  readonly held: HeldTask
  readonly task: Task<Out>
}

/**
 * No handler starts within a margin before the end of a lease. The margin is a tenth of the lease, but at most this
 * long.
 */
const MARGIN_MS_MAX = 1_000

export class Admission<Out> {
  readonly #parts: AdmissionParts<Out>
  readonly #heldTasks: HeldTasks
  readonly #calls: HandlerCalls
  readonly #reporter: Reporter

  constructor(parts: AdmissionParts<Out>, heldTasks: HeldTasks, calls: HandlerCalls, reporter: Reporter) {
    this.#parts = parts
    this.#heldTasks = heldTasks
    this.#calls = calls
    this.#reporter = reporter
  }

  /**
   * Checks a task before its handler starts. Returns the argument of the handler. Returns null if the task must not
   * start: then its outcome is decided already. Returns a promise only if the schema is async.
   */
  admit(held: HeldTask): Admitted<Out> | null | Promise<Admitted<Out> | null> {
    const { clock, settings, decode, batched } = this.#parts
    const { leaseMs, lingerMs, late } = settings()
    const nowMs = clock.monotonicNow()
    if (!isOurs(held, leaseMs, nowMs)) return this.#refuse(held, { kind: 'return' })
    const firedMs = held.claim.recordMs(nowMs)
    const behindMs = firedMs - held.entry.ringMs
    // The `late` policy is about tasks that were claimed late. The agreed wait for the other tasks of a batch is not late.
    const gatheredMs = batched ? Math.min(lingerMs, nowMs - held.claim.answeredMs) : 0
    const tooLate = lateOutcome(late, behindMs - gatheredMs)
    if (tooLate !== null) return this.#refuse(held, tooLate)
    this.#reporter.checkLateness(held.entry, behindMs)
    const decoded = decode(held.entry.body)
    if (!(decoded instanceof Promise)) return this.#admitDecoded(held, decoded, firedMs)
    // An async schema runs under the handler's timeout.
    const call = this.#calls.open([held], 0)
    return call
      .orAbandoned(decoded)
      .then((result) =>
        result === null || !this.#calls.end(call) ? null : this.#admitDecoded(held, result, firedMs),
      )
  }

  /**
   * Checks again that this process holds the task. Callers do so after each await of a schema, a guard or a connection.
   * If the task was cancelled or replaced, or if its lease may have expired, gives the task back and returns false. If
   * another process holds the task by now, giving it back changes nothing: the store answers 'stale'.
   */
  isStillOurs(held: HeldTask): boolean {
    const { clock, settings } = this.#parts
    if (isOurs(held, settings().leaseMs, clock.monotonicNow())) return true
    this.#refuse(held, { kind: 'return' })
    return false
  }

  #admitDecoded(held: HeldTask, decoded: Decoded<Out>, firedMs: number): Admitted<Out> | null {
    if ('problem' in decoded)
      return this.#refuse(held, { kind: 'dead', cause: 'payload', error: decoded.problem, failed: false })
    this.#reporter.fired(firedMs - held.entry.ringMs)
    return { held, task: taskFor(this.#parts.topic, held, decoded.payload, firedMs) }
  }

  #refuse(held: HeldTask, outcome: SettleOutcome): null {
    this.#heldTasks.conclude(held, outcome)
    return null
  }
}

/**
 * Returns whether this process may still run the task. This check stops a process that was suspended, or whose event
 * loop was blocked, from running tasks that it lost. Returns false if the task was cancelled or replaced, or if its
 * lease has expired or is about to expire: another process may then claim the task. The lease is counted from before
 * the claim was sent, so for this process it never ends later than for the store.
 */
function isOurs({ claim, trustedUntilMs, isFenced }: HeldTask, leaseMs: number, nowMs: number): boolean {
  if (isFenced) return false
  const untilMs = Math.min(claim.trustedUntilMs, trustedUntilMs)
  return nowMs < untilMs - Math.min(leaseMs / 10, MARGIN_MS_MAX)
}

/**
 * Applies the topic's `late` policy to a task that should have rung `behindMs` ago. Returns null if the task must fire.
 */
export function lateOutcome(late: Settings['late'], behindMs: number): SettleOutcome | null {
  if (late === null || late.then === 'fire' || behindMs <= late.afterMs) return null
  if (late.then === 'drop') return { kind: 'obsolete' }
  return {
    kind: 'dead',
    cause: 'late',
    error: `found ${durationText(behindMs)} after its time`,
    failed: false,
  }
}

function taskFor<Out>(topic: string, { entry }: HeldTask, payload: Out, firedMs: number): Task<Out> {
  return {
    id: entry.id,
    topic,
    key: entry.key,
    payload,
    dueAt: new Date(entry.dueMs),
    latenessMs: Math.max(0, firedMs - entry.dueMs),
    attempt: entry.failures + 1,
    deliveries: entry.deliveries,
    tags: entry.tags,
    priority: entry.priority,
  }
}
