import type { Random } from '../../src/random.ts'

/** All chance of a run comes from its seed. Streams are told apart by name: what one uses up, no other misses. */
export class Chance {
  readonly #name: string
  #state: number

  constructor(name: string) {
    this.#name = name
    this.#state = hash(name)
  }

  fork(name: string | number): Chance {
    return new Chance(`${this.#name}/${name}`)
  }

  /** 0 ≤ x < 1 (mulberry32). */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }

  between(from: number, to: number): number {
    return from + this.fraction() * (to - from)
  }

  /** A whole number of `from` to `to`, both included. */
  whole(from: number, to: number): number {
    return Math.floor(this.between(from, to + 1))
  }

  is(probability: number): boolean {
    return this.fraction() < probability
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.fraction() * list.length)] as T
  }

  /** By weights. */
  weighted<T extends string>(weights: Readonly<Record<T, number>>): T {
    const entries = Object.entries(weights) as [T, number][]
    let at = this.fraction() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [name, weight] of entries) if ((at -= weight) < 0) return name
    return (entries.at(-1) as [T, number])[0]
  }
}

/** As the engine wants it. */
export function engineRandom(chance: Chance, name: string): Random {
  let made = 0
  return { fraction: () => chance.fraction(), uniqueId: () => `${name}-${++made}` }
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5
  for (let i = 0; i < text.length; i++) value = Math.imul(value ^ text.charCodeAt(i), 0x01000193)
  return value
}
