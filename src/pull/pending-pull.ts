import type { ClaimedTask } from '../timetable.ts'

/** A task that a claim brought for somebody who waits, and what proves the claim. */
export interface Pulled {
  readonly entry: ClaimedTask
  readonly cell: number
  readonly stamp: number
  readonly req: string
  /** The timetable's clock when it was handed over. */
  readonly firedMs: number
  readonly leaseUntilMs: number
  /** Monotonic: nobody else can have it before its lease is over, counted from here. */
  readonly sentMs: number
  readonly leaseMs: number
}

/** One call that asks for tasks and waits for them. */
export class PendingPull {
  readonly leaseMs: number
  readonly #limit: number
  readonly #answer: (tasks: Pulled[]) => void
  readonly #tasks: Pulled[] = []
  /** Places that claims under way may fill. */
  #reserved = 0
  #claims = 0
  #isOver = false
  #isClosed = false

  constructor(limit: number, leaseMs: number, answer: (tasks: Pulled[]) => void) {
    this.#limit = limit
    this.leaseMs = leaseMs
    this.#answer = answer
  }

  get room(): number {
    return this.#isClosed ? 0 : this.#limit - this.#tasks.length - this.#reserved
  }

  /** What one of so many claims may take of it. */
  share(claims: number, least: number): number {
    return Math.max(least, Math.ceil(this.#limit / claims))
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Nothing has come, and nothing is on its way. */
  get isEmpty(): boolean {
    return !this.#isClosed && this.#tasks.length === 0 && this.#claims === 0
  }

  /** Something has come, or the time is up, and nothing more is on its way. */
  get isSettled(): boolean {
    return this.#claims === 0 && (this.#tasks.length > 0 || this.#isOver)
  }

  /** It waits no longer than for what is on its way. */
  timeIsUp(): void {
    this.#isOver = true
  }

  /** A claim is sent for it. */
  reserve(places: number): void {
    this.#reserved += places
    this.#claims++
  }

  /** It came back. */
  release(places: number, tasks: readonly Pulled[]): void {
    this.#reserved -= places
    this.#claims--
    for (const task of tasks) this.#tasks.push(task)
  }

  close(): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#answer(this.#tasks)
  }
}
