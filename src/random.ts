import { randomBytes, randomUUID } from 'node:crypto'

/** The only access to random numbers. So a test or a simulation can use a fixed seed. */
export interface Random {
  /** Returns a random number x with 0 ≤ x < 1. */
  fraction(): number
  /** Returns a universally unique id. */
  uniqueId(): string
}

/** Adds cryptographically secure random values. Tests do not replace these values. */
export interface Secrets extends Random {
  /** Returns `bytes` random bytes, encoded as base64url. */
  secret(bytes: number): string
}

export const systemRandom: Secrets = {
  fraction: () => Math.random(),
  uniqueId: () => randomUUID(),
  secret: (bytes) => randomBytes(bytes).toString('base64url'),
}
