import { CELLS } from '../../values/cell.ts'
import type { Grave } from './entry.ts'

/**
 * The limits of dead tasks: a million per topic, divided evenly among the cells, and an age of 30 days. They are
 * enforced when a task dies.
 */
const GRAVES_MAX_PER_CELL = Math.floor(1_000_000 / CELLS)
const GRAVE_AGE_MAX_MS = 30 * 86_400_000

/** The dead tasks of a cell, oldest first, because a Map keeps the order of insertion. */
export class Graveyard {
  readonly #graves = new Map<string, Grave>()

  get size(): number {
    return this.#graves.size
  }

  get(key: string): Grave | undefined {
    return this.#graves.get(key)
  }

  all(): Iterable<Grave> {
    return this.#graves.values()
  }

  /** Marks the dead task of a key, if there is one: the key has a newer task from now on. */
  supersede(key: string): void {
    const grave = this.#graves.get(key)
    if (grave !== undefined) grave.superseded = true
  }

  remove(key: string): boolean {
    return this.#graves.delete(key)
  }

  /**
   * Adds a grave. Returns how many older graves were removed: the grave of the same key, and graves over the limits.
   */
  bury(grave: Grave): number {
    let dropped = this.#graves.delete(grave.entry.key) ? 1 : 0
    this.#graves.set(grave.entry.key, grave)
    for (const oldest of this.#graves.values()) {
      const withinLimits =
        this.#graves.size <= GRAVES_MAX_PER_CELL && grave.diedMs - oldest.diedMs <= GRAVE_AGE_MAX_MS
      if (withinLimits || oldest === grave) break
      this.#graves.delete(oldest.entry.key)
      dropped++
    }
    return dropped
  }
}
