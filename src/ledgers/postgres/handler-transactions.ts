import type { Pool, PoolClient } from 'pg'
import { type Clock, withDeadline } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { HandlerTransaction, LedgerSettled } from '../../ledger.ts'
import { badTx, type Tx } from '../../values/tx.ts'
import { numberArray, placeArrays } from './arrays.ts'
import type { Database } from './database.ts'
import { XID } from './caller-transactions.ts'
import { isPassing, isRefusal, isSpoiled, translated } from './driver-errors.ts'
import type { Speaker, TopicName, Writes } from './writes.ts'

/** Outcomes wait so long for somebody else's lock; then all is undone, and tried again later. */
const PATIENCE = '1s'

/** By the primary key of each, as in write-statements.ts. */
const HOLD = `SELECT l.key FROM (
    SELECT * FROM unnest($2::smallint[], $3::text[], $4::bigint[]) AS i (cell, key, stamp) ORDER BY cell, key
  ) i CROSS JOIN LATERAL (
    SELECT l.key FROM tocsin.live l WHERE l.topic = $1::integer AND l.cell = i.cell AND l.key = i.key
      AND l.session = $5::bigint AND l.stamp = i.stamp FOR UPDATE
  ) l`

/** Ends the transaction, or begins another: which it is, is ours to say. A savepoint is the handler's own business. */
const ENDS =
  /^(?:\s|;|--[^\n]*(?:\n|$)|\/\*[^]*?\*\/)*(begin|start\s+transaction|commit|end|abort|rollback(?!\s+(work\s+|transaction\s+)?to\b)|prepare\s+transaction)\b/i

/**
 * CallerTransactions in which handlers write, and in which their outcomes are recorded. They have connections of their own: a
 * handler may take its time, and claims and leases must not wait for it.
 */
export class HandlerTransactions {
  readonly #pool: Pool
  readonly #database: Database
  readonly #writes: Writes
  readonly #clock: Clock
  readonly #topic: (name: string) => Promise<TopicName>
  readonly #callTimeoutMs: number
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(
    pool: Pool,
    { places, callTimeoutMs }: { readonly places: number; readonly callTimeoutMs: number },
    database: Database,
    writes: Writes,
    clock: Clock,
    topic: (name: string) => Promise<TopicName>,
  ) {
    this.#pool = pool
    this.#free = places
    this.#callTimeoutMs = callTimeoutMs
    this.#database = database
    this.#writes = writes
    this.#clock = clock
    this.#topic = topic
  }

