/** `tocsin/prisma`: `{ tx: fromPrisma(tx) }` writes in an interactive transaction of Prisma's. */
import { overTx, postgresError, txOf } from './orm-transaction.ts'
import type { Tx } from '../values/tx.ts'

/** What `prisma.$transaction(async (tx) => …)` gives. A client connects, a transaction cannot. */
export interface PrismaTransaction {
  $queryRawUnsafe(statement: string, ...values: never[]): PromiseLike<unknown>
  readonly $connect?: never
}

/** Prisma's code for a transaction that was closed, or has timed out. */
const OVER = 'P2028'
/** Its own code of a failed statement says only that: PostgreSQL's is in the message. */
const FAILED = /Code: `(\w{5})`\. Message: `([^]*)`/

export function fromPrisma(tx: PrismaTransaction): Tx {
  const { $queryRawUnsafe, $connect } = (tx ?? {}) as Partial<PrismaTransaction>
  return txOf(tx, {
    isTransaction: typeof $queryRawUnsafe === 'function' && $connect === undefined,
    wanted: 'fromPrisma takes the tx that prisma.$transaction() hands to its callback, not the client',
    say: async (text, values) => (await tx.$queryRawUnsafe(text, ...(values as never[]))) as unknown[],
    unwrapped(error) {
      const { code, message } = error as Error & { code?: unknown }
      if (code === OVER) return overTx()
      const [, state, says] = FAILED.exec(message) ?? []
      return says === undefined ? error : postgresError(says, state, error)
    },
  })
}
