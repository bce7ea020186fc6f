/**
 * The maximum number of tasks in one call to a store: in one claim, one write or one page. A Lua script in Redis can
 * unpack only some 8,000 values at a time, and each task has several values. Also, other callers wait less if a call is
 * short.
 */
export const BATCH_MAX = 1_000
