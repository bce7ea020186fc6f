import type { Clock } from '../clock.ts'
import type { Place } from '../timetable.ts'
import { Routine } from './routine.ts'

/** What is written in a caller's transaction is heard of within this, though nobody was told. */
const STEP_MS = 1_000

/** Reads what callers wrote in transactions of their own, and has the timetable hear of it. */
export class NewsReader {
  readonly #routine: Routine

  constructor(
    clock: Clock,
    news: () => Promise<readonly Place[]>,
    onNews: (places: readonly Place[]) => Promise<void>,
    onError: (error: unknown) => void,
  ) {
    const read = async () => {
      for (let places = await news(); places.length > 0; places = await news()) {
        await onNews(places)
        if (this.#routine.isStopped) return
      }
    }
    this.#routine = new Routine(clock, STEP_MS, read, onError)
  }

  start(): void {
    this.#routine.start('now')
  }

  stop(): Promise<void> {
    return this.#routine.stop()
  }

  /** There is some. */
  look(): void {
    this.#routine.hurry()
  }
}
