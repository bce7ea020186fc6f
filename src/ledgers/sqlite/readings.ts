/** Reads tasks and counters. No method here writes. */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import type { Database } from 'better-sqlite3'
import type { Loaded, Recount } from '../../ledger.ts'
import type { State } from '../../task.ts'
import type { Books, CellAddress, Counts, EntryView, ListQuery, Place, Selection } from '../../timetable.ts'
import { ALL_CELLS } from '../../values/cell.ts'
import type { ListPosition } from '../../values/list-position.ts'
import type { Frontier, Hint } from '../../hint-table.ts'
import type { StepTime } from './step-time.ts'
import { CLOCK_STEP_MAX_MS, compareEnded, DEAD, ENDED_STATES, hintOf, type WaitingRow } from '../rows.ts'
import { BatchReader } from './batch-reader.ts'
import { Records } from './records.ts'
import { Tokens } from './tokens.ts'
import {
  checkIntact,
  endedView,
  IS_SUPERSEDED,
  type LiveRow,
  liveView,
  type SupersedableRow,
} from './rows.ts'

interface TopicRow {
  readonly scheduled: number
  readonly done: number
  readonly cancelled: number
  readonly obsolete: number
  readonly dead: number
  readonly claimed: number
  readonly purged: number
}

export class Readings {
  readonly records: Records
  readonly tokens: Tokens
  readonly #database: Database
  readonly #session: number
  readonly #statements: ReturnType<typeof prepareAll>
  readonly #batches: BatchReader

  constructor(database: Database, session: number) {
    this.#database = database
    this.#session = session
    this.#statements = prepareAll(database)
    this.#batches = new BatchReader(database)
    this.records = new Records(database)
    this.tokens = new Tokens(database)
  }

  get(topicName: string, { key, cell }: Place): EntryView | null {
    const topic = this.#topicId(topicName)
    const row = this.#statements.row.get(topic, cell, key) as LiveRow | undefined
    const found = row ?? this.#lastEnded(topic, { key, cell })
    if (found === undefined) return null
    checkIntact(topicName, found)
    return row === undefined
      ? endedView(topicName, found as SupersedableRow)
      : liveView(topicName, row, this.#isClaimed(row))
  }

  hints(topicName: string, places: readonly Place[], time: StepTime): (Hint | null)[] {
    const topic = this.#topicId(topicName)
    return places.map(({ key, cell }) => {
      const row = this.#statements.hint.get(topic, cell, key) as HintRow | undefined
      return row === undefined || row.marked === 1 ? null : this.#hint(row, time)
    })
  }

  load(topicName: string, after: Frontier | null, untilMs: number, limit: number, time: StepTime): Loaded {
    const { ringMs, cell, key } = after ?? { ringMs: -1, cell: 0, key: '' }
    const topic = this.#topicId(topicName)
    // `after` is null, or has a ring time of -Infinity, to load from the start. The statement gets -1 instead, which is
    // before every ring time.
    const rows = this.#statements.load.all(
      topic,
      Math.max(ringMs, -1),
      cell,
      key,
      untilMs,
      limit,
    ) as HintRow[]
    const last = rows.length === limit ? rows.at(-1) : undefined
    return {
      hints: rows.map((row) => this.#hint(row, time)),
      orderMs: rows.map(({ ring_ms }) => ring_ms),
      frontier: last === undefined ? null : { ringMs: last.ring_ms, cell: last.cell, key: last.key },
    }
  }

  list(topicName: string, query: ListQuery, time: StepTime): EntryView[] {
    const topic = this.#topicId(topicName)
    const number = query.state === null ? -1 : ENDED_STATES.indexOf(query.state as 'done')
    return number > 0
      ? this.#listEnded(topicName, topic, number, query)
      : this.#listLive(topicName, topic, query, time)
  }

  find(
    { topic: topicName, cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): { keys: string[]; cursor: string | null } {
    const topic = this.#topicId(topicName)
    const after = cursor ?? ''
    const { findTagged, findTaggedDead, findPrefix, find } = this.#statements
    const page = (
      'tag' in what
        ? (among === 'live' ? findTagged : findTaggedDead).all({ topic, cell, after, tag: what.tag })
        : 'prefix' in what
          ? findPrefix[among].all({
              topic,
              cell,
              after,
              prefix: what.prefix,
              from: `${what.prefix}:`,
              to: `${what.prefix};`,
            })
          : find[among].all({ topic, cell, after })
    ) as string[]
    return { keys: page, cursor: page.length === BATCH_MAX ? (page.at(-1) ?? null) : null }
  }

  counts(topicName: string, time: StepTime): Counts {
    const { pending, claimed, dead } = this.books(topicName)
    const topic = this.#topicId(topicName)
    const rung = this.#statements.ringing.get(topic, time.nowMs) as number
    // The claimed tasks are subtracted, because they have rung, too. If the clock was set back after they were claimed,
    // the difference may be negative. Then the result is 0.
    return { pending, due: Math.max(0, rung - claimed), claimed, dead }
  }

  books(topicName: string): Books {
    const topic = this.#topicId(topicName)
    const row = this.#statements.books.get(topic) as TopicRow | undefined
    const { scheduled, done, cancelled, obsolete, dead, claimed, purged } = row ?? NO_TASKS
    const live = scheduled - done - cancelled - obsolete - dead - purged
    return { scheduled, pending: live - claimed, claimed, dead, done, cancelled, obsolete, purged }
  }

  forecast(topicName: string, fromMs: number, toMs: number, stepMs: number, time: StepTime): number[] {
    const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
    const { nowMs } = time
    // Overdue tasks ring now. So they are in the forecast only if now is.
    if (nowMs >= toMs) return steps
    const rows = this.#statements.forecast.all({
      topic: this.#topicId(topicName),
      now: nowMs,
      first: nowMs < fromMs ? fromMs : 0,
      from: fromMs,
      to: toMs,
      step: stepMs,
      session: this.#session,
    }) as { step: number; due: number }[]
    for (const { step, due } of rows) steps[step] = due
    return steps
  }

