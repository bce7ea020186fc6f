/** Parts of SQL that several statements share. */
import { LAST_INSTANT_MS } from '../../../values/instant.ts'
import { DEAD } from '../../rows.ts'

interface Terms {
  /**
   * The parameter for the lock timeout: how many milliseconds the statement waits for row locks. NULL for the setting
   * of the connection.
   */
  readonly lockTimeoutMs?: string
  /**
   * The parameter that is true if the commit of the statement does not wait for the disk. Only claims have it, and only
   * as a transaction of their own: in a caller's transaction it would apply to the commit of the caller.
   */
  readonly isFast?: string
  /**
   * The parameter for the id of the transaction in which the statement must run. In another transaction, `t` is empty,
   * and the statement does nothing. NULL for any transaction.
   */
  readonly transactionId?: string
  /** The text of further columns of `t`. */
  readonly also?: string
}

/**
 * Returns the CTE `t`, with one row. The row has the time of the statement, so that the clock is read only once. The
 * CTE also sets the lock timeout and checks the transaction id. Every use of a parameter has its own cast, because some
 * drivers send a separate parameter for each use.
 */
export const t = ({ lockTimeoutMs, isFast, transactionId, also = '' }: Terms): string => {
  const lockTimeout =
    lockTimeoutMs === undefined
      ? ''
      : `,
      CASE WHEN ${lockTimeoutMs}::integer IS NOT NULL
        THEN set_config('lock_timeout', ${lockTimeoutMs}::integer::text, true) END AS lock_timeout`
  const commit =
    isFast === undefined
      ? ''
      : `,
      CASE WHEN ${isFast}::boolean THEN set_config('synchronous_commit', 'off', true) END AS synchronous_commit`
  const condition =
    transactionId === undefined
      ? ''
      : `
    WHERE ${transactionId}::text IS NULL OR ${transactionId}::text = pg_current_xact_id()::text`
  return `t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms${also}${lockTimeout}${commit}${condition}
  )`
}

/**
 * Returns an expression that fails with SQLSTATE TC011 if it is later than the parameter `notAfterMs`. Then PostgreSQL
 * rolls the statement back. `waited` is the CTE that takes the statement's locks: the expression reads it, so that
 * PostgreSQL checks the time after all waiting. The expression is a subquery, so that it runs once, not once per row.
 */
export const inTime = (notAfterMs: string, waited: string): string =>
  `(SELECT tocsin.in_time(${notAfterMs}::bigint, (SELECT count(*) FROM ${waited})))`

/** A further array parameter, in addition to the cells and keys. */
export interface Column {
  readonly name: string
  readonly array: string
}

const rows = (more: readonly Column[]): string => `
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[]${more.map(({ array }) => `, ${array}`).join('')})
      WITH ORDINALITY AS i (cell, key${more.map(({ name }) => `, ${name}`).join('')}, n)`

/** Returns the CTE `input`, with one row per task. The column `n` numbers the rows from 1. */
export const input = (more: readonly Column[] = []): string => `input AS MATERIALIZED (${rows(more)}
  )`

export const SAME = 'l.topic = $1 AND l.cell = i.cell AND l.key = i.key'
export const IN_ORDER = 'ORDER BY i.cell, i.key'

/**
 * Returns a FROM clause that joins every row of `input` to its live row. Each live row is looked up by primary key. All
 * statements lock the rows in the same order. With a plain join, the planner could read the whole table if it estimates
 * that the table is small or that hardly any row is claimed.
 */
export const eachRow = (lock: string): string => `FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE ${SAME} ${lock}) l`

/**
 * Like `eachRow`, for statements in which nearly every row fulfils `condition`. The clause only has the ctid and the
 * partition of each row (`at`, `part`), because access by ctid is the cheapest, and the columns of `also`. If another
 * transaction changes a row meanwhile, the row gets another ctid. Then the statement skips the row, and the caller sends
 * a second, more general statement for its task.
 */
export const eachRowWhere = (
  more: readonly Column[],
  condition: string,
  lock: string,
  also = '',
): string => `FROM (SELECT * FROM (${rows(more)}) i ${IN_ORDER}) i
    CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.tableoid AS part${also} FROM tocsin.live l WHERE ${SAME} AND ${condition} ${lock}
    ) l`

/** Returns a FROM clause for groups of keys: one input row per group `g`, whose keys are one text. */
export const groups = (
  more: readonly Column[],
): string => `FROM t, unnest($2::smallint[], $3::text[]${more.map(({ array }) => `, ${array}`).join('')})
        WITH ORDINALITY AS g (cell, keys${more.map(({ name }) => `, ${name}`).join('')}, n)`

