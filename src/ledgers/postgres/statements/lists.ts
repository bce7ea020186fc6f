/**
 * The statements that list tasks. The text contains only the conditions of the query, so that the planner can choose an
 * index for these conditions.
 */
import type { ListQuery } from '../../../timetable.ts'
import { ALL_CELLS } from '../../../values/cell.ts'
import { LAST_INSTANT_MS } from '../../../values/instant.ts'
import { CLOCK_STEP_MAX_MS } from '../../rows.ts'
import { BATCHED_COLUMNS, EXPANDED } from './batches.ts'
import { ENDED_COLUMNS, IS_SUPERSEDED, LIVE_COLUMNS, TAG_NUMBERS } from './reads.ts'

interface ListStatement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** Returns the statement that lists live tasks, in the order of their ring times. */
export function listLive(topic: number, query: ListQuery): ListStatement {
  const { state, after } = query
  const where = new Conditions(topic)
  // There is no index of claimed tasks. They have rung, so tasks that ring later need not be read.
  if (state === 'claimed')
    where.add(`session IS NOT NULL AND ring_ms <= tocsin.now_ms() + ${CLOCK_STEP_MAX_MS}`)
  if (state === 'pending') where.add('session IS NULL')
  const dueFromMs = where.addFilters(query)
  // The index is ordered by ring time, and a task does not ring before it is due.
  if (dueFromMs !== null) where.add(`ring_ms >= ${dueFromMs}::bigint - ${CLOCK_STEP_MAX_MS}`)
  if (after !== null) {
    const ringMs = where.value(after.ringMs)
    where.add(`ring_ms >= ${ringMs}::bigint AND
        (ring_ms, failures, key) > (${ringMs}::bigint, ${where.value(after.failures)}::integer, ${where.value(after.key)})`)
  }
  const page = where.page(`SELECT ${LIVE_COLUMNS} FROM tocsin.live`, 'ring_ms, failures, key', query)
  return { text: `SELECT row_to_json(l) FROM (${page}) AS l`, values: where.values }
}

/**
 * Returns the statement that lists the tasks that ended in the given state, in the order in which they ended. The result has
 * at least one row: the time of the statement, a task as JSON or null, and whether it is superseded.
 */
export function listEnded(topic: number, state: number, query: ListQuery): ListStatement {
  const { after } = query
  const where = new Conditions(topic)
  where.add(`state = ${state}`)
  where.addFilters(query)
  if (after !== null) {
    const endedMs = where.value(after.ringMs)
    where.add(`ended_ms >= ${endedMs}::bigint AND
        (ended_ms, key, generation) > (${endedMs}::bigint, ${where.value(after.key)}, ${where.value(after.failures)}::bigint)`)
  }
  const page = where.page(`SELECT ${ENDED_COLUMNS} FROM tocsin.ended`, 'ended_ms, key, generation', query)
  const text = `SELECT tocsin.now_ms(), row_to_json(e), ${IS_SUPERSEDED} FROM (SELECT) AS one LEFT JOIN (${page}) AS e ON true`
  return { text, values: where.values }
}

/** The maximum number of batches that one statement reads for a list, not counting those of the same time. */
const BATCHES_READ = 64

/**
 * Returns the statement that lists the tasks in batches that ended in the given state, in the order in which they ended,
 * from the batches of `fromMs` to those of `toMs`. It reads no more batches than the page is likely to need: the caller sends the
 * next statement, with a later `fromMs`, if the filters left too few tasks. The result has at least one row: the time up
 * to which batches were read (null if there are no more), and a task as JSON, or null.
 *
 * A list of a prefix looks in the index of all cells for batches that may contain the prefix. Other lists read the
 * batches by time.
 */