  /** Commits when `work` answers true; otherwise nothing was done. */
  async run(
    work: (transaction: HandlerTransaction) => Promise<boolean>,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (!(await this.#turn(signal))) return false
    try {
      return await this.#run(work)
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }

  /** Not the pool's queue: how long a handler may wait for its turn is the topic's timeout, and not ours. */
  async #turn(signal: AbortSignal): Promise<boolean> {
    if (signal.aborted) return false
    if (this.#free > 0) {
      this.#free--
      return true
    }
    return new Promise((resolve) => {
      const come = () => {
        signal.removeEventListener('abort', leave)
        resolve(true)
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(come), 1)
        resolve(false)
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(come)
    })
  }

  async #run(work: (transaction: HandlerTransaction) => Promise<boolean>): Promise<boolean> {
    const client = await this.#connected()
    let isOpen = true
    let isSound = false
    let failed: unknown
    // A connection that breaks while nobody waits for an answer tells it by an event.
    const onError = () => {}
    client.on('error', onError)
    const say = (text: string, values: unknown[] = []) =>
      this.#said(client.query({ text, values, rowMode: 'array', types: this.#database.types as never }), true)
    try {
      await say('BEGIN')
      const xid = await xidOf(say)
      const settle: HandlerTransaction['settle'] = async (topicName, settlements) => {
        const topic = await this.#topic(topicName)
        // It may have said 'UPDATE …; COMMIT' in one text: then nothing is left that could be undone, but it is told.
        if ((await xidOf(say)) !== xid)
          throw badTx(
            'the handler ended its transaction by itself: what it wrote before is there, and comes again with the next attempt. Leave COMMIT and ROLLBACK to Tocsin',
          )
        const speaker: Speaker = {
          query: async (text, values) => (await say(this.#database.said(text), [...values])).rows,
          terms: PATIENCE,
          tellWithinMs: 0,
        }
        const answers = await this.#writes.settle(speaker, topic, settlements)
        return answers.map((answer): LedgerSettled => answer ?? { answer: 'stale', hint: null })
      }
      const hold: HandlerTransaction['hold'] = async (topicName, held) => {
        const { id } = await this.#topic(topicName)
        const stamps = numberArray(held.map(({ stamp }) => stamp))
        const { rows } = await say(HOLD, [id, ...placeArrays(held), stamps, this.#writes.session])
        return rows.length === held.length
      }
      const isWanted = await work({
        hold,
        tx: handed(
          client,
          () => isOpen,
          (error) => (failed ??= error),
        ),
        settle,
      })
      isOpen = false
      const { command } = await say(isWanted ? 'COMMIT' : 'ROLLBACK')
      isSound = true
      // What failed inside was perhaps caught by the handler, but the transaction is undone all the same.
      if (isWanted && command !== 'COMMIT') throw spoiled(failed)
      return isWanted
    } catch (error) {
      if (isOpen) {
        isOpen = false
        isSound = await say('ROLLBACK').then(
          () => true,
          () => false,
        )
      }
      throw isSpoiled(TocsinError.is(error) ? error.cause : error) ? spoiled(failed ?? error) : error
    } finally {
      client.off('error', onError)
      // Its other end may be silent, or still busy with what the handler asked for.
      client.release(isSound ? undefined : true)
    }
  }

  async #connected(): Promise<PoolClient> {
    const connecting = this.#pool.connect()
    try {
      return await this.#said(connecting, false)
    } catch (error) {
      // What comes when nobody waits any more goes back.
      connecting.then((client) => client.release()).catch(() => {})
      throw error
    }
  }

  /** Every call has a deadline. */
  async #said<T>(answer: Promise<T>, isSent: boolean): Promise<T> {
    try {
      const late = () => new Error('no answer in time')
      return await withDeadline(this.#clock, this.#callTimeoutMs, answer, late)
    } catch (error) {
      if (isRefusal(error) && !isSpoiled(error) && !isPassing(error))
        throw new TocsinError(
          'ledger-refused',
          `the handler's transaction could not be committed, and all of it is undone: ${describeError(error)}`,
          {},
          error,
        )
      // Asked for again, it would be asked for in another transaction: that it is undone or done is all there is.
      throw translated(error, this.#database.where, "a handler's transaction", true, isSent)
    }
  }
}

type Say = (text: string, values?: unknown[]) => Promise<{ rows: unknown[][]; command: string }>

async function xidOf(say: Say): Promise<unknown> {
  return (await say(XID)).rows[0]?.[0]
}

/** The connection as the handler gets it: all that it can, but for ending what is not its own. */
function handed(client: PoolClient, isOpen: () => boolean, onFailed: (error: unknown) => void): Tx {
  const query = (...args: unknown[]): Promise<unknown> => {
    const [said] = args
    const text = typeof said === 'object' ? (said as { text?: unknown } | null)?.text : said
    const onDone = args.at(-1)
    const refuse = (error: TocsinError): Promise<unknown> => {
      if (typeof onDone !== 'function') return Promise.reject(error)
      onDone(error)
      return Promise.resolve()
    }
    if (!isOpen()) return refuse(badTx('the transaction of this handler is over; await what it writes'))
    if (typeof text === 'string' && ENDS.test(text))
      return refuse(
        badTx(
          'BEGIN, COMMIT and ROLLBACK are not for the handler to say: its transaction commits when it returns, and is undone when it throws. A savepoint is',
        ),
      )
    const answer: unknown = (client.query as (...any: unknown[]) => unknown).apply(client, args)
    if (answer instanceof Promise) answer.catch(onFailed)
    return answer as Promise<unknown>
  }
  return new Proxy(client, {
    get(target, name) {
      if (name === 'query') return query
      if (name === 'release' || name === 'end') return () => {}
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  }) as unknown as Tx
}

function spoiled(cause: unknown): TocsinError {
  return new TocsinError(
    'ledger-refused',
    `a statement of the handler failed (${describeError(cause)}), and though the error was caught, all of its transaction is undone; put a savepoint before what may fail`,
    {},
    cause,
  )
}
