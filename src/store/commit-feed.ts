import type { Clock } from '../clock.ts'
import type { Place } from '../timetable.ts'
import { Periodic } from '../lib/periodic.ts'

/** The interval between two polls. Polling is necessary because a notification may be lost. */
const STEP_MS = 1_000

/** Reads which places callers' transactions have written and committed. Passes them to `onCommitted`. */
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

  /** Polls at once. Called when a transaction may have committed. */
  readNow(): void {
    this.#periodic.hurry()
  }
}