export function listBatches(
  topic: number,
  state: number,
  query: ListQuery,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): ListStatement {
  const { after, prefix, limit } = query
  const batches = new Conditions(topic)
  batches.add(
    `state = ${state} AND ended_ms >= ${batches.value(fromMs)}::bigint AND ended_ms <= ${batches.value(toMs)}::bigint`,
  )
  const tasks: string[] = []
  if (query.dueFromMs > 0) {
    const dueFrom = batches.value(query.dueFromMs)
    batches.add(`due_to_ms >= ${dueFrom}::bigint`)
    tasks.push(`x.due_ms >= ${dueFrom}::bigint`)
  }
  if (query.dueToMs < LAST_INSTANT_MS) {
    const dueTo = batches.value(query.dueToMs)
    batches.add(`due_from_ms <= ${dueTo}::bigint`)
    tasks.push(`x.due_ms <= ${dueTo}::bigint`)
  }
  if (prefix !== null) {
    const [only, from, to] = [prefix, `${prefix}:`, `${prefix};`].map((value) => batches.value(value))
    // By hash first, which reads only the index, and then by the text of the keys.
    batches.add(`(cell, id) IN (
        SELECT c.cell, c.id FROM tocsin.ended_batch c WHERE c.topic = $1 AND c.cell IN (${ALL_CELLS.join(', ')})
          AND (tocsin.key_hash(${only}) = ANY (c.hashes) OR tocsin.key_hash(${from}) = ANY (c.hashes)))
      AND strpos(E'\\x1e' || keys, E'\\x1e' || ${only}::text) > 0`)
    tasks.push(`(x.key = ${only} OR (x.key >= ${from} AND x.key < ${to}))`)
  }
  const isFiltered = tasks.length > 0
  if (after !== null)
    tasks.push(`(b.ended_ms, x.key, x.generation) >
        (${batches.value(after.ringMs)}::bigint, ${batches.value(after.key)}::text COLLATE "C", ${batches.value(after.failures)}::bigint)`)
  const size = batches.value(limit)
  const text = `WITH found AS MATERIALIZED (
    SELECT * FROM tocsin.ended_batch WHERE ${batches.text} ORDER BY ended_ms FETCH FIRST ${BATCHES_READ} ROWS WITH TIES
  ),
  -- Without filters, the batches before this time have fewer tasks than the page. All batches of the same time are read,
  -- because their tasks are in the order of their keys.
  enough AS MATERIALIZED (
    SELECT * FROM (
      SELECT found.*, sum(count) OVER (ORDER BY ended_ms) - sum(count) OVER (PARTITION BY ended_ms) AS before FROM found
    ) AS s WHERE ${isFiltered} OR before < ${size}::bigint
  )
  SELECT (SELECT max(ended_ms) FROM enough), row_to_json(e) FROM (SELECT) AS one LEFT JOIN (
    SELECT ${BATCHED_COLUMNS} FROM enough b CROSS JOIN LATERAL ${EXPANDED}
    WHERE ${['true', ...tasks].join(' AND ')}
    ORDER BY b.ended_ms, x.key COLLATE "C", x.generation LIMIT ${size}::bigint
  ) AS e ON true`
  return { text, values: batches.values }
}

/** A WHERE clause, and the values of its parameters. */
class Conditions {
  readonly values: unknown[]
  #text = 'topic = $1'

  constructor(topic: number) {
    this.values = [topic]
  }

  /** Adds a value. Returns its parameter, such as '$2'. */
  value(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }

  get text(): string {
    return this.#text
  }

  add(condition: string): void {
    this.#text += ` AND ${condition}`
  }

  /** Adds the conditions that live and ended tasks share. Returns the parameter of `dueFromMs`, or null without one. */
  addFilters({ prefix, dueFromMs, dueToMs }: ListQuery): string | null {
    const dueFrom = dueFromMs > 0 ? this.value(dueFromMs) : null
    if (dueFrom !== null) this.add(`due_ms >= ${dueFrom}::bigint`)
    if (Number.isFinite(dueToMs)) this.add(`due_ms <= ${this.value(dueToMs)}::bigint`)
    if (prefix === null) return dueFrom
    const [only, from, to] = [prefix, `${prefix}:`, `${prefix};`].map((text) => this.value(text))
    // The keys are indexed per cell. With a list of all cells, the index is searched once for each cell.
    this.add(`cell IN (${ALL_CELLS.join(', ')}) AND (key = ${only} OR (key >= ${from} AND key < ${to}))`)
    return dueFrom
  }

  /**
   * Returns the query of one page. A tag may be at each of four positions, and each position has an index in the order
   * of the page. With OR, the planner cannot keep that order, and reads the whole topic if it takes the tag for frequent.
   */
  page(select: string, order: string, { tag, limit }: ListQuery): string {
    const ordered = `ORDER BY ${order} LIMIT ${this.value(limit)}`
    if (tag === null) return `${select} WHERE ${this.#text} ${ordered}`
    const tagged = this.value(tag)
    const positions = TAG_NUMBERS.map(
      (n) => `(${select} WHERE ${this.#text} AND tags[${n}] = ${tagged} ${ordered})`,
    )
    return `${positions.join('\n         UNION ALL ')}
         ${ordered}`
  }
}
