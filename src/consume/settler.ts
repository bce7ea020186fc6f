import { type Clock, sleep } from '../clock.ts'
import type { CellAddress, SettleAnswer, SettleOutcome, Settlement } from '../timetable.ts'
import type { TaskStore } from '../store.ts'
import type { HeldTask } from './held.ts'

/** The delay before the first retry of a failed call, and the maximum delay. The delay doubles after each failure. */
const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 5_000

interface Item {
  readonly task: HeldTask
  readonly settlement: Settlement
}

interface Group {
  readonly at: CellAddress
  readonly items: Item[]
}

/**
 * The maximum number of concurrent rounds. A round sends one call per cell. Several rounds keep a distant store busy;
 * the limit makes batches grow under load.
 */
const ROUNDS_MAX = 4

/**
 * Records outcomes in batches, with one call per cell. A batch contains the outcomes that were decided during one turn
 * of the event loop, or while ROUNDS_MAX rounds were under way.
 *
 * A failed call is retried until the lease of its claim ends. A retry is safe, because the store answers 'stale' for a
 * task that is settled already. If the retries end without success, no task is lost: the lease expires, and the task is
 * delivered again.
 */
export class Settler {
  readonly #store: TaskStore
  readonly #clock: Clock
  readonly #onSettled: (task: HeldTask, outcome: SettleOutcome, answer: SettleAnswer) => void
  readonly #onError: (error: unknown) => void
  #groups = new Map<number, Group>()
  #backlog = 0
  #isTurning = false
  #rounds = 0
  /** Calls and retries that are under way. */
  readonly #underWay = new Set<Promise<void>>()

  constructor(
    store: TaskStore,
    clock: Clock,
    onSettled: (task: HeldTask, outcome: SettleOutcome, answer: SettleAnswer) => void,
    onError: (error: unknown) => void,
  ) {
    this.#store = store
    this.#clock = clock
    this.#onSettled = onSettled
    this.#onError = onError
  }

  /** Returns the number of outcomes that are not recorded yet. If it is too high, the consumer stops claiming. */
  get backlog(): number {
    return this.#backlog
  }

  add(task: HeldTask, outcome: SettleOutcome): void {
    const { at, stamp } = task.claim
    const item = { task, settlement: { key: task.entry.key, stamp, outcome } }
    const group = this.#groups.get(at.cell)
    if (group === undefined) this.#groups.set(at.cell, { at, items: [item] })
    else group.items.push(item)
    this.#backlog++
    this.#sendSoon()
  }

  /** Resolves when no outcome is left: each one is recorded or given up. */
  async drained(): Promise<void> {
    while (this.#groups.size > 0 || this.#underWay.size > 0) {
      if (this.#underWay.size === 0) await this.#clock.turn()
      else await Promise.all(this.#underWay)
    }
  }

  #sendSoon(): void {
    if (this.#isTurning || this.#groups.size === 0 || this.#rounds === ROUNDS_MAX) return
    this.#isTurning = true
    void this.#clock.turn().then(() => {
      this.#isTurning = false
      this.#follow(this.#send())
    })
  }

  async #send(): Promise<void> {
    const groups = [...this.#groups.values()]
    this.#groups = new Map()
    this.#rounds++
    await Promise.all(groups.map((group) => this.#record(group, 0)))
    this.#rounds--
    this.#sendSoon()
  }

  async #record(group: Group, failures: number): Promise<void> {
    let answers: SettleAnswer[]
    try {
      answers = await this.#store.settle(
        group.at,
        group.items.map(({ settlement }) => settlement),
      )
    } catch (error) {
      this.#onError(error)
      const left = this.#stillTrusted(group)
      // Do not await the retry here: an unreachable cell must not delay other cells.
      if (left.items.length > 0) this.#follow(this.#retry(left, failures + 1))
      return
    }
    this.#backlog -= group.items.length
    group.items.forEach(({ task, settlement }, i) =>
      this.#onSettled(task, settlement.outcome, answers[i] ?? 'stale'),
    )
  }

  async #retry(group: Group, failures: number): Promise<void> {
    await sleep(this.#clock, Math.min(RETRY_MS_MIN * 2 ** (failures - 1), RETRY_MS_MAX))
    await this.#record(group, failures)
  }

  /**
   * Drops the outcomes of tasks whose lease has expired, because another process may have claimed these tasks. Reports
   * the dropped outcomes as 'stale'.
   */
  #stillTrusted({ at, items }: Group): Group {
    const nowMs = this.#clock.monotonicNow()
    const trusted = items.filter(({ task }) => task.claim.trustedUntilMs > nowMs)
    this.#backlog -= items.length - trusted.length
    for (const { task, settlement } of items)
      if (task.claim.trustedUntilMs <= nowMs) this.#onSettled(task, settlement.outcome, 'stale')
    return { at, items: trusted }
  }

  #follow(work: Promise<void>): void {
    const followed = work.finally(() => this.#underWay.delete(followed))
    this.#underWay.add(followed)
  }
}