  /** Reads the books and counts the tasks in one transaction, because another thread may be writing. */
  recount(topicName: string): { books: Books; counted: Recount } {
    return this.#database.transaction(() => ({
      books: this.books(topicName),
      counted: this.#count(topicName),
    }))()
  }

  #count(topicName: string): Recount {
    const topic = this.#topicId(topicName)
    const live = this.#statements.live.get(topic) as number
    const claimed = this.#statements.held.get(topic, this.#session) as number
    const rows = this.#statements.ended.all(topic) as { state: number; tasks: number }[]
    const ended = [...rows, ...this.#batches.counts(topic)]
    const of = (state: State) =>
      ended.reduce((sum, row) => (ENDED_STATES[row.state] === state ? sum + row.tasks : sum), 0)
    const swept = this.#statements.swept.get(topic) as { done: number; cancelled: number; obsolete: number }
    return {
      pending: live - claimed,
      claimed,
      dead: of('dead'),
      done: of('done') + (swept?.done ?? 0),
      cancelled: of('cancelled') + (swept?.cancelled ?? 0),
      obsolete: of('obsolete') + (swept?.obsolete ?? 0),
    }
  }

  topics(): string[] {
    return this.#statements.topics.all() as string[]
  }

  #listLive(topicName: string, topic: number, query: ListQuery, time: StepTime): EntryView[] {
    const { state, tag } = query
    const isHeld = 'session = @session'
    // There is no index of claimed tasks. They have rung, so tasks that ring later need not be read.
    const claimed = `${isHeld} AND ring_ms <= @now + ${CLOCK_STEP_MAX_MS}`
    const held = state === 'claimed' ? claimed : state === 'pending' ? 'session IS NOT @session' : 'TRUE'
    const sql = `SELECT tocsin_live.* FROM tocsin_live
      ${tag === null ? '' : 'JOIN tocsin_tag USING (topic, cell, key)'}
      WHERE topic = @topic AND ${held} ${tag === null ? '' : 'AND tag = @tag'} ${filtered(query)} ${narrowed(query)}
      ${query.after === null ? '' : 'AND (ring_ms, failures, key) > (@ringMs, @failures, @after)'}
      ORDER BY ring_ms, failures, key LIMIT @limit`
    const rows = this.#database
      .prepare(sql)
      .safeIntegers(false)
      .all({
        ...parameters(topic, query),
        session: this.#session,
        now: time.nowMs,
      }) as LiveRow[]
    return rows.map((row) => liveView(topicName, row, this.#isClaimed(row)))
  }

  #listEnded(topicName: string, topic: number, state: number, query: ListQuery): EntryView[] {
    const tagged =
      query.tag === null ? '' : 'AND instr(char(10) || tags || char(10), char(10) || @tag || char(10))'
    const sql = `SELECT *, ${IS_SUPERSEDED} AS is_superseded FROM (
      SELECT * FROM tocsin_ended WHERE topic = @topic AND state = ${state} ${tagged} ${filtered(query)}
      ${query.after === null ? '' : 'AND (ended_ms, key, generation) > (@ringMs, @after, @failures)'}
      ORDER BY ended_ms, key, generation LIMIT @limit) AS e`
    // One transaction, because the thread of the writer may commit between the two reads: of two tasks that end then, the
    // later one could be on this page, and the earlier one on none.
    return this.#database.transaction(() => {
      const rows = this.#database
        .prepare(sql)
        .safeIntegers(false)
        .all(parameters(topic, query)) as SupersedableRow[]
      return this.#withBatches(topic, state, query, rows).map((row) => endedView(topicName, row))
    })()
  }

  /** Adds the tasks of batches to a page of rows. Tasks with tags and dead tasks are not in batches. */
  #withBatches(
    topic: number,
    state: number,
    query: ListQuery,
    rows: readonly SupersedableRow[],
  ): readonly SupersedableRow[] {
    if (state === DEAD || query.tag !== null) return rows
    const untilMs = rows.length < query.limit ? Number.MAX_SAFE_INTEGER : (rows.at(-1)?.ended_ms ?? 0)
    const others = this.#batches.page(topic, state, query, untilMs)
    if (others.length === 0) return rows
    const all = [...rows, ...others.map((row) => ({ ...row, is_superseded: 0 }))]
    return all.toSorted(compareEnded).slice(0, query.limit)
  }

  #lastEnded(topic: number, place: Place): SupersedableRow | undefined {
    const { lastEnded } = this.#statements
    const row = lastEnded.get(topic, place.cell, place.key) as SupersedableRow | undefined
    const other = this.#batches.last(topic, place, row?.ended_ms ?? 0)
    if (other === undefined) return row
    return row !== undefined && compareEnded(row, other) > 0 ? row : { ...other, is_superseded: 0 }
  }

  #hint(row: HintRow, time: StepTime): Hint {
    if (row.session === null) return hintOf(row)
    if (this.#isHeld(row, time))
      return hintOf(row, Math.ceil(time.nowMs + (row.lease_ms as number) - time.steadyMs))
    // The lease has expired, or the claim is of an earlier session. The next claim will count a lost lease. The hint
    // counts it already, because this loss may make the task a suspect.
    return hintOf({ ...row, lost: row.lost + 1 })
  }

  /** Returns true until the claim is settled or found expired. Returns false for a claim of an earlier session. */
  #isClaimed({ session }: LiveRow): boolean {
    return session === this.#session
  }

  #isHeld({ session, lease_ms }: HintRow, { steadyMs }: StepTime): boolean {
    return session === this.#session && (lease_ms as number) > steadyMs
  }

  /**
   * Returns -1, the id of no row, if the topic does not exist yet. The id is not cached, because the transaction that
   * creates the topic may be rolled back.
   */
  #topicId(name: string): number {
    return (this.#statements.topic.get(name) as number | undefined) ?? -1
  }
}

