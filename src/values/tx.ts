import { TocsinError } from '../errors.ts'

/** What a transaction-capable client looks like; a pool has `totalCount` and is refused by the compiler. */
export interface Tx {
  query(text: string, values: unknown[]): Promise<unknown>
  totalCount?: 'a pool is not a transaction'
}

/** What a handler with `transaction: true` gets: a connection of pg, inside the transaction that its outcome is part of. */
export interface HandlerTx extends Tx {
  query<Row extends object = Record<string, unknown>>(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>
}

export function badTx(message: string): TocsinError {
  return new TocsinError('bad-tx', `tx: ${message}`, { field: 'tx' })
}