/**
 * Returns a FROM clause for the rows of groups of keys. Like `eachRowWhere`, it has
 * the ctid and the partition of each live row, but it locks none.
 */
export const eachRowOfGroups = (more: readonly Column[]): string => `${groups(more)}
      CROSS JOIN LATERAL unnest(string_to_array(g.keys, E'\\x1e')) AS k (key)
      CROSS JOIN LATERAL (
        SELECT l.ctid AS at, l.tableoid AS part FROM tocsin.live l
        WHERE l.topic = $1 AND l.cell = g.cell AND l.key = k.key OFFSET 0
      ) l`

/**
 * The condition for the row with a ctid, in a partition. No other condition on the row may be added. If PostgreSQL plans
 * the statement while the table is empty, the planner prefers an index for the other condition. PostgreSQL caches this
 * plan, which reads the whole topic for each row when the table is full.
 */
export const AT = 'l.ctid = i.at AND l.tableoid = i.part'

/** The assignments that end a claim and make the task pending. */
export const FREE = 'session = NULL, stamp = NULL, lease_ms = NULL, started = 0'
export const IS_HELD = '(l.session IS NOT NULL AND l.lease_ms > i.now_ms)'
/** The columns that are copied when a task ends. */
export const CARRIED = 'topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body'
export const prefixed = (table: string, columns: string): string => columns.replaceAll(/\w+/g, `${table}.$&`)

/**
 * Returns the expression for the ring time of a task that is wanted at the time `wanted`. It computes the same as
 * ringMsAt in ring-time.ts.
 */
export const ringAt = (wanted: string, mergeMs: string): string => `least(greatest(
      CASE WHEN ${mergeMs} > 0 THEN ((${wanted}) + ${mergeMs} - 1) / ${mergeMs} * ${mergeMs} ELSE ${wanted} END,
    0), ${LAST_INSTANT_MS})`

/**
 * Returns an expression that sends a NOTIFY with the topic's name if the earliest ring time is at most `withinMs` from
 * now. `soonest` is a query for the earliest ring time. If `withinMs` is 0, no NOTIFY is sent.
 */
export const notifyIfNear = (soonest: string, withinMs: string, topicName: string): string =>
  `(SELECT pg_notify('tocsin', ${topicName})::text FROM t
    WHERE ${withinMs} > 0 AND (${soonest}) <= t.now_ms + ${withinMs})`

/**
 * Returns the CTE `graves`. The CTE deletes the earlier dead task of a key whose task dies now, because a key has at
 * most one dead task. `dies` is the condition for the rows of `removed` whose tasks die, beginning with a column name.
 */
export const graves = (dies: string): string => `graves AS (
    DELETE FROM tocsin.ended e USING removed r
    WHERE r.${dies} AND e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = ${DEAD} RETURNING 1
  )`

/**
 * A condition that is always true. The condition makes PostgreSQL run `graves` before the insert. Otherwise the insert
 * would violate the index ended_dead.
 */
export const GRAVES_EMPTIED = '(SELECT count(*) FROM graves) >= 0'

/**
 * Returns the condition that the ended task `n` is newer than the dead task `e` of the same key. A task that ended later
 * is newer, because a key has one live task at a time. Its generation may be lower: a statement takes its generations
 * before it waits for locks.
 */
export const newer = (n: string, e: string): string =>
  `(${n}.generation > ${e}.generation OR ${n}.ended_ms > ${e}.ended_ms)`

/**
 * Returns an expression that is true if a newer task of its key supersedes the dead task `e`. Each LIMIT keeps the
 * planner from reading all keys into a hash table.
 */
export const superseded = (e: string): string => {
  const same = (other: string) =>
    `${other}.topic = ${e}.topic AND ${other}.cell = ${e}.cell AND ${other}.key = ${e}.key`
  return `(${e}.outranked OR coalesce(
      (SELECT true FROM tocsin.live l WHERE ${same('l')} LIMIT 1),
      (SELECT true FROM tocsin.ended n WHERE ${same('n')} AND ${newer('n', e)} AND NOT n.outranked LIMIT 1),
      false))`
}

/**
 * Returns an expression that aggregates a column into one text. A result with one row per task would be slow: the rows
 * would take half of the time, in the server and in the client.
 */
export const numbers = (column: string): string => `string_agg(${column}::text, ',')`
/** The separator of the texts in an aggregate. Neither JSON nor a tag can contain this character. */
export const SEPARATOR = '\x1e'
/** The separator of ctids in a list. A ctid is written as '(page,number)'. */
export const CTID_SEPARATOR = ';'
export const texts = (column: string): string => `string_agg(${column}, E'\\x1e')`