/** The columns of a hint. The body is left out, because hints are read often and a body may be large. */
const HINT = 'key, cell, ring_ms, failures, priority, lost, session, lease_ms, marked'
type HintRow = WaitingRow & Pick<LiveRow, 'session' | 'lease_ms' | 'marked'>

const NO_TASKS: TopicRow = {
  scheduled: 0,
  done: 0,
  cancelled: 0,
  obsolete: 0,
  dead: 0,
  claimed: 0,
  purged: 0,
}

function filtered({ prefix, dueFromMs, dueToMs }: ListQuery): string {
  const due = dueFromMs > 0 || Number.isFinite(dueToMs) ? 'AND due_ms BETWEEN @dueFrom AND @dueTo' : ''
  return prefix === null ? due : `${due} AND (key = @prefix OR (key >= @prefixFrom AND key < @prefixTo))`
}

/** The conditions of a list of live tasks that make an index usable. They exclude no task of the list. */
function narrowed({ prefix, dueFromMs }: ListQuery): string {
  // An index is ordered by ring time, and a task does not ring before it is due. The keys are indexed per cell.
  const ring = dueFromMs > 0 ? `AND ring_ms >= @dueFrom - ${CLOCK_STEP_MAX_MS}` : ''
  return prefix === null ? ring : `${ring} AND cell IN (${ALL_CELLS.join(', ')})`
}

