/** A timer that commits with your data: `{ tx: database }` on every write, on a real file and a real clock. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, it } from 'vitest'
import { sqlite } from '../../src/entry/sqlite.ts'
import { Tocsin } from '../../src/api/tocsin.ts'
import type { Topic, WriteOptions } from '../../src/api/topic.ts'
import { refusal } from './helpers.ts'

const SOON_MS = 50
/** Long enough that whatever was to fire soon has. */
const QUIET_MS = 250
const PATIENCE_MS = 5_000

type Connection = InstanceType<typeof Database>

/** Real time: mostly to see that nothing fires meanwhile. */
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

class Shop implements AsyncDisposable {
  readonly database: Connection
  readonly toc: Tocsin
  readonly topic: Topic<null, null>
  readonly fired: string[] = []
  readonly folder: string

  private constructor(folder: string, database: Connection, toc: Tocsin) {
    this.folder = folder
    this.database = database
    this.toc = toc
    this.topic = toc.topic<null>('orders')
  }

  static async open({ consumes = true } = {}): Promise<Shop> {
    const folder = mkdtempSync(join(tmpdir(), 'tocsin-tx-'))
    const database = new Database(join(folder, 'shop.db'))
    database.exec('CREATE TABLE orders (id TEXT PRIMARY KEY)')
    const toc = await Tocsin.open({ ledger: sqlite({ database }), logger: false })
    const shop = new Shop(folder, database, toc)
    if (consumes) shop.consume()
    return shop
  }

  consume(): void {
    this.topic.consume(async ({ key }) => {
      this.fired.push(key)
    })
  }

  /** What the writes need to be in the caller's transaction. */
  get within(): WriteOptions {
    return { tx: this.database }
  }

  /** As the caller's connection sees them, committed or not. */
  live(): string[] {
    return this.database.prepare('SELECT key FROM tocsin_live ORDER BY key').pluck().all() as string[]
  }

  dueMs(key: string): number {
    return this.database.prepare('SELECT due_ms FROM tocsin_live WHERE key = ?').pluck().get(key) as number
  }

