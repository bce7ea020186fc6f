/** Runs statements on one connection, all under the same conditions. Deadlines and error translation are the runner's. */
export interface StatementRunner {
  /** Returns the rows, each as a list in the order of the columns. */
  query(text: string, values: readonly unknown[]): Promise<unknown[][]>
  /** How long a statement waits for a row lock before it fails with SQLSTATE 55P03. Null: as the connection is set. */
  readonly lockTimeoutMs: number | null
  /** Id of the only transaction in which a statement may take effect; in another one it does nothing. Null: in any. */
  readonly transactionId: string | null
  /** A write sends a NOTIFY for tasks that ring within this many milliseconds. 0: never. */
  readonly notifyWithinMs: number
}

/** Tasks that ring before the next look at the commit feed are announced by NOTIFY. */
export const NOTIFY_WITHIN_MS = 2_000