function parameters(topic: number, query: ListQuery): Record<string, unknown> {
  const { tag, prefix, dueFromMs, dueToMs, limit, after } = query
  const position: Partial<ListPosition> = after ?? {}
  return {
    topic,
    tag,
    limit,
    dueFrom: dueFromMs,
    dueTo: dueToMs,
    prefix,
    prefixFrom: `${prefix}:`,
    prefixTo: `${prefix};`,
    ringMs: position.ringMs,
    failures: position.failures,
    after: position.key,
  }
}

function prepareAll(database: Database) {
  // safeIntegers(false): the connection may belong to the user, who may have set it to return BigInts.
  const prepare = (sql: string) => database.prepare(sql).safeIntegers(false)
  const found = (sql: string) => prepare(`SELECT key FROM ${sql} ORDER BY key LIMIT ${BATCH_MAX}`).pluck()
  const live = 'tocsin_live WHERE topic = @topic AND cell = @cell AND key > @after'
  const dead = `tocsin_ended WHERE topic = @topic AND cell = @cell AND key > @after AND state = ${DEAD}`
  // The prefix itself is a key of its own, and comes before all the others. With OR, SQLite reads the whole cell.
  const ofPrefix = (keys: string) =>
    found(`(SELECT key FROM ${keys} AND key = @prefix
      UNION ALL SELECT key FROM ${keys} AND key >= @from AND key < @to)`)
  return {
    topic: prepare('SELECT id FROM tocsin_topic WHERE name = ?').pluck(),
    topics: prepare('SELECT name FROM tocsin_topic ORDER BY name').pluck(),
    row: prepare('SELECT * FROM tocsin_live WHERE topic = ? AND cell = ? AND key = ?'),
    // The index is named for the reason given in rows.ts.
    lastEnded: prepare(
      `SELECT *, ${IS_SUPERSEDED} AS is_superseded FROM tocsin_ended e INDEXED BY tocsin_ended_place
      WHERE topic = ? AND cell = ? AND key = ? ORDER BY ended_ms DESC, generation DESC LIMIT 1`,
    ),
    hint: prepare(`SELECT ${HINT} FROM tocsin_live WHERE topic = ? AND cell = ? AND key = ?`),
    load: prepare(`SELECT ${HINT} FROM tocsin_live WHERE topic = ? AND (ring_ms, cell, key) > (?, ?, ?)
      AND ring_ms <= ? ORDER BY ring_ms, cell, key LIMIT ?`),
    findTagged: found('tocsin_tag WHERE topic = @topic AND tag = @tag AND cell = @cell AND key > @after'),
    findTaggedDead: found(`${dead} AND instr(char(10) || tags || char(10), char(10) || @tag || char(10))`),
    findPrefix: { live: ofPrefix(live), dead: ofPrefix(dead) },
    find: { live: found(live), dead: found(dead) },
    books: prepare('SELECT * FROM tocsin_topic WHERE id = ?'),
    held: prepare('SELECT count(*) FROM tocsin_live WHERE topic = ? AND session = ?').pluck(),
    ringing: prepare('SELECT count(*) FROM tocsin_live WHERE topic = ? AND ring_ms <= ?').pluck(),
    live: prepare('SELECT count(*) FROM tocsin_live WHERE topic = ?').pluck(),
    ended: prepare('SELECT state, count(*) AS tasks FROM tocsin_ended WHERE topic = ? GROUP BY state'),
    swept: prepare(`SELECT done_swept AS done, cancelled_swept AS cancelled, obsolete_swept AS obsolete
      FROM tocsin_topic WHERE id = ?`),
    forecast:
      prepare(`SELECT CAST((max(ring_ms, @now) - @from) / @step AS INTEGER) AS step, count(*) AS due FROM tocsin_live
      WHERE topic = @topic AND ring_ms >= @first AND ring_ms < @to AND session IS NOT @session GROUP BY 1`),
  }
}
