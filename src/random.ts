import { randomBytes, randomUUID } from 'node:crypto'

/** The only door to chance, so that a test or a simulation can fix it. */
export interface Random {
  /** 0 ≤ x < 1. */
  fraction(): number
  /** A name that nobody else has made or will make. */
  uniqueId(): string
}

/** Chance that nobody can guess; never fixed, by no test. */
export interface Secrets extends Random {
  /** So many bytes of it, as base64url. */
  secret(bytes: number): string
}

export const systemRandom: Secrets = {
  fraction: () => Math.random(),
  uniqueId: () => randomUUID(),
  secret: (bytes) => randomBytes(bytes).toString('base64url'),
}
