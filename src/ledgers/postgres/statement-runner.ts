/**
 * Runs the statements of one call, all with the same settings, and translates errors. On Tocsin's own connections, the
 * runner also applies a deadline. On the connection of a caller's transaction, it applies none.
 */
export interface StatementRunner {
  /** Returns the rows, each as a list in the order of the columns. */
  query(text: string, values: readonly unknown[]): Promise<unknown[][]>
  /**
   * How long a statement waits for a row lock before it fails with SQLSTATE 55P03. Null to use the setting of the
   * connection.
   */
  readonly lockTimeoutMs: number | null
  /**
   * The id of the transaction in which the statements must run. In another transaction, a statement does nothing. Null
   * to allow any transaction.
   */
  readonly transactionId: string | null
  /**
   * The latest time, by PostgreSQL's clock, at which a write may take effect. After it, its caller may have written the
   * same key again. Null for any time: a write in a transaction takes effect when the transaction commits.
   */
  readonly notAfterMs: number | null
  /** A write sends a NOTIFY for tasks that ring within this many milliseconds. 0 to send no NOTIFY. */
  readonly notifyWithinMs: number
}

/**
 * A write in a caller's transaction sends a NOTIFY for tasks that ring within this time. For later tasks no NOTIFY is
 * necessary, because consumers poll the commit feed (the table tocsin.news) every second.
 */
export const NOTIFY_WITHIN_MS = 2_000
