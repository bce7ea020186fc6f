import type { LedgerRescheduled, LedgerScheduled, LedgerTransaction } from '../../ledger.ts'
import type { CancelAnswer, CellAddress, NewEntry, Place, Selection } from '../../timetable.ts'
import { isBatchFull } from '../../lib/batch-max.ts'
import { byteSizeOf } from '../../lib/byte-size.ts'
import type { RingTime } from '../../values/ring-time.ts'
import { badTx } from '../../values/tx.ts'
import { placeArrays } from './arrays.ts'
import type { Database } from './database.ts'
import { isTransactionAborted, noOpenTransaction, toTocsinError } from './driver-errors.ts'
import { Readings } from './readings.ts'
import { NOTIFY_WITHIN_MS, type StatementRunner } from './statement-runner.ts'
import { TRANSACTIONS } from './statements/transactions.ts'
import type { TopicName, Writes } from './writes.ts'

/** The part of a pg client that Tocsin uses. The adapters, such as tocsin/drizzle, provide the same interface. */
export interface CallerClient {
  query(text: string, values: unknown[]): Promise<unknown>
}

export type Query = StatementRunner['query']

export interface CallerTransactionParts {
  readonly database: Database
  readonly writes: Writes
  readonly topic: (name: string) => Promise<TopicName>
  /** Throws if the client's database does not contain this ledger. */
  readonly checkLedger: (client: CallerClient, query: Query) => Promise<void>
}

type Write<T> = (runner: StatementRunner, topic: TopicName) => Promise<T>

/**
 * The writes in a caller's transaction, which the caller passed as `{ tx }`. The caller may end the transaction without
 * awaiting these writes. So each write first reads the id of the transaction. A statement that runs in a transaction
 * with another id does nothing.
 */
export class CallerTransaction implements LedgerTransaction {
  /** Null because consumers read the committed writes from the commit feed (the table tocsin.news). */
  readonly ended = null
  readonly isSynchronous = false
  readonly #client: CallerClient
  readonly #parts: CallerTransactionParts

  constructor(client: CallerClient, parts: CallerTransactionParts) {
    this.#client = client
    this.#parts = parts
  }

