/** Ends many tasks of a cell at once, and deletes them when they are old. Runs in the transaction of its caller. */
import type { Database, Statement } from 'better-sqlite3'
import { groupBy } from '../../lib/group-by.ts'
import { DEAD } from '../rows.ts'
import { type BatchRow, NUMBERS, SEPARATOR } from './batch-rows.ts'
import { fingerprintsOf } from './fingerprints.ts'
import { KeyListStatement, KEYS_MAX } from './key-list-statement.ts'

/** Fewer tasks than this are written as a row each. So a batch saves more than its own row costs. */
export const BATCH_MIN = 16
/** A task with a longer body is written as a row of its own: one task of a batch is read with all the others. */
const BODY_BYTES_MAX = 2_048

/** Tasks that end in one way, under one token. */
export interface Ending {
  readonly topic: number
  readonly cell: number
  readonly state: number
  readonly session: number | null
  readonly stamp: number | null
  readonly endedMs: number
  /** False if ended tasks are deleted at once. */
  readonly keepsEnded: boolean
}

/**
 * The tasks that a batch takes: they are as the token says, and need no columns that only rows have. A task whose key has
 * a dead task gets a row, because it supersedes the dead one, and that is found by rows. So no batch has to be searched
 * for a newer task, or to store that one of its tasks was outranked.
 */
const PLAIN = `topic = ? AND cell = ? AND session IS ? AND stamp IS ? AND tags IS NULL AND error IS NULL
      AND failures = 0 AND octet_length(body) <= ${BODY_BYTES_MAX} AND instr(body, char(30)) = 0
      AND NOT EXISTS (SELECT 1 FROM tocsin_ended d INDEXED BY tocsin_dead
        WHERE d.topic = l.topic AND d.cell = l.cell AND d.key = l.key AND d.state = ${DEAD})`

export class BatchWriter {
  readonly #put: KeyListStatement
  readonly #count: KeyListStatement
  readonly #plain: KeyListStatement
  readonly #remove: KeyListStatement
  readonly #oldest: Statement
  readonly #delete: Statement
  readonly #shorten: Statement
  readonly #read: Statement

  constructor(database: Database) {
    const listed = (sqlOf: (list: string) => string) => new KeyListStatement(database, sqlOf)
    // safeIntegers(false): the connection may belong to the user, who may have set it to return BigInts.
    const prepare = (sql: string) => database.prepare(sql).safeIntegers(false)
    const joined = (column: string) => `group_concat(${column}, char(30))`
    // One statement checks that all tasks of the list are plain and copies them; otherwise it writes nothing.
    this.#put = listed(
      (
        list,
      ) => `INSERT INTO tocsin_batch (topic, cell, state, ended_ms, filter, tasks, due_min_ms, due_max_ms,
        priority, deliveries, keys, numbers, bodies)
      SELECT ?, ?, ?, ?, ?, count(*), min(due_ms), max(due_ms), min(priority), min(deliveries),
        ${joined('key')}, ${joined(NUMBERS)}, ${joined('body')}
      FROM tocsin_live l WHERE ${PLAIN} AND key IN (${list})
      HAVING count(*) = ? AND min(priority) = max(priority) AND min(deliveries) = max(deliveries)`,
    )
    this.#count = listed((list) => `SELECT count(*) FROM tocsin_live l WHERE ${PLAIN} AND key IN (${list})`)
    this.#plain = listed(
      (list) => `SELECT key, priority, deliveries FROM tocsin_live l WHERE ${PLAIN} AND key IN (${list})`,
    )
    this.#remove = listed(
      (list) => `DELETE FROM tocsin_live WHERE topic = ? AND cell = ? AND key IN (${list})`,
    )
    this.#oldest = prepare(`SELECT id, tasks FROM tocsin_batch INDEXED BY tocsin_batch_time
      WHERE topic = ? AND state = ? AND ended_ms < ? ORDER BY ended_ms LIMIT ?`)
    this.#delete = prepare('DELETE FROM tocsin_batch WHERE id = ?')
    this.#shorten = prepare(
      'UPDATE tocsin_batch SET tasks = ?, keys = ?, numbers = ?, bodies = ? WHERE id = ?',
    )
    this.#read = prepare('SELECT * FROM tocsin_batch WHERE id = ?')
  }

  /**
   * Moves the tasks from the live ones to batches. Returns the keys that it moved; all others are as they were: they are
   * not in this state, or have to be written as rows. The keys are distinct.
   */
  end(ending: Ending, keys: readonly string[]): readonly string[] {
    if (keys.length < BATCH_MIN) return []
    const lists = Math.ceil(keys.length / KEYS_MAX)
    if (lists === 1) return this.#endList(ending, keys)
    const length = Math.ceil(keys.length / lists)
    return Array.from({ length: lists }, (_, i) =>
      this.#endList(ending, keys.slice(i * length, (i + 1) * length)),
    ).flat()
  }

  #endList(ending: Ending, keys: readonly string[]): readonly string[] {
    if (this.#store(ending, keys)) return keys
    // Some are not plain, or they differ in a column that a batch has once. Rare, so they are asked for one by one.
    const plain = this.#plain.rows(conditionOf(ending), keys) as [string, number, number][]
    const alike = groupBy(plain, ([, priority, deliveries]) => `${priority} ${deliveries}`)
    return [...alike.values()]
      .map((group) => group.map(([key]) => key))
      .filter((group) => group.length >= BATCH_MIN && this.#store(ending, group))
      .flat()
  }

  /** Ends all tasks of the list, or none. */
  #store(ending: Ending, keys: readonly string[]): boolean {
    const { topic, cell, state, endedMs, keepsEnded } = ending
    const condition = conditionOf(ending)
    if (keepsEnded) {
      const head = [topic, cell, state, endedMs, fingerprintsOf(keys), ...condition]
      if (this.#put.run(head, keys, keys.length).changes === 0) return false
    } else if (this.#count.rows(condition, keys)[0]?.[0] !== keys.length) return false
    this.#remove.run([topic, cell], keys)
    return true
  }

  /**
   * Deletes at most `limit` tasks of a state that ended before this time, oldest batches first. The last batch is
   * shortened if it has more: the caller goes on only if exactly `limit` were deleted.
   */
  forget(topic: number, state: number, endedBeforeMs: number, limit: number): number {
    let deleted = 0
    const old = this.#oldest.all(topic, state, endedBeforeMs, limit) as Pick<BatchRow, 'id' | 'tasks'>[]
    for (const { id, tasks } of old) {
      if (deleted === limit) break
      if (deleted + tasks <= limit) this.#delete.run(id)
      else this.#cut(id, limit - deleted)
      deleted = Math.min(deleted + tasks, limit)
    }
    return deleted
  }

  /** Deletes the first tasks of a batch. Its fingerprints stay: one more batch is read in vain for their keys. */
  #cut(id: number, count: number): void {
    const { tasks, keys, numbers, bodies } = this.#read.get(id) as BatchRow
    const rest = (text: string) => text.split(SEPARATOR).slice(count).join(SEPARATOR)
    this.#shorten.run(tasks - count, rest(keys), rest(numbers), rest(bodies), id)
  }
}

function conditionOf({ topic, cell, session, stamp }: Ending): unknown[] {
  return [topic, cell, session, stamp]
}
