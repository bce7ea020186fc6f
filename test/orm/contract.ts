/**
 * What `tocsin/drizzle` and its like promise, called once per library: a transaction of theirs is as good as a client of
 * pg, and nothing else is.
 */
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Tocsin, type Topic, type Tx, type WriteOptions } from 'tocsin'
import { gate, refusal } from '../library/helpers.ts'
import { type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'

/** A library as its users have it, on a database with a table `purchase (id text, state text)`. */
export interface Orm<Transaction> {
  /** Commits, or rolls back and throws what `work` threw. */
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>
  /** The same within one that is open. */
  nested<T>(transaction: Transaction, work: (inner: Transaction) => Promise<T>): Promise<T>
  /** Writes a row of the caller's own. */
  purchase(transaction: Transaction, id: string): PromiseLike<unknown>
  from(transaction: Transaction): Tx
  /** What makes transactions, and is none. */
  readonly refused: Record<string, unknown>
  close(): Promise<void>
}

/** All that a statement, a list or a literal could stumble over. */
const ODD = `?'"\\ $1 {a,"b"} ?? :x \n ☎`
const ODD_KEY = ODD.replace('\n', '')

class Undone extends Error {}

export function ormContract<Transaction>(open: (url: string) => Promise<Orm<Transaction>>): void {
  let server: PostgresServer
  let url: string
  let orm: Orm<Transaction>
  let toc: Tocsin
  let topic: Topic<unknown, unknown>

  beforeAll(async () => {
    server = await startPostgres()
  }, 60_000)
  afterAll(() => server.stop(), 60_000)
  beforeEach(async () => {
    url = await server.createDatabase()
    await sql(url, 'CREATE TABLE purchase (id text PRIMARY KEY, state text NOT NULL)')
    toc = await Tocsin.open({ ledger: url, logger: false })
    topic = toc.topic('purchase.unpaid')
    orm = await open(url)
  })
  afterEach(async () => {
    await orm.close()
    await toc.close()
  })

  const purchases = async () =>
    (await sql<{ id: string }>(url, 'SELECT id FROM purchase ORDER BY id')).map(({ id }) => id)
  const pending = async () => (await topic.list()).tasks.map(({ key }) => key).toSorted()
  const buy = async (transaction: Transaction, id: string) => {
    await orm.purchase(transaction, id)
    await topic.schedule({ key: id, delay: '1h', payload: id }, { tx: orm.from(transaction) })
  }
  /** Does the work and takes it back. */
  const undone = async (
    begin: (work: (transaction: Transaction) => Promise<void>) => Promise<void>,
    id: string,
  ) =>
    expect(
      begin(async (transaction) => {
        await buy(transaction, id)
        throw new Undone()
      }),
    ).rejects.toThrow(Undone)

  test('rolled back, neither the row nor the timer ever was', async () => {
    await undone((work) => orm.transaction(work), 'a')
    expect([await purchases(), await pending()]).toEqual([[], []])
    expect(await toc.audit()).toMatchObject([{ balances: true, books: { scheduled: 0 } }])
  })

  test('committed, both are there, and not before', async () => {
    await orm.transaction(async (transaction) => {
      await buy(transaction, 'a')
      expect([await purchases(), await pending()]).toEqual([[], []])
    })
    expect([await purchases(), await pending()]).toEqual([['a'], ['a']])
    expect(await toc.audit()).toMatchObject([{ balances: true, books: { scheduled: 1, pending: 1 } }])
  })

  test('committed, it fires, and what was written with it is there', async () => {
    const rung = gate<unknown[]>()
    topic.consume(async ({ key, payload }) => rung.open([key, payload, await purchases()]))
    await orm.transaction(async (transaction) => {
      await orm.purchase(transaction, 'a')
      await topic.schedule({ key: 'a', delay: 1, payload: { said: ODD } }, { tx: orm.from(transaction) })
    })
    expect(await rung.passed).toEqual(['a', { said: ODD }, ['a']])
  })

  test('a timer is written to the schema of the prefix', async () => {
    await using shop = await Tocsin.open({ ledger: url, prefix: 'Shop-1', logger: false })
    await orm.transaction(async (transaction) => {
      const tx = orm.from(transaction)
      await shop.topic('purchase.unpaid').schedule({ key: 'a', delay: '1h', payload: null }, { tx })
      await topic.schedule({ key: 'b', delay: '1h', payload: null }, { tx })
      await shop.topic('purchase.unpaid').cancelBy({ prefix: 'b' }, { tx })
    })
    expect(await pending()).toEqual(['b'])
    expect(await sql(url, 'SELECT key FROM "tocsin_Shop-1".live')).toEqual([{ key: 'a' }])
  })

  test('a nested one that is rolled back undoes its own part alone', async () => {
    await orm.transaction(async (transaction) => {
      await buy(transaction, 'before')
      await undone((work) => orm.nested(transaction, work), 'undone')
      await orm.nested(transaction, (inner) => buy(inner, 'inner'))
      await buy(transaction, 'after')
    })
    const kept = ['after', 'before', 'inner']
    expect([await purchases(), await pending()]).toEqual([kept, kept])
    expect(await toc.audit()).toMatchObject([{ balances: true, books: { scheduled: 3 } }])
  })

  test('every write answers as it does without a transaction, and leaves the same behind', async () => {
    const plain = toc.topic('plain')
    const answers = await everyWrite(plain)
    expect(answers.flat()).toContainEqual(expect.objectContaining({ key: ODD_KEY, outcome: 'created' }))
    await orm.transaction(async (transaction) => {
      const tx = orm.from(transaction)
      expect(await everyWrite(topic, { tx })).toEqual(answers)
    })
    const left = await leftBy(plain)
    expect(left.map(({ key }) => key)).toEqual(['m', 'user-2:1', ODD_KEY])
    expect(await leftBy(topic)).toEqual(left)
    const [, ours] = await toc.audit()
    expect(ours).toMatchObject({ balances: true })
  })

  test('more than one statement takes', async () => {
    const keys = Array.from({ length: 1_500 }, (_, n) => `k${n}`)
    await orm.transaction(async (transaction) => {
      const tx = orm.from(transaction)
      await topic.scheduleMany(
        keys.map((key) => ({ key, delay: '1h', payload: ODD, tags: ['many'] })),
        { tx },
      )
      expect(await topic.cancelBy({ tag: 'many' }, { tx })).toEqual({ cancelled: 1_500, inFlight: 0 })
      await topic.scheduleMany(
        keys.map((key) => ({ key, delay: '1h', payload: ODD })),
        { tx },
      )
    })
    expect((await topic.counts()).pending).toBe(1_500)
  })

  test('several at once, without waiting in between', async () => {
    const keys = ['a', 'b', 'c', 'd']
    await orm.transaction(async (transaction) => {
      const tx = orm.from(transaction)
      await Promise.all(keys.map((key) => topic.schedule({ key, delay: '1h', payload: key }, { tx })))
      const answers = await Promise.all(keys.map((key) => topic.cancel(key, { tx })))
      expect(answers.map(({ outcome }) => outcome)).toEqual(keys.map(() => 'cancelled'))
      await Promise.all(keys.map((key) => buy(transaction, key)))
    })
    expect([await purchases(), await pending()]).toEqual([keys, keys])
  })

  test('a statement gets its values where it names them, and no others', async () => {
    const text = `SELECT $2::text AS second, $1::text AS first, $1::text AS again, $3::text AS none,
      '$1 ?' AS "a $2 ?", '{"a": 1}'::jsonb ? $4::text AS has, $5::int AS number, $6::float8 AS fraction`
    const rows = await orm.transaction(async (transaction) =>
      orm.from(transaction).query(text, ['one', ODD, null, 'a', '7', '0.5']),
    )
    const values = [ODD, 'one', 'one', null, '$1 ?', true, 7, 0.5]
    expect((rows as { rows: object[] }).rows.map((row) => Object.values(row))).toEqual([values])
  })

  test('what PostgreSQL says is understood', async () => {
    await topic.schedule({ key: 'held', delay: '1h', payload: ODD })
    const other = new pg.Client({ connectionString: url })
    await other.connect()
    try {
      await other.query('BEGIN')
      await topic.cancel('held', { tx: other })
      const held = await failure(() =>
        orm.transaction(async (transaction) => {
          const tx = orm.from(transaction)
          await tx.query("SELECT set_config('lock_timeout', '50ms', true) AS set", [])
          await topic.reschedule('held', { delay: '2h' }, { tx })
        }),
      )
      expect(held).toMatchObject({
        code: 'ledger-unavailable',
        message: expect.stringContaining('another transaction'),
        cause: { code: '55P03' },
      })
      await other.query('ROLLBACK')
    } finally {
      await other.end()
    }
  })

  test('after a statement that failed PostgreSQL takes no other, and that is said', async () => {
    const failed = await failure(() =>
      orm.transaction(async (transaction) => {
        const tx = orm.from(transaction)
        await topic.schedule({ key: 'a', delay: '1h', payload: ODD }, { tx })
        await expect(tx.query('SELECT 1 / $1::int AS none', ['0'])).rejects.toMatchObject({
          message: 'division by zero',
          code: '22012',
        })
        await topic.schedule({ key: 'b', delay: '1h', payload: ODD }, { tx })
      }),
    )
    expect(failed).toMatchObject({ code: 'bad-tx', message: expect.stringContaining('earlier statement') })
    expect(await pending()).toEqual([])
  })

  test('one transaction is one tx, another is another', async () => {
    await orm.transaction(async (transaction) => {
      expect(orm.from(transaction)).toBe(orm.from(transaction))
      await orm.nested(transaction, async (inner) => {
        expect(orm.from(inner)).toBe(orm.from(inner))
      })
      await orm.transaction(async (second) => expect(orm.from(second)).not.toBe(orm.from(transaction)))
    })
  })

  describe('refused', () => {
    test('what makes transactions and is none, and what is neither', async () => {
      const wrong = { ...orm.refused, nothing: undefined, null: null, object: {}, text: 'tx', number: 1 }
      expect(Object.keys(orm.refused)).not.toEqual([])
      for (const [name, handle] of Object.entries(wrong)) {
        const error = await refusal(() => orm.from(handle as Transaction))
        expect(error, name).toMatchObject({ code: 'bad-tx', details: { field: 'tx' } })
        expect(error.message).toMatch(/^tx: from\w+ takes the (tx|trx) that \S+\(\) hands to its callback/)
      }
    })

    test('one that is over', async () => {
      const over: Transaction[] = []
      const work = async (transaction: Transaction) => {
        over.push(transaction)
        await topic.cancel('nobody', { tx: orm.from(transaction) })
      }
      await orm.transaction(work)
      await expect(
        orm.transaction(async (transaction) => {
          await work(transaction)
          throw new Undone()
        }),
      ).rejects.toThrow(Undone)
      for (const transaction of over) {
        const tx = orm.from(transaction)
        const error = await refusal(() => topic.schedule({ key: 'late', delay: '1h', payload: 0 }, { tx }))
        expect(error.code).toBe('bad-tx')
        expect(error.message).toMatch(/the transaction is over|no transaction is open/)
      }
      expect(over).toHaveLength(2)
      expect(await pending()).toEqual([])
    })

    test('one of another database; it goes on', async () => {
      const elsewhere = await server.createDatabase()
      await sql(elsewhere, 'CREATE TABLE purchase (id text PRIMARY KEY, state text NOT NULL)')
      const stranger = await open(elsewhere)
      try {
        await stranger.transaction(async (transaction) => {
          const tx = stranger.from(transaction)
          const error = await refusal(() => topic.schedule({ key: 'a', delay: '1h', payload: 0 }, { tx }))
          expect(error).toMatchObject({ code: 'bad-tx', message: expect.stringContaining('another one') })
          await stranger.purchase(transaction, 'a')
        })
        expect(await sql(elsewhere, 'SELECT id FROM purchase')).toEqual([{ id: 'a' }])
      } finally {
        await stranger.close()
      }
    })
  })
}

/** Every write that takes a transaction, and what it answered. */
async function everyWrite(topic: Topic<unknown, unknown>, options?: WriteOptions): Promise<unknown[]> {
  const at = new Date('2040-01-01T00:00:00.000Z')
  const later = new Date('2041-01-01T00:00:00.000Z')
  const task = (key: string, ...tags: string[]) => ({ key, at, payload: { said: ODD }, tags })
  return [
    await topic.schedule(task('a'), options),
    await topic.schedule({ ...task('a'), at: later }, options),
    await topic.schedule({ ...task('a'), onConflict: 'keep' }, options),
    await topic.schedule(task(ODD_KEY, 'odd', ODD_KEY), options),
    await topic.schedule({ ...task('m'), priority: 'high', onConflict: 'keep' }, options),
    await topic.scheduleMany([task('b', 't'), task('c', 't'), task('b', 't')], options),
    await topic.scheduleMany([task('user-1:1'), task('user-1:2'), task('user-2:1', 'moved')], options),
    await topic.cancel('a', options),
    await topic.cancel('a', options),
    await topic.cancelMany(['b', 'b', 'never'], options),
    await topic.reschedule('m', { at: later }, options),
    await topic.reschedule('never', { at: later }, options),
    await topic.rescheduleBy({ tag: 'moved' }, { shift: '+1h' }, options),
    await topic.rescheduleBy({ tag: ODD_KEY }, { at: later }, options),
    await topic.cancelBy({ prefix: 'user-1' }, options),
    await topic.cancelBy({ tag: 't' }, options),
    await topic.cancelBy({ tag: 'nobody' }, options),
  ]
}

async function leftBy(topic: Topic<unknown, unknown>) {
  const { tasks } = await topic.list()
  return tasks
    .map(({ key, dueAt, payload, tags, priority }) => ({ key, dueAt, payload, tags, priority }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .toSorted((a, b) => Number(a.key === ODD_KEY) - Number(b.key === ODD_KEY))
}

/** The error of Tocsin's that a call ends with: short, whatever the library says. */
async function failure(call: () => Promise<unknown>): Promise<Error> {
  const error = await call().then(
    () => new Error('it did not fail'),
    (thrown: Error) => thrown,
  )
  expect(error.name).toBe('TocsinError')
  expect(error.message.length).toBeLessThan(300)
  return error
}