  schedule(name: string, entries: readonly NewEntry[], mergeMs: number): Promise<LedgerScheduled[]> {
    return this.#write(name, async (runner, topic) => {
      await this.#feed(runner, topic, entries)
      return inBatches(entries, (batch) => this.#parts.writes.schedule(runner, topic, batch, mergeMs))
    })
  }

  cancel(name: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#write(name, (runner, topic) => this.#cancel(runner, topic, places))
  }

  reschedule(
    name: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    return this.#write(name, (runner, topic) => this.#reschedule(runner, topic, places, when, mergeMs))
  }

  cancelBy(
    name: string,
    cells: readonly number[],
    what: Selection,
  ): Promise<{ places: Place[]; answers: CancelAnswer[] }> {
    return this.#write(name, async (runner, topic) => {
      const places = await this.#find(topic, cells, what)
      return { places, answers: await this.#cancel(runner, topic, places) }
    })
  }

  rescheduleBy(
    name: string,
    cells: readonly number[],
    what: Selection,
    when: RingTime,
    mergeMs: number,
  ): Promise<{ places: Place[]; answers: LedgerRescheduled[] }> {
    return this.#write(name, async (runner, topic) => {
      const places = await this.#find(topic, cells, what)
      return { places, answers: await this.#reschedule(runner, topic, places, when, mergeMs) }
    })
  }

  async #write<T>(name: string, work: Write<T>): Promise<T> {
    // This query is sent before anything is awaited. So it runs before a COMMIT that the caller sends without awaiting
    // this call.
    const idRead = this.#currentId()
    idRead.catch(() => {})
    const topic = await this.#parts.topic(name)
    await this.#parts.checkLedger(this.#client, this.#query)
    const transactionId = await idRead
    return work(
      {
        query: this.#query,
        lockTimeoutMs: null,
        transactionId,
        notAfterMs: null,
        notifyWithinMs: NOTIFY_WITHIN_MS,
      },
      topic,
    )
  }

  async #cancel(
    runner: StatementRunner,
    topic: TopicName,
    places: readonly Place[],
  ): Promise<CancelAnswer[]> {
    await this.#feed(runner, topic, places)
    const answers = await inBatches(places, (batch) => this.#parts.writes.cancel(runner, topic, batch))
    if (answers.every((answer) => answer === 'not-found')) await this.#checkOpen(runner)
    return answers
  }

  async #reschedule(
    runner: StatementRunner,
    topic: TopicName,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    const { writes } = this.#parts
    await this.#feed(runner, topic, places)
    const answers = await inBatches(places, (batch) => writes.reschedule(runner, topic, batch, when, mergeMs))
    if (answers.every(({ outcome }) => outcome === 'not-found')) await this.#checkOpen(runner)
    return answers
  }

  async #find(topic: TopicName, cells: readonly number[], what: Selection): Promise<Place[]> {
    const readings = new Readings(this.#query)
    const places: Place[] = []
    for (const cell of cells) {
      const at: CellAddress = { topic: topic.name, cell }
      let cursor: string | null = null
      do {
        const page = await readings.find(topic.id, at, 'live', what, cursor)
        for (const key of page.keys) places.push({ key, cell })
        cursor = page.cursor
      } while (cursor !== null)
    }
    return places
  }

  /**
   * Adds the tasks to the commit feed. Throws if the transaction has ended. Must be called before the tasks are
   * written, because the caller may commit between the two statements. Then the feed has tasks that were not written,
   * and its readers ignore these tasks. In the other order, written tasks would be missing in the feed.
   */
  async #feed(runner: StatementRunner, topic: TopicName, places: readonly Place[]): Promise<void> {
    if (places.length === 0) return this.#checkOpen(runner)
    const rows = await this.#query(TRANSACTIONS.feed.text, [
      topic.id,
      ...placeArrays(places),
      runner.transactionId,
    ])
    if (rows.length === 0) throw noOpenTransaction()
  }

  /**
   * Throws if the transaction has ended. A statement that runs after the end finds no task, so 'not-found' for all
   * tasks may mean that the transaction has ended. After the end, the current id differs from `transactionId`, because
   * every transaction, and every statement outside a transaction, has its own id.
   */
  async #checkOpen({ transactionId }: StatementRunner): Promise<void> {
    if (transactionId !== (await this.#currentId())) throw noOpenTransaction()
  }

  async #currentId(): Promise<string> {
    return ((await this.#query(TRANSACTIONS.currentId.text, [])) as [[string]])[0][0]
  }

  readonly #query: Query = async (text, values) => {
    const { database } = this.#parts
    // All values are sent as texts. Drivers convert numbers and lists differently, but PostgreSQL always converts texts
    // alike.
    const texts = values.map((value) => (value === null ? null : `${value as string | number | boolean}`))
    try {
      return rowsOf(await this.#client.query(database.textFor(text), texts))
    } catch (error) {
      if (isTransactionAborted(error))
        throw badTx("an earlier statement of your transaction failed; PostgreSQL accepts only 'ROLLBACK' now")
      // isRepeatable is true: nothing takes effect before the caller's commit, so a lost answer does not make the
      // outcome unknown.
      throw toTocsinError(error, database.where, 'a write in your transaction', true, true)
    }
  }
}

/** Returns each row as a list of its values, in the order of the columns. */
function rowsOf(answer: unknown): unknown[][] {
  const { rows } = answer as { rows: object[] }
  return rows.map((row) => Object.values(row))
}

/**
 * Writes the tasks in batches, one after the other. A batch has at most BATCH_MAX tasks, no more tasks once their
 * payloads have reached BATCH_BYTES_MAX, and each key only once.
 */
async function inBatches<P extends Place & { readonly body?: string }, A>(
  places: readonly P[],
  write: (places: readonly P[]) => Promise<readonly A[]>,
): Promise<A[]> {
  const answers: A[] = []
  let batch = new Map<string, P>()
  let bytes = 0
  const send = async () => {
    if (batch.size > 0) answers.push(...(await write([...batch.values()])))
    batch = new Map()
    bytes = 0
  }
  for (const place of places) {
    if (batch.has(place.key) || isBatchFull(batch.size, bytes)) await send()
    batch.set(place.key, place)
    bytes += byteSizeOf(place.body ?? '')
  }
  await send()
  return answers
}
