/** What onlookers and loaders see. Nothing here changes anything. */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import type { Loaded, Recount } from '../../ledger.ts'
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import type { State } from '../../task.ts'
import type { Books, CellAddress, Counts, EntryView, ListQuery, Place, Selection } from '../../timetable.ts'
import type { Frontier, Hint } from '../../hint-table.ts'
import { DEAD, ENDED_STATES, endedView, liveView, type SeenEndedRow, type SeenLiveRow } from '../rows.ts'
import { placeArrays } from './arrays.ts'
import { type HintRow, hintOfRow } from './rows.ts'

/** Without the body: the near tasks of a topic are read again and again. */
const HINT = 'l.key, l.cell, l.ring_ms, l.failures, l.priority, l.lost, l.lease_ms, tocsin.now_ms()'

export const LOAD = `SELECT ${HINT} FROM tocsin.live l
  WHERE l.topic = $1 AND (l.ring_ms, l.cell, l.key) > ($2::bigint, $3::smallint, $4::text COLLATE "C") AND l.ring_ms <= $5
  ORDER BY l.ring_ms, l.cell, l.key LIMIT $6`

const LIVE = `key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\\n') AS tags, body`
const ENDED = `key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\\n') AS tags, body`

type LiveRow = SeenLiveRow & { readonly is_claimed: boolean }

type Ask = (text: string, values: readonly unknown[]) => Promise<unknown[][]>

/** On whatever connection: `ask` is one statement on it. */
export class Readings {
  readonly #ask: Ask

  constructor(ask: Ask) {
    this.#ask = ask
  }

