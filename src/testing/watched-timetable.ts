import type { CellAddress, Claim, ClaimRequest, SettleAnswer, Settlement } from '../timetable.ts'
import { MemoryTimetable } from '../timetables/memory/timetable.ts'

/** An in-process timetable that knows which tasks are in somebody's hands. */
export class WatchedTimetable extends MemoryTimetable {
  readonly #held = new Set<string>()

  /** Grows with every task that is claimed or settled. */
  steps = 0

  /** Some task is claimed and its outcome not recorded. */
  get isBusy(): boolean {
    return this.#held.size > 0
  }

  /** Whoever holds a task now is not waited for any longer. */
  stopWaiting(): void {
    this.#held.clear()
  }

  override async claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    const claim = await super.claim(at, request)
    for (const { key } of claim.tasks) this.#held.add(nameOf(at, key, claim.stamp))
    this.steps += claim.tasks.length
    return claim
  }

  override async settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]> {
    const answers = await super.settle(at, settlements)
    for (const { key, stamp } of settlements) this.#held.delete(nameOf(at, key, stamp))
    this.steps += settlements.length
    return answers
  }
}

function nameOf({ topic, cell }: CellAddress, key: string, stamp: number): string {
  return `${topic}/${cell}/${stamp}/${key}`
}
