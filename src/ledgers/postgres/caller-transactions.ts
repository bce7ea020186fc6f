import type { LedgerTransaction } from '../../ledger.ts'
import type { CellAddress, Place, Selection } from '../../timetable.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Database } from './database.ts'
import { placeArrays } from './arrays.ts'
import { Readings } from './readings.ts'
import { badTx } from '../../values/tx.ts'
import { isSpoiled, overTx, translated } from './driver-errors.ts'
import { IN_TRANSACTION } from './write-statements.ts'
import type { Speaker, TopicName, Writes } from './writes.ts'

/** All that we ask of a client of the package pg, or of whatever stands for one. */
interface Client {
  query(text: string, values: unknown[]): Promise<unknown>
}

/** A statement takes at most this many tasks. */
const PIECE_MAX = 1_000

/** Whoever listens is told of what rings before the next look at the news. */
export const TELL_WITHIN_MS = 2_000

/** Writes in the caller's transaction, on the caller's connection. */
export class CallerTransactions {
  readonly #database: Database
  readonly #writes: Writes
  readonly #ledgerId: string
  readonly #topic: (name: string) => Promise<TopicName>
  /** The ledger that a client's database has; null: none. A connection stays with its database: it is asked once. */
  readonly #ledgerIds = new WeakMap<object, Promise<string | null>>()

  constructor(
    database: Database,
    writes: Writes,
    ledgerId: string,
    topic: (name: string) => Promise<TopicName>,
  ) {
    this.#database = database
    this.#writes = writes
    this.#ledgerId = ledgerId
    this.#topic = topic
  }

