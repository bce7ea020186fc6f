import { type Clock, sleep } from '../clock.ts'
import { Alarm } from '../lib/alarm.ts'
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

/** If calls are costly, a round begins this long after the one before, unless GATHER_MAX outcomes wait. */
const GATHER_MS = 10
const GATHER_MAX = 100

/** An outcome does not wait for others if its lease ends within this time. */
const LEASE_LEFT_MS = 1_000

/**
 * Records outcomes in batches, with one call per cell. A batch contains the outcomes that were decided during one turn
 * of the event loop, or while ROUNDS_MAX rounds were under way. If a call costs much more than an outcome
 * (`isSettleCostly`), it also contains the outcomes of the GATHER_MS since the last batch:
 *
 *      outcome ──▶ waiting ──┬─ GATHER_MS after the last round began: at once if outcomes are rare ──┐
 *                            ├─ GATHER_MAX outcomes wait, or as many as stop the claims ─────────────┼──▶ round
 *                            ├─ one of them cannot wait (`#mayWait`) ────────────────────────────────┤
 *                            └─ the consumer stops ──────────────────────────────────────────────────┘
 *
 * No handler waits for the record of its outcome, because its permit is free again before. If the process dies while
 * outcomes wait, their tasks are delivered again, as after a crash just before the call.
 *
 * A failed call is retried until the lease of its claim ends. A retry is safe, because the store answers 'stale' for a
 * task that is settled already. If the retries end without success, no task is lost: the lease expires, and the task is
 * delivered again.
 */
export class Settler {
  readonly #store: TaskStore
  readonly #clock: Clock
  readonly #waitingMax: () => number
  readonly #onSettled: (task: HeldTask, outcome: SettleOutcome, answer: SettleAnswer) => void
  readonly #onError: (error: unknown) => void
  readonly #alarm: Alarm
  /** The outcomes that wait for the next round, by cell. */
  #groups = new Map<number, Group>()
  #waitingCount = 0
  #backlog = 0
  /** True if the next round must not be delayed. */
  #isUrgent = false
  #isDraining = false
  #isTurning = false
  #rounds = 0
  #lastRoundMs = Number.NEGATIVE_INFINITY
  /** Calls and retries that are under way. */
  readonly #underWay = new Set<Promise<void>>()

  /** `waitingMax` returns how many outcomes may wait without an effect on claims. */
  constructor(
    store: TaskStore,
    clock: Clock,
    waitingMax: () => number,
    onSettled: (task: HeldTask, outcome: SettleOutcome, answer: SettleAnswer) => void,
    onError: (error: unknown) => void,
  ) {
    this.#store = store
    this.#clock = clock
    this.#waitingMax = waitingMax
    this.#onSettled = onSettled
    this.#onError = onError
    this.#alarm = new Alarm(clock, () => this.#sendSoon())
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
    this.#waitingCount++
    this.#backlog++
    if (!this.#mayWait(task, outcome)) this.#isUrgent = true
    this.#sendSoon()
  }

  /** Resolves when no outcome is left: each one is recorded or given up. From now on, no outcome waits for others. */
  async drained(): Promise<void> {
    this.#isDraining = true
    this.#sendSoon()
    while (this.#groups.size > 0 || this.#underWay.size > 0) {
      if (this.#underWay.size === 0) await this.#clock.turn()
      else await Promise.all(this.#underWay)
    }
  }

  #sendSoon(): void {
    if (this.#isTurning || this.#groups.size === 0 || this.#rounds === ROUNDS_MAX) return
    const atMs = this.#nextRoundMs()
    if (atMs > this.#clock.monotonicNow()) return this.#alarm.noLaterThan(atMs)
    this.#isTurning = true
    void this.#clock.turn().then(() => {
      this.#isTurning = false
      this.#follow(this.#send())
    })
  }

  /** Returns the monotonic time before which the next round does not begin; -Infinity if it must not be delayed. */
  #nextRoundMs(): number {
    const isFull = this.#waitingCount >= Math.min(GATHER_MAX, this.#waitingMax())
    if (!this.#store.isSettleCostly || this.#isUrgent || this.#isDraining || isFull)
      return Number.NEGATIVE_INFINITY
    return this.#lastRoundMs + GATHER_MS
  }

  /**
   * Returns true if the outcome may wait for others: it ends the task, and the lease lasts much longer. After any other
   * outcome the task rings again, and its delay counts from the record of the outcome. A suspect does not wait either:
   * other tasks start as soon as it has ended, and if one of them crashed the process while the outcome waits, the lost
   * lease would be blamed on the suspect.
   */
  #mayWait({ claim, trustedUntilMs }: HeldTask, { kind }: SettleOutcome): boolean {
    const isEnd = kind === 'done' || kind === 'obsolete' || kind === 'dead'
    if (!isEnd || claim.from === 'suspects') return false
    const leaseEndMs = Math.min(claim.trustedUntilMs, trustedUntilMs)
    return leaseEndMs > this.#clock.monotonicNow() + LEASE_LEFT_MS
  }

  async #send(): Promise<void> {
    const groups = [...this.#groups.values()]
    this.#groups = new Map()
    this.#waitingCount = 0
    this.#isUrgent = false
    this.#alarm.off()
    this.#lastRoundMs = this.#clock.monotonicNow()
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
