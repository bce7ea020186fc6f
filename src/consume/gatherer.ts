/**
 * The claimed tasks of a batch consumer that wait for their handler call. A claim takes tasks of one cell, and tasks of
 * one instant are in many cells. The gatherer collects the tasks of many claims into one batch:
 *
 *                                   batchSize tasks
 *      claim of cell 3  ──┐        ┌───────────────────────────────────────────────▶ ready
 *      claim of cell 17 ──┼──▶ open┤
 *      claim of cell 40 ──┘        └──linger has passed──▶ closing ──┬─ cells due by then are claimed ──▶ ready
 *                                                                    └─ PATIENCE_MS without a task ─────▶ ready
 *
 * The linger counts from the arrival of the first task. When it has passed, some tasks that rang within the linger may
 * still be under way from the store, because a claim takes as long as the store needs. The batch waits for those, and
 * for no later ones. A batch does not wait if no claim can bring more tasks: the rate limit is reached, or a suspect
 * waits for an idle consumer.
 *
 * The leases of gathered tasks are extended like those of running tasks. If an extension fails, the batch becomes ready
 * while its handler still has a third of the lease.
 */
import type { Clock } from '../clock.ts'
import { Alarm } from '../lib/alarm.ts'
import { prefixOf } from '../values/cell.ts'
import type { Settings } from '../values/config.ts'
import type { HeldTask } from './held.ts'
import type { Moment } from './puller.ts'

export interface GathererParts {
  readonly clock: Clock
  /** Returns the settings that are in force now. */
  readonly settings: () => Settings
  /**
   * Returns true if claims may still bring tasks that ring by `by`. A claim that has been under way for `patienceMs` does
   * not count.
   */
  readonly mayBring: (by: Moment, patienceMs: number) => boolean
  /** Called when a batch may be ready because time has passed. */
  readonly onTime: () => void
}

/** A slow store must not hold back the tasks that are here: a batch waits this long for a claim that is under way. */
const PATIENCE_MS = 1_000

export class Gatherer {
  readonly #parts: GathererParts
  readonly #alarm: Alarm
  /** In the order of arrival. */
  #tasks: HeldTask[] = []
  /** The monotonic time when the last tasks arrived. */
  #grownMs = Number.NEGATIVE_INFINITY

  constructor(parts: GathererParts) {
    this.#parts = parts
    this.#alarm = new Alarm(parts.clock, parts.onTime)
  }

  get count(): number {
    return this.#tasks.length
  }

  add(tasks: readonly HeldTask[]): void {
    for (const held of tasks) this.#tasks.push(held)
    this.#grownMs = this.#parts.clock.monotonicNow()
  }

  /** Removes and returns the next batch; null if none is ready. A later call may be necessary: see `onTime`. */
  next(): HeldTask[] | null {
    const [first] = this.#tasks
    if (first === undefined) return null
    const { batchSize, mergeMs } = this.#parts.settings()
    if (this.#tasks.length < batchSize) {
      const nowMs = this.#parts.clock.monotonicNow()
      const openUntilMs = Math.min(this.#openUntilMs(first, nowMs), this.#leaseAllowsUntilMs())
      if (nowMs < openUntilMs) {
        this.#alarm.noLaterThan(openUntilMs)
        return null
      }
    }
    return this.#tasks.splice(0, mergeMs === 0 ? batchSize : wholePrefixes(this.#tasks, batchSize))
  }

  /** Removes and returns all tasks, to give them back. */
  takeAll(): HeldTask[] {
    this.#alarm.off()
    const all = this.#tasks
    this.#tasks = []
    return all
  }

  /** Returns until when the batch that starts with `first` waits for more tasks, if nothing changes until then. */
  #openUntilMs(first: HeldTask, nowMs: number): number {
    const { lingerMs } = this.#parts.settings()
    const lingerEndMs = first.claim.answeredMs + lingerMs
    const lingerEnd = { atMs: lingerEndMs, recordMs: first.claim.recordMs(lingerEndMs) }
    if (lingerMs === 0 || !this.#parts.mayBring(lingerEnd, PATIENCE_MS)) return nowMs
    return nowMs < lingerEndMs ? lingerEndMs : Math.max(lingerEndMs, this.#grownMs) + PATIENCE_MS
  }

  #leaseAllowsUntilMs(): number {
    const { leaseMs } = this.#parts.settings()
    let untilMs = Number.POSITIVE_INFINITY
    for (const { claim, trustedUntilMs } of this.#tasks) {
      const endMs = Math.min(claim.trustedUntilMs, trustedUntilMs)
      untilMs = Math.min(untilMs, endMs - Math.min(claim.leaseMs, leaseMs) / 3)
    }
    return untilMs
  }
}

/**
 * Returns how many of the tasks go into the next batch: at most `max`, without splitting a prefix, unless one prefix
 * has more than `max` tasks.
 */
function wholePrefixes(tasks: readonly HeldTask[], max: number): number {
  const next = tasks[max]
  if (next === undefined) return max
  const cut = prefixOf(next.entry.key)
  let size = max
  while (size > 0 && prefixOf((tasks[size - 1] as HeldTask).entry.key) === cut) size--
  return size === 0 ? max : size
}
