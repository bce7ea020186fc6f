import type { Clock } from '../clock.ts'
import type { Place } from '../timetable.ts'
import { Periodic } from '../lib/periodic.ts'

/** What is written in a caller's transaction is heard of within this, though nobody was told. */
const STEP_MS = 1_000

/** Reads what callers wrote in transactions of their own, and has the timetable hear of it. */
export class CommitFeed {
  readonly #periodic: Periodic

  constructor(
    clock: Clock,
    committedWrites: () => Promise<readonly Place[]>,
    onCommitted: (places: readonly Place[]) => Promise<void>,
    onError: (error: unknown) => void,
  ) {
    const read = async () => {
      for (let places = await committedWrites(); places.length > 0; places = await committedWrites()) {
        await onCommitted(places)
        if (this.#periodic.isStopped) return
      }
    }
    this.#periodic = new Periodic(clock, STEP_MS, read, onError)
  }

  start(): void {
    this.#periodic.start('now')
  }

  stop(): Promise<void> {
    return this.#periodic.stop()
  }

  /** There is some. */
  look(): void {
    this.#periodic.hurry()
  }
}
