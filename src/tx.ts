/** What a transaction-capable client looks like; a pool has `totalCount` and is refused by the compiler. */
export interface Tx {
  query(text: string, values: unknown[]): Promise<unknown>
  totalCount?: 'a pool is not a transaction'
}
