import { randomBytes, randomUUID } from 'node:crypto'

/** The only access to random numbers, so that a test or a simulation can use a fixed seed. */
export interface Random {
  /** 0 ≤ x < 1. */
  fraction(): number
  /** A universally unique id. */
  uniqueId(): string
}

/** Cryptographically secure random values. Tests do not replace them. */
export interface Secrets extends Random {
  /** Random bytes, as base64url. */
  secret(bytes: number): string
}

export const systemRandom: Secrets = {
  fraction: () => Math.random(),
  uniqueId: () => randomUUID(),
  secret: (bytes) => randomBytes(bytes).toString('base64url'),
}
