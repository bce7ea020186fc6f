/**
 * The maximum number of tasks in one call to a store: in one claim, one write or one page. A Lua script in Redis can
 * unpack only some 8,000 values at a time, and each task has several values. Also, other callers wait less if a call is
 * short.
 */
export const BATCH_MAX = 1_000

/**
 * The maximum number of tasks of a bulk call that are passed at once to a store with Redis, which gets them by cell, in calls of
 * up to `BATCH_MAX` tasks: of 1,000 tasks for 64 cells, a call has only 16. A ledger still gets them in statements of up to
 * `BATCH_MAX` tasks. Other stores get `BATCH_MAX` tasks: a store in this process blocks the event loop while it writes them.
 */
export const BULK_MAX = 10_000

/**
 * The size of payloads at which a write or a claim is full. The task that reaches this size is the last task of the
 * call, so a call has at least one task, and exceeds this size by less than one payload. With the number of tasks as
 * the only limit, 1,000 large payloads would take 60 MB in one call, and its deadline would pass.
 */
export const BATCH_BYTES_MAX = 1_048_576

/** Returns true if a call with so many tasks, and payloads of this size, gets no more tasks. */
export function isBatchFull(count: number, bytes: number): boolean {
  return count >= BATCH_MAX || bytes >= BATCH_BYTES_MAX
}
