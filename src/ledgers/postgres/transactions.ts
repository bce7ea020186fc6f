import { type Clock, sleep } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { LedgerTransaction } from '../../ledger.ts'
import type { CellAddress, Place, RingTime, Selection } from '../../timetable.ts'
import type { Database } from './database.ts'
import { Readings } from './readings.ts'
import { translated } from './trouble.ts'
import type { Speaker, TopicName, Writes } from './writes.ts'

/** All that we ask of a client of the package pg. */
interface Client {
  query(statement: { text: string; values: unknown[]; rowMode: 'array'; types: unknown }): Promise<{
    rows: unknown[][]
  }>
}

/** PostgreSQL tells nobody else that a transaction is over: it is asked, soon at first. */
const ASK_MS_MIN = 5
const ASK_MS_MAX = 250

/** A statement takes at most this many tasks. */
const PIECE_MAX = 1_000

interface Known {
  /** The ledger that the client's database has; null: none. */
  ledgerId: Promise<string | null> | null
  /** Its transactions that may be open, and writes of which it is not known yet which they belong to. */
  readonly xids: Set<string>
  writing: number
}

/** Writes in the caller's transaction, on the caller's connection. */
export class Transactions {
  readonly #database: Database
  readonly #writes: Writes
  readonly #clock: Clock
  readonly #ledgerId: string
  readonly #topic: (name: string) => Promise<TopicName>
  /** A connection stays with its database: it is asked once which that is. */
  readonly #known = new WeakMap<object, Known>()

  constructor(
    database: Database,
    writes: Writes,
    clock: Clock,
    ledgerId: string,
    topic: (name: string) => Promise<TopicName>,
  ) {
    this.#database = database
    this.#writes = writes
    this.#clock = clock
    this.#ledgerId = ledgerId
    this.#topic = topic
  }

  within(tx: unknown): LedgerTransaction {
    const client = checkClient(tx)
    const known = this.#knownOf(client)
    const types = this.#database.types
    const ask = async (text: string, values: readonly unknown[]): Promise<unknown[][]> => {
      try {
        return (
          await client.query({
            text: this.#database.said(text),
            values: [...values],
            rowMode: 'array',
            types,
          })
        ).rows
      } catch (error) {
        // Undone or not is the caller's to decide: nothing of it counts before the commit.
        throw translated(error, this.#database.where, 'a write in your transaction', true, true)
      }
    }
    const speaker: Speaker = { query: ask, patience: null }
    const write = async <T>(topicName: string, work: (topic: TopicName) => Promise<T>): Promise<T> => {
      known.writing++
      try {
        const topic = await this.#topic(topicName)
        await this.#checkTransaction(known, ask)
        return await work(topic)
      } finally {
        known.writing--
      }
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
    const cancel = (topic: TopicName, places: readonly Place[]) =>
      inPieces(places, (some) => writes.cancel(speaker, topic, some))
    const reschedule = (topic: TopicName, places: readonly Place[], when: RingTime, quantumMs: number) =>
      inPieces(places, (some) => writes.reschedule(speaker, topic, some, when, quantumMs))
    return {
      schedule: (name, entries, quantumMs) =>
        write(name, (topic) => inPieces(entries, (some) => writes.schedule(speaker, topic, some, quantumMs))),
      cancel: (name, places) => write(name, (topic) => cancel(topic, places)),
      reschedule: (name, places, when, quantumMs) =>
        write(name, (topic) => reschedule(topic, places, when, quantumMs)),
      cancelBy: (name, cells, what) =>
        write(name, async (topic) => {
          const places = await found(topic, cells, what)
          return { places, answers: await cancel(topic, places) }
        }),
      rescheduleBy: (name, cells, what, when, quantumMs) =>
        write(name, async (topic) => {
          const places = await found(topic, cells, what)
          return { places, answers: await reschedule(topic, places, when, quantumMs) }
        }),
      ended: (isPointless) => this.#ended(known, isPointless),
    }
  }

  /** Which transaction it is, and whether it is one, on the ledger's own database. */
  #knownOf(client: object): Known {
    const known = this.#known.get(client) ?? { ledgerId: null, xids: new Set<string>(), writing: 0 }
    this.#known.set(client, known)
    return known
  }

  async #checkTransaction(known: Known, ask: Ask): Promise<void> {
    known.ledgerId ??= ledgerIdOf(ask)
    const ledgerId = await known.ledgerId.catch(() => {
      known.ledgerId = null
      return null
    })
    if (ledgerId !== this.#ledgerId)
      throw badTx(`its database is another one than the ledger's (${this.#database.where})`)
    // Outside a transaction each statement is one of its own: the second one has another id.
    const [[first], [second]] = (await Promise.all([
      ask(XID, []).then(([row]) => row),
      ask(XID, []).then(([row]) => row),
    ])) as [[string], [string]]
    if (first !== second)
      throw badTx("no transaction is open on it; send 'BEGIN' first, and 'COMMIT' when you are done")
    known.xids.add(first)
  }

  async #ended(known: Known, isPointless: () => boolean): Promise<void> {
    const { xids } = known
    for (let waitMs = ASK_MS_MIN; !isPointless();) {
      await sleep(this.#clock, waitMs, undefined, true)
      waitMs = Math.min(waitMs * 2, ASK_MS_MAX)
      const asked = [...xids]
      const rows = await this.#database
        .ask('follow', 'SELECT pg_xact_status(xid::xid8) FROM unnest($1::text[]) AS xid', [asked])
        .catch(() => null)
      if (rows?.every(([status]) => status !== 'in progress') !== true) continue
      for (const xid of asked) xids.delete(xid)
      if (xids.size === 0 && known.writing === 0) return
    }
  }
}

type Ask = (text: string, values: readonly unknown[]) => Promise<unknown[][]>

const XID = 'SELECT pg_current_xact_id()::text'

/** In two steps: a statement that names a table that is not there would undo the caller's transaction. */
async function ledgerIdOf(ask: Ask): Promise<string | null> {
  const [there] = await ask("SELECT to_regclass('tocsin.meta') IS NOT NULL", [])
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
  if (typeof client?.query !== 'function') throw badTx('expected a client of the package pg')
  if (client.totalCount !== undefined)
    throw badTx('a pool is not a transaction: take a client with pool.connect(), and BEGIN on it')
  return client as Client
}

function badTx(message: string): TocsinError {
  return new TocsinError('bad-tx', `tx: ${message}`, { field: 'tx' })
}