  async firing(...keys: string[]): Promise<void> {
    const missing = () => keys.filter((key) => !this.fired.includes(key))
    await expect.poll(missing, { timeout: PATIENCE_MS, interval: 5 }).toEqual([])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.toc.close({ timeout: '1s' })
    this.database.close()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

interface Write {
  readonly name: string
  /** Called inside a transaction in which 'old:1' (tag 'x') and 'old:2' wait, far away. */
  readonly call: (shop: Shop) => Promise<unknown>
  readonly answer: unknown
  /** What waits then. */
  readonly live: readonly string[]
  /** What fires soon, if it is committed. */
  readonly fires: readonly string[]
}

const OLD = ['old:1', 'old:2']

const WRITES: readonly Write[] = [
  {
    name: 'schedule',
    call: ({ topic, within }) => topic.schedule({ key: 'new', delay: SOON_MS, payload: null }, within),
    answer: { key: 'new', outcome: 'created' },
    live: ['new', ...OLD],
    fires: ['new'],
  },
  {
    name: 'schedule, of a key that waits',
    call: ({ topic, within }) => topic.schedule({ key: 'old:1', delay: SOON_MS, payload: null }, within),
    answer: { key: 'old:1', outcome: 'replaced' },
    live: OLD,
    fires: ['old:1'],
  },
  {
    name: 'scheduleMany',
    call: ({ topic, within }) =>
      topic.scheduleMany(
        ['n1', 'n2', 'n3'].map((key) => ({ key, delay: SOON_MS, payload: null })),
        within,
      ),
    answer: [{ outcome: 'created' }, { outcome: 'created' }, { outcome: 'created' }],
    live: ['n1', 'n2', 'n3', ...OLD],
    fires: ['n1', 'n2', 'n3'],
  },
  {
    name: 'cancel',
    call: ({ topic, within }) => topic.cancel('old:1', within),
    answer: { key: 'old:1', outcome: 'cancelled' },
    live: ['old:2'],
    fires: [],
  },
  {
    name: 'cancelMany',
    call: ({ topic, within }) => topic.cancelMany(['old:2', 'never', 'old:1'], within),
    answer: [{ outcome: 'cancelled' }, { outcome: 'not-found' }, { outcome: 'cancelled' }],
    live: [],
    fires: [],
  },
  {
    name: 'cancelBy, a tag',
    call: ({ topic, within }) => topic.cancelBy({ tag: 'x' }, within),
    answer: { cancelled: 1, inFlight: 0 },
    live: ['old:2'],
    fires: [],
  },
  {
    name: 'cancelBy, a prefix',
    call: ({ topic, within }) => topic.cancelBy({ prefix: 'old' }, within),
    answer: { cancelled: 2, inFlight: 0 },
    live: [],
    fires: [],
  },
  {
    name: 'reschedule',
    call: ({ topic, within }) => topic.reschedule('old:2', { delay: SOON_MS }, within),
    answer: { key: 'old:2', outcome: 'rescheduled' },
    live: OLD,
    fires: ['old:2'],
  },
  {
    name: 'rescheduleBy',
    call: ({ topic, within }) => topic.rescheduleBy({ prefix: 'old' }, { delay: SOON_MS }, within),
    answer: { rescheduled: 2, inFlight: 0 },
    live: OLD,
    fires: OLD,
  },
]

async function withOldOnes(): Promise<Shop> {
  const shop = await Shop.open()
  await shop.topic.schedule({ key: 'old:1', delay: '1h', tags: ['x'], payload: null })
  await shop.topic.schedule({ key: 'old:2', delay: '1h', payload: null })
  return shop
}

describe.each(WRITES)('in a transaction, $name', ({ call, answer, live, fires }) => {
  it('has taken effect before it returns, and fires once it is committed', async () => {
    await using shop = await withOldOnes()
    const { database } = shop
    let answered: Promise<unknown> | undefined
    database.transaction(() => {
      database.prepare('INSERT INTO orders VALUES (?)').run('o1')
      answered = call(shop)
      expect(shop.live()).toEqual(live)
    })()
    expect(await answered).toMatchObject(answer as object)
    expect(shop.live().filter((key) => !fires.includes(key))).toEqual(
      live.filter((key) => !fires.includes(key)),
    )
    await shop.firing(...fires)
    expect(shop.fired.toSorted()).toEqual([...fires].toSorted())
    expect(await shop.toc.audit()).toMatchObject([{ balances: true, missing: 0, orphaned: 0, rescued: 0 }])
  })

  it('leaves nothing behind when it is rolled back, and never fires', async () => {
    await using shop = await withOldOnes()
    const { database } = shop
    const dues = OLD.map((key) => shop.dueMs(key))
    let answered: Promise<unknown> | undefined
    const failing = database.transaction(() => {
      answered = call(shop)
      expect(shop.live()).toEqual(live)
      throw new Error('the order is refused')
    })
    expect(failing).toThrow('refused')
    await answered
    expect(shop.live()).toEqual(OLD)
    expect(OLD.map((key) => shop.dueMs(key))).toEqual(dues)
    await pause(SOON_MS + QUIET_MS)
    expect(shop.fired).toEqual([])
    expect(await shop.toc.audit()).toMatchObject([
      { balances: true, missing: 0, orphaned: 0, rescued: 0, books: { scheduled: 2, pending: 2 } },
    ])
  })

  it('does not fire before the commit, however long that takes, and at once after it', async () => {
    await using shop = await withOldOnes()
    const { database } = shop
    database.exec('BEGIN IMMEDIATE')
    await call(shop)
    await pause(SOON_MS + QUIET_MS)
    expect(shop.fired).toEqual([])
    database.exec('COMMIT')
    await shop.firing(...fires)
    expect(shop.fired.toSorted()).toEqual([...fires].toSorted())
  })
})

describe('several writes of one transaction', () => {
  it('see one another, and commit together with the data', async () => {
    await using shop = await Shop.open()
    const { database, topic, within } = shop
    const answers: Promise<unknown>[] = []
    database.transaction(() => {
      database.prepare('INSERT INTO orders VALUES (?)').run('o1')
      answers.push(topic.schedule({ key: 'a', delay: '1h', payload: null }, within))
      answers.push(topic.schedule({ key: 'b', delay: SOON_MS, payload: null }, within))
      answers.push(topic.schedule({ key: 'a', delay: SOON_MS, payload: null, onConflict: 'keep' }, within))
      answers.push(topic.cancel('b', within))
      answers.push(topic.cancel('b', within))
      answers.push(topic.reschedule('a', { delay: SOON_MS }, within))
    })()
    const outcomes = (await Promise.all(answers)).map((answer) => (answer as { outcome: string }).outcome)
    expect(outcomes).toEqual(['created', 'created', 'kept', 'cancelled', 'not-found', 'rescheduled'])
    await shop.firing('a')
    expect(shop.fired).toEqual(['a'])
    expect(database.prepare('SELECT id FROM orders').pluck().all()).toEqual(['o1'])
  })

  it('of a savepoint are undone with it, and the others stay', async () => {
    await using shop = await Shop.open()
    const { database, topic, within } = shop
    const inner = database.transaction(() => {
      void topic.schedule({ key: 'inner', delay: SOON_MS, payload: null }, within)
      throw new Error('undone')
    })
    database.transaction(() => {
      void topic.schedule({ key: 'before', delay: SOON_MS, payload: null }, within)
      expect(inner).toThrow('undone')
      void topic.schedule({ key: 'after', delay: SOON_MS, payload: null }, within)
      expect(shop.live()).toEqual(['after', 'before'])
    })()
    await shop.firing('before', 'after')
    await pause(QUIET_MS)
    expect(shop.fired.toSorted()).toEqual(['after', 'before'])
    expect(await shop.toc.audit()).toMatchObject([
      { balances: true, orphaned: 0, books: { scheduled: 2, done: 2 } },
    ])
  })

  it('in many transactions, one right after the other, are all told to the timetable', async () => {
    await using shop = await Shop.open()
    const { database, topic, within } = shop
    const keys = Array.from({ length: 100 }, (_, n) => `k${n}`)
    const kept = keys.filter((_, n) => n % 3 !== 0)
    for (const [n, key] of keys.entries()) {
      database.exec('BEGIN IMMEDIATE')
      void topic.schedule({ key, delay: SOON_MS, payload: null }, within)
      database.exec(n % 3 === 0 ? 'ROLLBACK' : 'COMMIT')
    }
    await shop.firing(...kept)
    await pause(QUIET_MS)
    expect(shop.fired.toSorted()).toEqual(kept.toSorted())
    expect(await shop.toc.audit()).toMatchObject([
      { balances: true, rescued: 0, books: { done: kept.length } },
    ])
  })

  it('a task that was cancelled in a transaction that rolled back still fires', async () => {
    await using shop = await Shop.open()
    const { database, topic, within } = shop
    await topic.schedule({ key: 'a', delay: 150, payload: null })
    database.exec('BEGIN IMMEDIATE')
    expect(await topic.cancel('a', within)).toMatchObject({ outcome: 'cancelled' })
    // Real time: the cancel must not reach the timetable before the transaction ends.
    await pause(20)
    database.exec('ROLLBACK')
    await shop.firing('a')
  })

  it('a task committed to a topic without a consumer fires when a consumer starts', async () => {
    await using shop = await Shop.open({ consumes: false })
    const { database, topic, within } = shop
    database.transaction(() => void topic.schedule({ key: 'a', delay: 0, payload: null }, within))()
    // Real time: the task has to be due before the topic is consumed.
    await pause(SOON_MS)
    shop.consume()
    await shop.firing('a')
  })
})

describe('what is no transaction of the ledger', () => {
  const closed = (shop: Shop) => {
    const other = new Database(join(shop.folder, 'shop.db'))
    other.close()
    return other
  }
  const inTransaction = (path: string) => {
    const other = new Database(path)
    other.exec('BEGIN')
    return other
  }
  const STRANGERS: readonly [name: string, of: (shop: Shop) => unknown][] = [
    ['a pool', () => ({ query: async () => [], connect: async () => ({}), totalCount: 3 })],
    ['null', () => null],
    ['text', () => 'BEGIN'],
    ['true', () => true],
    ['a function', () => () => {}],
    ['a closed database', closed],
    ['a database without an open transaction', ({ database }) => database],
    ['another file', ({ folder }) => inTransaction(join(folder, 'other.db'))],
    ['a database in memory', () => inTransaction(':memory:')],
    ['a temporary database', () => inTransaction('')],
  ]

  it.each(STRANGERS)('%s is refused on every write, and nothing is written', async (_name, of) => {
    await using shop = await withOldOnes()
    const tx = of(shop) as NonNullable<WriteOptions['tx']>
    const { topic } = shop
    const calls = [
      () => topic.schedule({ key: 'a', delay: 0, payload: null }, { tx }),
      () => topic.scheduleMany([{ key: 'a', delay: 0, payload: null }], { tx }),
      () => topic.cancel('old:1', { tx }),
      () => topic.cancelMany(['old:1'], { tx }),
      () => topic.cancelBy({ tag: 'x' }, { tx }),
      () => topic.reschedule('old:1', { delay: 0 }, { tx }),
      () => topic.rescheduleBy({ tag: 'x' }, { delay: 0 }, { tx }),
    ]
    for (const call of calls)
      await expect(call()).rejects.toMatchObject({
        name: 'TocsinError',
        code: 'bad-tx',
        status: 400,
        retryable: false,
        details: { field: 'tx' },
      })
    expect(shop.live()).toEqual(OLD)
    const { close, open } = (tx ?? {}) as Partial<Connection>
    if (open === true && (tx as unknown) !== shop.database) close?.call(tx)
  })

  // Red because realpathSync in Transactions.#check throws ENOENT as it is.
  it('a file that is not there any more is refused like any other', async () => {
    await using shop = await Shop.open()
    const path = join(shop.folder, 'gone.db')
    const gone = inTransaction(path)
    try {
      rmSync(path)
      const call = () => shop.topic.schedule({ key: 'a', delay: 0, payload: null }, { tx: gone })
      expect((await refusal(call)).code).toBe('bad-tx')
    } finally {
      gone.close()
    }
  })

  it('the same file by another name is the same file', async () => {
    await using shop = await Shop.open()
    const other = new Database(join(shop.folder, '..', shop.folder.split('/').at(-1) ?? '', 'shop.db'))
    other.transaction(() => void shop.topic.schedule({ key: 'a', delay: 0, payload: null }, { tx: other }))()
    await shop.firing('a')
    other.close()
  })

  it('a stream of tasks is refused: it may take longer than a transaction should', async () => {
    await using shop = await Shop.open()
    shop.database.exec('BEGIN')
    const tasks = new Set([{ key: 'a', delay: 0, payload: null }]) as unknown as readonly []
    expect((await refusal(() => shop.topic.scheduleMany(tasks, shop.within))).code).toBe('bad-option')
    shop.database.exec('ROLLBACK')
  })
})

describe('a schema', () => {
  const schema = (validate: (value: unknown) => unknown) =>
    ({ '~standard': { version: 1, vendor: 'test', validate } }) as never

  it('that answers later is refused: a transaction waits for nothing', async () => {
    await using shop = await Shop.open()
    const topic = shop.toc.topic('slow', { schema: schema(async (value) => ({ value })) })
    shop.database.exec('BEGIN')
    const task = { key: 'a', delay: 0, payload: 1 as never }
    expect((await refusal(() => topic.schedule(task, shop.within))).code).toBe('bad-payload')
    expect((await refusal(() => topic.scheduleMany([task], shop.within))).code).toBe('bad-payload')
    expect(shop.live()).toEqual([])
    shop.database.exec('COMMIT')
  })

  it('that answers at once is asked, and what it refuses is not written', async () => {
    await using shop = await Shop.open()
    const positive = schema((value) =>
      (value as number) > 0 ? { value } : { issues: [{ message: 'too small' }] },
    )
    const topic = shop.toc.topic('quick', { schema: positive })
    shop.database.exec('BEGIN')
    await topic.schedule({ key: 'good', delay: '1h', payload: 1 as never }, shop.within)
    const bad = { key: 'bad', delay: 0, payload: -1 as never }
    expect((await refusal(() => topic.schedule(bad, shop.within))).code).toBe('bad-payload')
    expect(
      (await refusal(() => topic.scheduleMany([{ ...bad, key: 'c', payload: 1 as never }, bad], shop.within)))
        .code,
    ).toBe('bad-payload')
    expect(shop.live()).toEqual(['good'])
    shop.database.exec('COMMIT')
  })
})

describe('a transaction that is held open', () => {
  it('for 300 ms does not stop the event loop, and our own writes go on afterwards', async () => {
    await using shop = await Shop.open()
    const { database, topic } = shop
    let ticks = 0
    let longestMs = 0
    let lastMs = performance.now()
    const ticking = setInterval(() => {
      ticks++
      longestMs = Math.max(longestMs, performance.now() - lastMs)
      lastMs = performance.now()
    }, 5)
    database.exec('BEGIN IMMEDIATE')
    let isWritten = false
    const written = topic.schedule({ key: 'ours', delay: 0, payload: null }).then(() => {
      isWritten = true
    })
    // Real time: the transaction is open for 300 ms.
    await pause(300)
    expect(isWritten).toBe(false)
    database.exec('COMMIT')
    await written
    clearInterval(ticking)
    expect(ticks).toBeGreaterThan(20)
    expect(longestMs).toBeLessThan(150)
    await shop.firing('ours')
  })

  it('for too long is told to those who wait, and nothing of theirs is written', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tocsin-tx-'))
    const database = new Database(join(folder, 'shop.db'))
    const toc = await Tocsin.open({ ledger: sqlite({ database }), logger: false, callTimeout: 100 })
    try {
      const topic = toc.topic<null>('orders')
      await topic.schedule({ key: 'before', delay: '1h', payload: null })
      database.exec('BEGIN IMMEDIATE')
      await expect(topic.schedule({ key: 'late', delay: 0, payload: null })).rejects.toMatchObject({
        code: 'ledger-unavailable',
      })
      database.exec('COMMIT')
      expect(await topic.get('late')).toBeNull()
      expect(await topic.schedule({ key: 'after', delay: '1h', payload: null })).toMatchObject({
        outcome: 'created',
      })
    } finally {
      await toc.close()
      database.close()
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('does not keep a Tocsin from closing; what commits then fires in the next one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'tocsin-tx-'))
    const database = new Database(join(folder, 'shop.db'))
    try {
      const first = await Tocsin.open({ ledger: sqlite({ database }), logger: false })
      database.exec('BEGIN IMMEDIATE')
      await first.topic<null>('orders').schedule({ key: 'a', delay: 0, payload: null }, { tx: database })
      await first.close({ timeout: '1s' })
      database.exec('COMMIT')
      const second = await Tocsin.open({ ledger: sqlite({ database }), logger: false })
      const fired = await new Promise<string>((resolve) => {
        second.topic<null>('orders').consume(async ({ key }) => resolve(key))
      })
      await second.close()
      expect(fired).toBe('a')
      expect(database.open).toBe(true)
    } finally {
      database.close()
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

it('a call that fails half-way leaves nothing, though the caller catches its error and commits', async () => {
  await using shop = await Shop.open({ consumes: false })
  await shop.topic.schedule({ key: 'first', delay: '1h', payload: null })
  shop.database.exec(
    "CREATE TEMP TRIGGER refuse BEFORE INSERT ON tocsin_live WHEN NEW.key = 'b' BEGIN SELECT RAISE(ABORT, 'refused'); END",
  )
  shop.database.transaction(() => {
    const two = ['a', 'b'].map((key) => ({ key, delay: '1h' as const, payload: null }))
    expect(() => void shop.topic.scheduleMany(two, shop.within)).toThrow('refused')
  })()
  expect(shop.live()).toEqual(['first'])
})

it('a sweep in a transaction goes on page by page where a cell has thousands', async () => {
  await using shop = await Shop.open({ consumes: false })
  const topic = shop.toc.topic<null>('swept', { slotBy: 'prefix' })
  await topic.scheduleMany(
    Array.from({ length: 2_100 }, (_, n) => ({ key: `p:${n}`, delay: '1h' as const, payload: null })),
  )
  let swept: Promise<unknown> = Promise.resolve()
  shop.database.transaction(() => {
    swept = topic.cancelBy({ prefix: 'p' }, shop.within)
  })()
  expect(await swept).toMatchObject({ cancelled: 2_100 })
})
