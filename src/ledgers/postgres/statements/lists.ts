/**
 * The statements that list tasks. The text contains only the conditions of the query, so that the planner can choose an
 * index for these conditions.
 */
import type { ListQuery } from '../../../timetable.ts'
import { ENDED_COLUMNS, LIVE_COLUMNS, TAG_NUMBERS } from './reads.ts'

interface ListStatement {
  readonly text: string
  readonly values: readonly unknown[]
}

/** Returns the statement that lists live tasks, in the order of their ring times. */
export function listLive(topic: number, query: ListQuery): ListStatement {
  const { state, tag, after } = query
  const where = new Conditions(topic)
  if (state === 'claimed') where.add('session IS NOT NULL')
  if (state === 'pending') where.add('session IS NULL')
  if (tag !== null) where.add(`(${TAG_NUMBERS.map((n) => `tags[${n}] = ${where.value(tag)}`).join(' OR ')})`)
  where.addFilters(query)
  if (after !== null) {
    const ringMs = where.value(after.ringMs)
    where.add(`ring_ms >= ${ringMs}::bigint AND
        (ring_ms, failures, key) > (${ringMs}::bigint, ${where.value(after.failures)}::integer, ${where.value(after.key)})`)
  }
  return {
    text: `SELECT row_to_json(l) FROM (SELECT ${LIVE_COLUMNS} FROM tocsin.live WHERE ${where.text}
         ORDER BY ring_ms, failures, key LIMIT ${where.value(query.limit)}) AS l`,
    values: where.values,
  }
}

/** Returns the statement that lists the tasks that ended in the given state, in the order in which they ended. */
export function listEnded(topic: number, state: number, query: ListQuery): ListStatement {
  const { tag, after } = query
  const where = new Conditions(topic)
  where.add(`state = ${state}`)
  if (tag !== null) where.add(`${where.value(tag)} = ANY (tags)`)
  where.addFilters(query)
  if (after !== null) {
    const endedMs = where.value(after.ringMs)
    where.add(`ended_ms >= ${endedMs}::bigint AND
        (ended_ms, key, generation) > (${endedMs}::bigint, ${where.value(after.key)}, ${where.value(after.failures)}::bigint)`)
  }
  return {
    text: `SELECT row_to_json(e) FROM (SELECT ${ENDED_COLUMNS} FROM tocsin.ended WHERE ${where.text}
         ORDER BY ended_ms, key, generation LIMIT ${where.value(query.limit)}) AS e`,
    values: where.values,
  }
}

/** A WHERE clause, and the values of its parameters. */
class Conditions {
  readonly values: unknown[]
  text = 'topic = $1'

  constructor(topic: number) {
    this.values = [topic]
  }

  /** Adds a value. Returns its parameter, such as '$2'. */
  value(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }

  add(condition: string): void {
    this.text += ` AND ${condition}`
  }

  addFilters({ prefix, dueFromMs, dueToMs }: ListQuery): void {
    if (dueFromMs > 0) this.add(`due_ms >= ${this.value(dueFromMs)}::float8`)
    if (Number.isFinite(dueToMs)) this.add(`due_ms <= ${this.value(dueToMs)}::float8`)
    if (prefix === null) return
    const [only, from, to] = [prefix, `${prefix}:`, `${prefix};`].map((text) => this.value(text))
    this.add(`(key = ${only} OR (key >= ${from} AND key < ${to}))`)
  }
}
