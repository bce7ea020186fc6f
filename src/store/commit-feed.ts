import type { Clock } from '../clock.ts'
import type { Place } from '../timetable.ts'
import { Periodic } from '../lib/periodic.ts'

/** How often the feed is polled: a notification may be lost. */
const STEP_MS = 1_000

/** Reads the committed writes of callers' transactions, and passes them on so that the hint table is updated. */
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

  /** Polls at once: a transaction has committed. */
  readNow(): void {
    this.#periodic.hurry()
  }
}
