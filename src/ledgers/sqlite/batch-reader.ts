/** Reads the ended tasks that are in batches. */
import type { Database, Statement } from 'better-sqlite3'
import type { ListQuery, Place } from '../../timetable.ts'
import { prefixOf } from '../../values/cell.ts'
import { compareEnded } from '../rows.ts'
import { type BatchRow, tasksOf } from './batch-rows.ts'
import { fingerprintOf } from './fingerprints.ts'
import type { EndedRow } from './rows.ts'

export class BatchReader {
  readonly #statements: ReturnType<typeof prepareAll>

  constructor(database: Database) {
    this.#statements = prepareAll(database)
  }

  /** Returns the task of a key that ended last, unless one that ended before `sinceMs`. */
  last(topic: number, { key, cell }: Place, sinceMs: number): EndedRow | undefined {
    const { lastTime, at } = this.#statements
    const fingerprint = fingerprintOf(key)
    for (let beforeMs = Number.MAX_SAFE_INTEGER; ;) {
      const endedMs = lastTime.get(topic, cell, sinceMs, beforeMs, fingerprint) as number | undefined
      if (endedMs === undefined) return undefined
      const batches = at.all(topic, cell, endedMs, fingerprint) as BatchRow[]
      const found = batches.flatMap(tasksOf).filter((task) => task.key === key)
      if (found.length > 0) return found.toSorted(compareEnded).at(-1)
      beforeMs = endedMs
    }
  }

  /**
   * Returns the tasks of a list that are in batches, in order, up to the limit or a little more, and none that ended after
   * `untilMs`. All tasks of a time are read together, because several batches may have them.
   */
  page(topic: number, state: number, query: ListQuery, untilMs: number): EndedRow[] {
    const { after, limit, prefix } = query
    // A position in a list of ended tasks has the generation in place of the failures.
    const last = after && { ended_ms: after.ringMs, key: after.key, generation: after.failures }
    const isWanted = (task: EndedRow): boolean =>
      task.due_ms >= query.dueFromMs &&
      task.due_ms <= query.dueToMs &&
      (prefix === null || prefixOf(task.key) === prefix) &&
      (last === null || compareEnded(task, last) > 0)
    const { nextTime, batches } = this.#listing(query)
    const page: EndedRow[] = []
    let endedMs: number | undefined
    for (let fromMs = after?.ringMs ?? 0; page.length < limit; fromMs = endedMs + 1) {
      const known = { topic, state, dueFrom: query.dueFromMs, dueTo: query.dueToMs }
      const values = prefix === null ? known : { ...known, fingerprint: fingerprintOf(prefix) }
      endedMs = nextTime.get({ ...values, from: fromMs, until: untilMs }) as number | undefined
      if (endedMs === undefined) break
      const tasks = (batches.all({ ...values, at: endedMs }) as BatchRow[]).flatMap(tasksOf)
      page.push(...tasks.filter(isWanted).toSorted(compareEnded))
    }
    return page
  }

  /** Returns the numbers of tasks in batches by state. */
  counts(topic: number): { state: number; tasks: number }[] {
    return this.#statements.counts.all(topic) as { state: number; tasks: number }[]
  }

  #listing({ prefix }: ListQuery): { nextTime: Statement; batches: Statement } {
    return prefix === null ? this.#statements.list : this.#statements.listPrefix
  }
}

function prepareAll(database: Database) {
  // safeIntegers(false): the connection may belong to the user, who may have set it to return BigInts.
  const prepare = (sql: string) => database.prepare(sql).safeIntegers(false)
  const place = 'tocsin_batch INDEXED BY tocsin_batch_place WHERE topic = ? AND cell = ?'
  const listing = (condition: string) => {
    const within = `due_max_ms >= @dueFrom AND due_min_ms <= @dueTo ${condition}`
    const time = 'tocsin_batch INDEXED BY tocsin_batch_time WHERE topic = @topic AND state = @state'
    return {
      nextTime:
        prepare(`SELECT ended_ms FROM ${time} AND ended_ms >= @from AND ended_ms <= @until AND ${within}
        ORDER BY ended_ms LIMIT 1`).pluck(),
      batches: prepare(`SELECT * FROM ${time} AND ended_ms = @at AND ${within}`),
    }
  }
  return {
    lastTime: prepare(`SELECT ended_ms FROM ${place} AND ended_ms >= ? AND ended_ms < ? AND instr(filter, ?)
      ORDER BY ended_ms DESC LIMIT 1`).pluck(),
    at: prepare(`SELECT * FROM ${place} AND ended_ms = ? AND instr(filter, ?)`),
    list: listing(''),
    listPrefix: listing('AND instr(filter, @fingerprint)'),
    counts: prepare(`SELECT state, sum(tasks) AS tasks FROM tocsin_batch INDEXED BY tocsin_batch_time
      WHERE topic = ? GROUP BY state`),
  }
}
