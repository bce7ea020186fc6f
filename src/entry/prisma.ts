/** `tocsin/prisma`: `{ tx: fromPrisma(tx) }` writes in an interactive transaction of Prisma. */
import { overTx, postgresError, txOf } from './orm-transaction.ts'
import type { Tx } from '../values/tx.ts'

/** The `tx` of `prisma.$transaction(async (tx) => …)`. A client has `$connect`, a transaction does not. */
export interface PrismaTransaction {
  $queryRawUnsafe(statement: string, ...values: never[]): PromiseLike<unknown>
  readonly $connect?: never
}

/** Prisma's error code for a transaction that was closed or has timed out. */
const OVER = 'P2028'
/** Finds PostgreSQL's code and message in Prisma's message: Prisma has one code for all failed statements. */
const FAILED = /Code: `(\w{5})`\. Message: `([^]*)`/

export function fromPrisma(tx: PrismaTransaction): Tx {
  const { $queryRawUnsafe, $connect } = (tx ?? {}) as Partial<PrismaTransaction>
  return txOf(tx, {
    isTransaction: typeof $queryRawUnsafe === 'function' && $connect === undefined,
    wanted: 'fromPrisma takes the tx that prisma.$transaction() hands to its callback, not the client',
    query: async (text, values) => (await tx.$queryRawUnsafe(text, ...(values as never[]))) as unknown[],
    unwrapped(error) {
      const { code, message } = error as Error & { code?: unknown }
      if (code === OVER) return overTx()
      const [, state, says] = FAILED.exec(message) ?? []
      return says === undefined ? error : postgresError(says, state, error)
    },
  })
}
