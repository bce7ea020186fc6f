import { type Clock, sleep } from '../clock.ts'
import type { CellAddress, SettleAnswer, SettleOutcome, Settlement, Timetable } from '../timetable.ts'
import type { HeldTask } from './held.ts'

/** After a failed attempt to record outcomes, the wait before the next; doubled up to the second figure. */
const RETRY_MS_MIN = 50
const RETRY_MS_MAX = 5_000

interface Item {
  readonly task: HeldTask
  readonly settlement: Settlement
}

interface Group {
  readonly at: CellAddress
  items: Item[]
}

/**
 * Records outcomes, many at a time: what ends during one turn of the event loop, or while the call before is under
 * way, goes to the timetable in one call per cell.
 *
 * A call that fails is repeated for as long as the claim is trusted; repeating is safe, because a settled task
 * answers 'stale'. After that nothing is lost either: the lease runs out, and the task is delivered again.
 */
export class Settler {
  readonly #timetable: Timetable
  readonly #clock: Clock
  readonly #onSettled: (task: HeldTask, outcome: SettleOutcome, answer: SettleAnswer) => void
  readonly #onError: (error: unknown) => void
  #groups = new Map<number, Group>()
  #backlog = 0
  #flushing: Promise<void> | null = null

  constructor(
    timetable: Timetable,
    clock: Clock,
    onSettled: (task: HeldTask, outcome: SettleOutcome, answer: SettleAnswer) => void,
    onError: (error: unknown) => void,
  ) {
    this.#timetable = timetable
    this.#clock = clock
    this.#onSettled = onSettled
    this.#onError = onError
  }

  /** Outcomes that are not recorded yet. The consumer claims no more while there are too many. */
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
    this.#flushing ??= this.#flush()
  }

  /** Resolves when everything added so far is recorded or given up. */
  async drained(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing
  }

  async #flush(): Promise<void> {
    let failures = 0
    try {
      while (this.#groups.size > 0) {
        await (failures === 0 ? this.#clock.turn() : this.#pause(failures))
        const groups = [...this.#groups.values()]
        this.#groups = new Map()
        const recorded = await Promise.all(groups.map((group) => this.#record(group)))
        failures = recorded.every(Boolean) ? 0 : failures + 1
      }
    } finally {
      this.#flushing = null
    }
  }

  async #record(group: Group): Promise<boolean> {
    let answers: SettleAnswer[]
    try {
      answers = await this.#timetable.settle(
        group.at,
        group.items.map(({ settlement }) => settlement),
      )
    } catch (error) {
      this.#onError(error)
      this.#keep(group)
      return false
    }
    this.#backlog -= group.items.length
    group.items.forEach(({ task, settlement }, i) =>
      this.#onSettled(task, settlement.outcome, answers[i] ?? 'stale'),
    )
    return true
  }

  /** For another try, in front of what came since; what is not trusted any more belongs to the rescue. */
  #keep({ at, items }: Group): void {
    const nowMs = this.#clock.monotonicNow()
    const trusted = items.filter(({ task }) => task.claim.trustedUntilMs > nowMs)
    this.#backlog -= items.length - trusted.length
    for (const { task, settlement } of items)
      if (task.claim.trustedUntilMs <= nowMs) this.#onSettled(task, settlement.outcome, 'stale')
    if (trusted.length === 0) return
    const later = this.#groups.get(at.cell)?.items ?? []
    this.#groups.set(at.cell, { at, items: [...trusted, ...later] })
  }

  #pause(failures: number): Promise<void> {
    return sleep(this.#clock, Math.min(RETRY_MS_MIN * 2 ** (failures - 1), RETRY_MS_MAX))
  }
}
