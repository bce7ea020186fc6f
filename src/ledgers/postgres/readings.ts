/** Reads tasks and counters. No method here writes. */
import { BATCH_MAX } from '../../lib/batch-max.ts'
import type { Loaded, Recount } from '../../ledger.ts'
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import type { State } from '../../task.ts'
import type { Books, CellAddress, Counts, EntryView, ListQuery, Place, Selection } from '../../timetable.ts'
import type { Frontier, Hint } from '../../hint-table.ts'
import {
  compareEnded,
  DONE,
  ENDED_STATES,
  endedView,
  liveView,
  OBSOLETE,
  type SeenEndedRow,
  type SeenLiveRow,
} from '../rows.ts'
import { placeArrays } from './arrays.ts'
import { type HintRow, hintOfRow } from './rows.ts'
import { listBatches, listEnded, listLive } from './statements/lists.ts'
import { READS } from './statements/reads.ts'

type LiveRow = SeenLiveRow & { readonly is_claimed: boolean }

type Ask = (text: string, values: readonly unknown[]) => Promise<unknown[][]>

/** Reads with the function `ask`, which runs one statement on the ledger's connections or in a caller's transaction. */
export class Readings {
  readonly #ask: Ask

  constructor(ask: Ask) {
    this.#ask = ask
  }

  async get(topic: string, id: number, { key, cell }: Place): Promise<EntryView | null> {
    const [row] = await this.#ask(READS.get.text, [id, cell, key])
    const [live, ended, batched, isSuperseded] = row as [
      LiveRow | null,
      SeenEndedRow | null,
      SeenEndedRow | null,
      boolean | null,
    ]
    if (live !== null) return liveView(topic, live, live.is_claimed)
    if (batched !== null && (ended === null || compareEnded(batched, ended) > 0))
      return endedView(topic, batched, false)
    return ended === null ? null : endedView(topic, ended, isSuperseded === true)
  }

  async hints(id: number, places: readonly Place[]): Promise<(Hint | null)[]> {
    const rows = await this.#ask(READS.hints.text, [id, ...placeArrays(places)])
    const found = new Map((rows as HintRow[]).map((row) => [row[0], row]))
    return places.map(({ key }) => {
      const row = found.get(key)
      return row === undefined ? null : hintOfRow(row)
    })
  }

  async load(id: number, after: Frontier | null, untilMs: number, limit: number): Promise<Loaded> {
    const { ringMs, cell, key } = after ?? { ringMs: -1, cell: 0, key: '' }
    // Callers pass -Infinity for 'from the start' and Infinity for 'no end'. A bigint cannot be infinite, so the
    // statement gets -1 and LAST_INSTANT_MS instead.
    const values = [
      id,
      Math.max(ringMs, -1),
      cell,
      key,
      Math.min(Math.floor(untilMs), LAST_INSTANT_MS),
      limit,
    ]
    const rows = (await this.#ask(READS.load.text, values)) as HintRow[]
    const last = rows.length === limit ? rows.at(-1) : undefined
    return {
      hints: rows.map(hintOfRow),
      orderMs: rows.map(([, , ringMs]) => ringMs),
      frontier: last === undefined ? null : { ringMs: last[2], cell: last[1], key: last[0] },
    }
  }

  async list(topic: string, id: number, query: ListQuery): Promise<EntryView[]> {
    const state = query.state === null ? -1 : ENDED_STATES.indexOf(query.state as 'done')
    if (state > 0) return this.#listEnded(topic, id, state, query)
    const { text, values } = listLive(id, query)
    const rows = (await this.#ask(text, values)) as [LiveRow][]
    return rows.map(([row]) => liveView(topic, row, row.is_claimed))
  }

  /**
   * Lists ended tasks: those that have a row of their own, and those in batches. Both lists are in the same order, and are
   * merged. A task never moves from one to the other. Batches that ended after the rows were read are left out: another
   * task may have ended before them and have a row, and the next page would pass it over.
   */
  async #listEnded(topic: string, id: number, state: number, query: ListQuery): Promise<EntryView[]> {
    const { text, values } = listEnded(id, state, query)
    const rows = (await this.#ask(text, values)) as [nowMs: number, SeenEndedRow | null, boolean | null][]
    const isSuperseded = new Map(rows.map(([, row, is]) => [row, is === true]))
    const found = rows.flatMap(([, row]) => row ?? [])
    // A task with a tag has a row, and so have cancelled and dead tasks.
    if (query.tag === null && (state === DONE || state === OBSOLETE))
      found.push(...(await this.#listBatches(id, state, query, rows[0]?.[0] ?? 0)))
    found.sort(compareEnded)
    return found.slice(0, query.limit).map((row) => endedView(topic, row, isSuperseded.get(row) ?? false))
  }

  async #listBatches(id: number, state: number, query: ListQuery, toMs: number): Promise<SeenEndedRow[]> {
    const found: SeenEndedRow[] = []
    for (let fromMs = query.after?.ringMs ?? 0; found.length < query.limit;) {
      const { text, values } = listBatches(id, state, query, { fromMs, toMs })
      const rows = (await this.#ask(text, values)) as [readToMs: number | null, SeenEndedRow | null][]
      for (const [, row] of rows) if (row !== null) found.push(row)
      const [readToMs] = rows[0] as [number | null, unknown]
      if (readToMs === null) break
      fromMs = readToMs + 1
    }
    return found
  }

  async find(
    id: number,
    { cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    const values: unknown[] = [id, cell, cursor ?? '']
    let statement = among === 'live' ? READS.findLive : READS.findDead
    if ('tag' in what) {
      values.push(what.tag)
      statement = among === 'live' ? READS.findLiveByTag : READS.findDeadByTag
    } else if ('prefix' in what) {
      values.push(what.prefix, `${what.prefix}:`, `${what.prefix};`)
      statement = among === 'live' ? READS.findLiveByPrefix : READS.findDeadByPrefix
    }
    const rows = await this.#ask(statement.text, values)
    const keys = (rows as [string][]).map(([key]) => key)
    return { keys, cursor: keys.length === BATCH_MAX ? (keys.at(-1) ?? null) : null }
  }

  async counts(id: number): Promise<Counts> {
    const [row] = await this.#ask(READS.counts.text, [id])
    const { pending, claimed, dead } = booksOf(row as number[])
    return { pending, due: (row as number[])[7] ?? 0, claimed, dead }
  }

  async books(id: number): Promise<Books> {
    const [row] = await this.#ask(READS.books.text, [id])
    return booksOf(row as number[])
  }

  async forecast(id: number, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
    const rows = await this.#ask(READS.forecast.text, [id, fromMs, toMs, stepMs])
    for (const [step, due] of rows as [number, number][]) steps[step] = due
    return steps
  }

  async recount(id: number): Promise<{ books: Books; counted: Recount }> {
    const [row] = await this.#ask(READS.recount.text, [id])
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
}

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
