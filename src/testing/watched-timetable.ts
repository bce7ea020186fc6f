import type { CellAddress, Claim, ClaimRequest, SettleAnswer, Settlement } from '../timetable.ts'
import { MemoryTimetable } from '../timetables/memory/timetable.ts'

/** A timetable in memory that records which tasks are claimed and not settled. */
export class WatchedTimetable extends MemoryTimetable {
  readonly #held = new Set<string>()

  /** The number of tasks claimed plus the number of tasks settled. */
  steps = 0

  /** The number of tasks that are claimed and whose outcome is not recorded. */
  get heldCount(): number {
    return this.#held.size
  }

  /** Forgets the tasks that are claimed now, so that `heldCount` ignores them. */
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
