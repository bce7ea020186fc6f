import { seededFraction } from '../timetable/helpers.ts'

/** Random numbers that repeat with the seed. */
export class Chance {
  readonly fraction: () => number

  constructor(seed: number) {
    this.fraction = seededFraction(seed)
  }

  happens(probability: number): boolean {
    return this.fraction() < probability
  }

  /** 0 … most, whole. */
  upTo(most: number): number {
    return Math.floor(this.fraction() * (most + 1))
  }

  /** Of an empty list: undefined. */
  oneOf<T>(values: readonly T[]): T {
    return values[Math.floor(this.fraction() * values.length)] as T
  }

  /** 1 … most of what `make` makes. */
  some<T>(most: number, make: () => T): T[] {
    return Array.from({ length: 1 + this.upTo(most - 1) }, make)
  }

  /** Mostly small, now and then much larger, as delays are. */
  ms(): number {
    return this.upTo(this.oneOf([0, 3, 10, 30, 300, 3_000]))
  }
}