  async get(topic: string, id: number, { key, cell }: Place): Promise<EntryView | null> {
    // One statement, one moment: between two a task may end, and be in neither.
    const [row] = await this.#ask(
      `SELECT row_to_json(l), row_to_json(e) FROM (SELECT) AS one
       LEFT JOIN LATERAL (SELECT ${LIVE} FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key = $3) AS l ON true
       LEFT JOIN LATERAL (SELECT ${ENDED} FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key = $3
         ORDER BY ended_ms DESC, generation DESC LIMIT 1) AS e ON true`,
      [id, cell, key],
    )
    const [live, ended] = row as [LiveRow | null, SeenEndedRow | null]
    if (live !== null) return liveView(topic, live, live.is_claimed)
    return ended === null ? null : endedView(topic, ended)
  }

  async hints(id: number, places: readonly Place[]): Promise<(Hint | null)[]> {
    const rows = await this.#ask(
      `SELECT ${HINT} FROM unnest($2::smallint[], $3::text[]) AS i (cell, key)
       JOIN tocsin.live l ON l.topic = $1 AND l.cell = i.cell AND l.key = i.key WHERE NOT l.marked`,
      [id, ...placeArrays(places)],
    )
    const found = new Map((rows as HintRow[]).map((row) => [row[0], row]))
    return places.map(({ key }) => {
      const row = found.get(key)
      return row === undefined ? null : hintOfRow(row)
    })
  }

  async load(id: number, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded> {
    const { ringMs, cell, key } = after ?? { ringMs: -1, cell: 0, key: '' }
    // Infinity is how nowhere and for ever are computed with.
    const values = [
      id,
      Math.max(ringMs, -1),
      cell,
      key,
      Math.min(Math.floor(untilMs), LAST_INSTANT_MS),
      limit,
    ]
    const rows = (await this.#ask(LOAD, values)) as HintRow[]
    const last = rows.length === limit ? rows.at(-1) : undefined
    return {
      hints: rows.map(hintOfRow),
      orderMs: rows.map(([, , ringMs]) => ringMs),
      frontier: last === undefined ? null : { ringMs: last[2], cell: last[1], key: last[0] },
    }
  }

  list(topic: string, id: number, query: ListQuery): Promise<EntryView[]> {
    const state = query.state === null ? -1 : ENDED_STATES.indexOf(query.state as 'done')
    return state > 0 ? this.#listEnded(topic, id, state, query) : this.#listLive(topic, id, query)
  }

  async find(
    id: number,
    { cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    const dead = among === 'dead' ? `AND state = ${DEAD}` : ''
    const from = `SELECT key FROM tocsin.${among === 'dead' ? 'ended' : 'live'}
      WHERE topic = $1 AND cell = $2 AND key > $3 ${dead}`
    const values: unknown[] = [id, cell, cursor ?? '']
    let text = from
    if ('tag' in what) {
      values.push(what.tag)
      text =
        among === 'dead'
          ? `${from} AND $4 = ANY (tags)`
          : [1, 2, 3, 4]
              .map((n) => `(${from} AND tags[${n}] = $4 ORDER BY key LIMIT ${BATCH_MAX})`)
              .join(' UNION ')
    } else if ('prefix' in what) {
      values.push(what.prefix, `${what.prefix}:`, `${what.prefix};`)
      text = `${from} AND (key = $4 OR (key >= $5 AND key < $6))`
    }
    const rows = await this.#ask(`${text} ORDER BY key LIMIT ${BATCH_MAX}`, values)
    const keys = (rows as [string][]).map(([key]) => key)
    return { keys, cursor: keys.length === BATCH_MAX ? (keys.at(-1) ?? null) : null }
  }

  async counts(id: number): Promise<Counts> {
    const [row] = await this.#ask(
      `SELECT ${BOOKS}, (SELECT count(*) FROM tocsin.live
        WHERE topic = $1 AND ring_ms <= tocsin.now_ms() AND session IS NULL) FROM tocsin.tally WHERE topic = $1`,
      [id],
    )
    const { pending, claimed, dead } = booksOf(row as number[])
    return { pending, due: (row as number[])[7] ?? 0, claimed, dead }
  }

  async books(id: number): Promise<Books> {
    const [row] = await this.#ask(`SELECT ${BOOKS} FROM tocsin.tally WHERE topic = $1`, [id])
    return booksOf(row as number[])
  }

  async forecast(id: number, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
    const rows = await this.#ask(
      `SELECT floor((rings - $2::float8) / $4::float8)::integer AS step, count(*) FROM (
         SELECT greatest(ring_ms, tocsin.now_ms()) AS rings FROM tocsin.live
         WHERE topic = $1 AND ring_ms < $3::float8 AND session IS NULL
       ) AS l WHERE rings >= $2::float8 AND rings < $3::float8 GROUP BY 1`,
      [id, fromMs, toMs, stepMs],
    )
    for (const [step, due] of rows as [number, number][]) steps[step] = due
    return steps
  }

  async recount(id: number): Promise<{ books: Books; counted: Recount }> {
    // One statement, one moment.
    const [row] = await this.#ask(
      `SELECT ${BOOKS}, coalesce(sum(done_swept), 0)::bigint, coalesce(sum(cancelled_swept), 0)::bigint,
         coalesce(sum(obsolete_swept), 0)::bigint,
         (SELECT count(*) FROM tocsin.live WHERE topic = $1),
         (SELECT count(*) FROM tocsin.live WHERE topic = $1 AND session IS NOT NULL),
         (SELECT json_object_agg(state, tasks) FROM (
           SELECT state, count(*) AS tasks FROM tocsin.ended WHERE topic = $1 GROUP BY state) AS e)
       FROM tocsin.tally WHERE topic = $1`,
      [id],
    )
    const numbers = row as number[]
    const [doneSwept = 0, cancelledSwept = 0, obsoleteSwept = 0, live = 0, claimed = 0] = numbers.slice(7, 12)
    const ended = ((row as unknown[])[12] ?? {}) as Record<string, number>
    const of = (state: State) => ended[ENDED_STATES.indexOf(state as 'done')] ?? 0
    return {
      books: booksOf(numbers),
      counted: {
        pending: live - claimed,
        claimed,
        dead: of('dead'),
        done: of('done') + doneSwept,
        cancelled: of('cancelled') + cancelledSwept,
        obsolete: of('obsolete') + obsoleteSwept,
      },
    }
  }

  async #listLive(topic: string, id: number, query: ListQuery): Promise<EntryView[]> {
    const { state, tag, after } = query
    const where = new Conditions(id)
    if (state === 'claimed') where.add('session IS NOT NULL')
    if (state === 'pending') where.add('session IS NULL')
    if (tag !== null)
      where.add(`(${[1, 2, 3, 4].map((n) => `tags[${n}] = ${where.value(tag)}`).join(' OR ')})`)
    where.addFilters(query)
    if (after !== null) {
      const ringMs = where.value(after.ringMs)
      where.add(`ring_ms >= ${ringMs}::bigint AND
        (ring_ms, failures, key) > (${ringMs}::bigint, ${where.value(after.failures)}::integer, ${where.value(after.key)})`)
    }
    const rows = await this.#ask(
      `SELECT row_to_json(l) FROM (SELECT ${LIVE} FROM tocsin.live WHERE ${where.text}
         ORDER BY ring_ms, failures, key LIMIT ${where.value(query.limit)}) AS l`,
      where.values,
    )
    return (rows as [LiveRow][]).map(([row]) => liveView(topic, row, row.is_claimed))
  }

  async #listEnded(topic: string, id: number, state: number, query: ListQuery): Promise<EntryView[]> {
    const { tag, after } = query
    const where = new Conditions(id)
    where.add(`state = ${state}`)
    if (tag !== null) where.add(`${where.value(tag)} = ANY (tags)`)
    where.addFilters(query)
    if (after !== null) {
      const endedMs = where.value(after.ringMs)
      where.add(`ended_ms >= ${endedMs}::bigint AND
        (ended_ms, key, generation) > (${endedMs}::bigint, ${where.value(after.key)}, ${where.value(after.failures)}::bigint)`)
    }
    const rows = await this.#ask(
      `SELECT row_to_json(e) FROM (SELECT ${ENDED} FROM tocsin.ended WHERE ${where.text}
         ORDER BY ended_ms, key, generation LIMIT ${where.value(query.limit)}) AS e`,
      where.values,
    )
    return (rows as [SeenEndedRow][]).map(([row]) => endedView(topic, row))
  }
}

/** What must hold, with the values that it speaks of. */
class Conditions {
  readonly values: unknown[]
  text = 'topic = $1'

  constructor(topic: number) {
    this.values = [topic]
  }

  /** Answers how it is called in the text. */
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

const BOOKS = ['scheduled', 'done', 'cancelled', 'obsolete', 'dead', 'claimed', 'purged']
  .map((name) => `coalesce(sum(${name}), 0)::bigint`)
  .join(', ')

function booksOf([
  scheduled = 0,
  done = 0,
  cancelled = 0,
  obsolete = 0,
  dead = 0,
  claimed = 0,
  purged = 0,
]: readonly number[]): Books {
  const live = scheduled - done - cancelled - obsolete - dead - purged
  return { scheduled, pending: live - claimed, claimed, dead, done, cancelled, obsolete, purged }
}
