/** The last look before a handler starts. */
import type { Settings } from '../values/config.ts'
import { durationText } from '../values/duration.ts'
import type { Task } from '../task.ts'
import type { SettleOutcome } from '../timetable.ts'
import type { HeldTask } from './held.ts'

/** A task that passed the last look, with what its handler gets. */
export interface Admitted<Out> {
  readonly held: HeldTask
  readonly task: Task<Out>
}

/** A handler is not started in the last tenth of a lease, or in its last second. */
const MARGIN_MS_MAX = 1_000

/**
 * The lease counts from before the claim was sent. When it is over, or nearly, the task may be somebody else's by
 * now: it must not be started. (A process that was stopped, or whose event loop was blocked, wakes up here.)
 */
export function isTrusted({ claim, trustedUntilMs }: HeldTask, leaseMs: number, nowMs: number): boolean {
  const untilMs = Math.min(claim.trustedUntilMs, trustedUntilMs)
  return nowMs < untilMs - Math.min(leaseMs / 10, MARGIN_MS_MAX)
}

/** What the topic's `late` policy makes of a task that should have rung `behindMs` ago; null: fire it. */
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

export function taskFor<Out>(topic: string, { entry }: HeldTask, payload: Out, firedMs: number): Task<Out> {
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
