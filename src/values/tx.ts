import { TocsinError } from '../errors.ts'

/** A database client in a transaction. A pool of pg has a numeric `totalCount`, so it does not compile as a `Tx`. */
export interface Tx {
  query(text: string, values: unknown[]): Promise<unknown>
  totalCount?: 'a pool is not a transaction'
}

/**
 * The `tx` of a handler with `transaction: true`: a connection of pg in a transaction. The same transaction records the
 * outcome of the task.
 */
export interface HandlerTx extends Tx {
  query<Row extends object = Record<string, unknown>>(
    text: string,
    values?: unknown[],
  ): Promise<{ rows: Row[]; rowCount: number | null }>
}

export function badTx(message: string): TocsinError {
  return new TocsinError('bad-tx', `tx: ${message}`, { field: 'tx' })
}
