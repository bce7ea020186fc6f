import { randomUUID } from 'node:crypto'

/** The only door to chance, so that a test or a simulation can fix it. */
export interface Random {
  /** 0 ≤ x < 1. */
  fraction(): number
  /** A name that nobody else has made or will make. */
  uniqueId(): string
}

export const systemRandom: Random = {
  fraction: () => Math.random(),
  uniqueId: () => randomUUID(),
}
