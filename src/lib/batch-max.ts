/**
 * Most tasks in one call to a store: one claim, one write, one page. A Lua script in Redis can unpack only some 8,000
 * values at a time, and a task has several. A short call also keeps the store free for other callers.
 */
export const BATCH_MAX = 1_000
