/** Pieces of SQL that several statements share. */
import { LAST_INSTANT_MS } from '../../../values/instant.ts'
import { DEAD } from '../../rows.ts'

interface Terms {
  /** Parameter: how long the statement waits for row locks, in milliseconds. NULL: as the connection is set. */
  readonly lockTimeoutMs?: string
  /**
   * Parameter: id of the transaction in which it must run. In another one `t` is empty, and nothing happens. NULL: any.
   */
  readonly transactionId?: string
  /** More columns. */
  readonly also?: string
}

/**
 * The CTE `t`: one row with the statement's clock, read once, and the conditions under which the statement runs. Every
 * use of a parameter has a cast of its own: some drivers send one parameter for each use.
 */
export const t = ({ lockTimeoutMs, transactionId, also = '' }: Terms): string => {
  const lockTimeout =
    lockTimeoutMs === undefined
      ? ''
      : `,
      CASE WHEN ${lockTimeoutMs}::integer IS NOT NULL
        THEN set_config('lock_timeout', ${lockTimeoutMs}::integer::text, true) END AS lock_timeout`
  const condition =
    transactionId === undefined
      ? ''
      : `
    WHERE ${transactionId}::text IS NULL OR ${transactionId}::text = pg_current_xact_id()::text`
  return `t AS MATERIALIZED (
    SELECT tocsin.now_ms() AS now_ms${also}${lockTimeout}${condition}
  )`
}

/** An array parameter beside the cells and keys. */
export interface Column {
  readonly name: string
  readonly array: string
}

const rows = (more: readonly Column[]): string => `
    SELECT i.*, t.now_ms FROM t, unnest($2::smallint[], $3::text[]${more.map(({ array }) => `, ${array}`).join('')})
      WITH ORDINALITY AS i (cell, key${more.map(({ name }) => `, ${name}`).join('')}, n)`

/** The CTE `input`: a row per task, numbered from 1 in `n`. */
export const input = (more: readonly Column[] = []): string => `input AS MATERIALIZED (${rows(more)}
  )`

export const SAME = 'l.topic = $1 AND l.cell = i.cell AND l.key = i.key'
export const IN_ORDER = 'ORDER BY i.cell, i.key'

/**
 * Every row of `input` with its live row, looked up by primary key and locked in one order. A plain join would let the
 * planner read the whole table where it takes the table for small, or believes that hardly any row is claimed.
 */
export const eachRow = (lock: string): string => `FROM (SELECT * FROM input ORDER BY cell, key) i
    CROSS JOIN LATERAL (SELECT * FROM tocsin.live l WHERE ${SAME} ${lock}) l`

/**
 * The same, for statements in which nearly every row fulfils `condition`. Returns only the physical place of the row
 * (`at`, `part`), the cheapest way to address it. A row that another transaction changes meanwhile has another place
 * when it is written to: the statement skips it and reports it as not found.
 */
export const eachRowWhere = (
  more: readonly Column[],
  condition: string,
  lock: string,
): string => `FROM (SELECT * FROM (${rows(more)}) i ${IN_ORDER}) i
    CROSS JOIN LATERAL (
      SELECT l.ctid AS at, l.tableoid AS part FROM tocsin.live l WHERE ${SAME} AND ${condition} ${lock}
    ) l`

/**
 * The row at a physical place, in its partition. No other condition may stand beside it: if the statement was planned
 * while the table was empty, the planner prefers that condition, and reads the whole topic for each row once it is
 * full.
 */
export const AT = 'l.ctid = i.at AND l.tableoid = i.part'

/** Releases a claim. */
export const FREE = 'session = NULL, stamp = NULL, lease_ms = NULL, started = 0'
export const IS_HELD = '(l.session IS NOT NULL AND l.lease_ms > i.now_ms)'
/** Columns that a task keeps when it ends. */
export const CARRIED = 'topic, cell, key, generation, due_ms, priority, deliveries, created_ms, tags, body'
export const prefixed = (table: string, columns: string): string => columns.replaceAll(/\w+/g, `${table}.$&`)

/** When a task rings that was wanted at that time. The same as ringMsAt in ring-time.ts. */
export const ringAt = (wanted: string, mergeMs: string): string => `least(greatest(
      CASE WHEN ${mergeMs} > 0 THEN ((${wanted}) + ${mergeMs} - 1) / ${mergeMs} * ${mergeMs} ELSE ${wanted} END,
    0), ${LAST_INSTANT_MS})`

/** Sends a NOTIFY with the topic's name if the soonest task rings within that time. */
export const notifyIfNear = (soonest: string, withinMs: string, topicName: string): string =>
  `(SELECT pg_notify('tocsin', ${topicName})::text FROM t
    WHERE ${withinMs} > 0 AND (${soonest}) <= t.now_ms + ${withinMs})`

/** The CTE `graves`: deletes the dead task of a key that dies again. A key has at most one dead task. */
export const graves = (dies: string): string => `graves AS (
    DELETE FROM tocsin.ended e USING removed r
    WHERE r.${dies} AND e.topic = $1 AND e.cell = r.cell AND e.key = r.key AND e.state = ${DEAD} RETURNING 1
  )`

/** Always true. Makes PostgreSQL run `graves` before the insert, which would otherwise violate the index ended_dead. */
export const GRAVES_EMPTIED = '(SELECT count(*) FROM graves) >= 0'

/** Aggregates a column into one text: a row for each task would take half of the time, on both ends. */
export const numbers = (column: string): string => `string_agg(${column}::text, ',')`
/** Separates texts in an aggregate. Neither JSON nor a tag contains it. */
export const SEPARATOR = '\x1e'
export const texts = (column: string): string => `string_agg(${column}, E'\\x1e')`