  within(tx: unknown): LedgerTransaction {
    const client = checkClient(tx)
    const ask = async (text: string, values: readonly unknown[]): Promise<unknown[][]> => {
      // As texts: what drivers make of numbers and lists differs, what PostgreSQL makes of texts does not.
      const texts = values.map((value) => (value === null ? null : `${value as string | number | boolean}`))
      try {
        return rowsOf(await client.query(this.#database.said(text), texts))
      } catch (error) {
        if (isSpoiled(error))
          throw badTx(
            "an earlier statement of your transaction failed; nothing is taken any more but 'ROLLBACK'",
          )
        // Undone or not is the caller's to decide: nothing of it counts before the commit.
        throw translated(error, this.#database.where, 'a write in your transaction', true, true)
      }
    }
    const xid = async () => ((await ask(XID, [])) as [[string]])[0][0]
    const write = async <T>(
      name: string,
      work: (speaker: Speaker, topic: TopicName) => Promise<T>,
    ): Promise<T> => {
      // Asked for at once: a COMMIT that somebody sends without waiting for us comes after it.
      const meant = xid()
      meant.catch(() => {})
      const topic = await this.#topic(name)
      await this.#checkLedger(client, ask)
      const terms = `${IN_TRANSACTION}${await meant}`
      return work({ query: ask, terms, tellWithinMs: TELL_WITHIN_MS }, topic)
    }
    /** Outside a transaction each statement is one of its own: the next one has another id. */
    const checkOpen = async ({ terms }: Speaker): Promise<void> => {
      if (terms !== `${IN_TRANSACTION}${await xid()}`) throw overTx()
    }
    /**
     * The news first: it is refused where no transaction is open. Where one is, and ends before the rest, there is
     * nothing to be found.
     */
    const told = async (speaker: Speaker, topic: TopicName, places: readonly Place[]): Promise<void> => {
      if (places.length === 0) return checkOpen(speaker)
      const rows = await ask(TELL, [topic.id, ...placeArrays(places), speaker.terms])
      if (rows.length === 0) throw overTx()
    }
    /** 'Not found' is also what a transaction finds that is over. */
    const sure = async <T extends { outcome: string } | string>(
      speaker: Speaker,
      answers: readonly T[],
    ): Promise<T[]> => {
      const isFound = (answer: T) => (typeof answer === 'string' ? answer : answer.outcome) !== 'not-found'
      if (!answers.some(isFound)) await checkOpen(speaker)
      return [...answers]
    }
    const found = async (topic: TopicName, cells: readonly number[], what: Selection): Promise<Place[]> => {
      const readings = new Readings(ask)
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
    const writes = this.#writes
    const cancel = async (speaker: Speaker, topic: TopicName, places: readonly Place[]) => {
      await told(speaker, topic, places)
      return sure(speaker, await inPieces(places, (some) => writes.cancel(speaker, topic, some)))
    }
    const reschedule = async (
      speaker: Speaker,
      topic: TopicName,
      places: readonly Place[],
      when: RingTime,
      mergeMs: number,
    ) => {
      await told(speaker, topic, places)
      const answers = await inPieces(places, (some) => writes.reschedule(speaker, topic, some, when, mergeMs))
      return sure(speaker, answers)
    }
    return {
      schedule: (name, entries, mergeMs) =>
        write(name, async (speaker, topic) => {
          await told(speaker, topic, entries)
          return inPieces(entries, (some) => writes.schedule(speaker, topic, some, mergeMs))
        }),
      cancel: (name, places) => write(name, (speaker, topic) => cancel(speaker, topic, places)),
      reschedule: (name, places, when, mergeMs) =>
        write(name, (speaker, topic) => reschedule(speaker, topic, places, when, mergeMs)),
      cancelBy: (name, cells, what) =>
        write(name, async (speaker, topic) => {
          const places = await found(topic, cells, what)
          return { places, answers: await cancel(speaker, topic, places) }
        }),
      rescheduleBy: (name, cells, what, when, mergeMs) =>
        write(name, async (speaker, topic) => {
          const places = await found(topic, cells, what)
          return { places, answers: await reschedule(speaker, topic, places, when, mergeMs) }
        }),
      ended: null,
      isSynchronous: false,
    }
  }

  async #checkLedger(client: object, ask: Ask): Promise<void> {
    const asked = this.#ledgerIds.get(client) ?? ledgerIdOf(ask)
    this.#ledgerIds.set(client, asked)
    const ledgerId = await asked.catch((error: unknown) => {
      this.#ledgerIds.delete(client)
      throw error
    })
    if (ledgerId !== this.#ledgerId)
      throw badTx(`its database is another one than the ledger's (${this.#database.where})`)
  }
}

type Ask = (text: string, values: readonly unknown[]) => Promise<unknown[][]>

export const XID = 'SELECT pg_current_xact_id()::text AS xid'

/** Whoever keeps a timetable hears of it once it is committed. */
const TELL = `INSERT INTO tocsin.news SELECT $1::integer, unnest($2::smallint[]), unnest($3::text[])
  WHERE $4::text = '${IN_TRANSACTION}' || pg_current_xact_id()::text RETURNING cell`

/** As lists, in the order of the columns. */
function rowsOf(answer: unknown): unknown[][] {
  const { rows } = answer as { rows: object[] }
  return rows.map((row) => Object.values(row))
}

/** In two steps: a statement that names a table that is not there would undo the caller's transaction. */
async function ledgerIdOf(ask: Ask): Promise<string | null> {
  const [there] = await ask("SELECT to_regclass('tocsin.meta') IS NOT NULL AS there", [])
  if (there?.[0] !== true) return null
  const [row] = await ask("SELECT value FROM tocsin.meta WHERE name = 'id'", [])
  return (row?.[0] as string | undefined) ?? null
}

/** One statement after the other: each knows a key once, and not too many of them. */
async function inPieces<P extends Place, A>(
  places: readonly P[],
  write: (places: readonly P[]) => Promise<readonly A[]>,
): Promise<A[]> {
  const answers: A[] = []
  let piece = new Map<string, P>()
  const send = async () => {
    if (piece.size > 0) answers.push(...(await write([...piece.values()])))
    piece = new Map()
  }
  for (const place of places) {
    if (piece.has(place.key) || piece.size === PIECE_MAX) await send()
    piece.set(place.key, place)
  }
  await send()
  return answers
}

function checkClient(tx: unknown): Client {
  const client = tx as Partial<Client & { totalCount: unknown }> | null
  if (typeof client?.query !== 'function')
    throw badTx(
      "expected a client of the package pg; an ORM's transaction goes through fromDrizzle, fromKysely, fromKnex or fromPrisma",
    )
  if (client.totalCount !== undefined)
    throw badTx('a pool is not a transaction: take a client with pool.connect(), and BEGIN on it')
  return client as Client
}
