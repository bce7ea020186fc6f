/** How a topic's keys are placed is said by a program, kept by the database, and known to whoever writes in SQL. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import pg from 'pg'
import { Tocsin, type Topic } from 'tocsin'
import { systemClock } from '../../src/clock.ts'
import { openPostgres } from '../../src/ledgers/postgres/open.ts'
import { checkPostgresOptions } from '../../src/ledgers/postgres/options.ts'
import { TOPICS } from '../../src/ledgers/postgres/statements/topics.ts'
import { systemRandom } from '../../src/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { cellOf, type SlotBy } from '../../src/values/cell.ts'
import { entry } from '../contract/timetable/helpers.ts'
import { connected, type PostgresServer, sql, startPostgres } from '../real-servers/postgres-server.ts'
import { openAlone } from '../fault/alone.ts'
import { untilLockWaiters } from './lock-waiters.ts'

let server: PostgresServer
let url: string
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server[Symbol.asyncDispose](), 60_000)
beforeEach(async () => {
  url = await server.createDatabase()
})

const open = () => Tocsin.open({ ledger: url, logger: false })
const scheduled = (key: string, topic = 't') =>
  sql<{ outcome: string; due_at: Date }>(
    url,
    `SELECT outcome, due_at FROM tocsin.schedule($1, $2, '2030-01-01T00:00:01Z', '1')`,
    [topic, key],
  )
const said = () =>
  sql(url, 'SELECT name, slot_by, merge_ms::integer, is_placed FROM tocsin.topic ORDER BY name')
const refused = { code: 'bad-topic', message: expect.stringContaining("slotBy 'prefix'") }
const elsewhere = 'user-7:mail'
const task = { key: elsewhere, delay: '1h', payload: 0 }

async function untilSaid(rows: object[]): Promise<void> {
  await expect.poll(said, { timeout: 10_000 }).toEqual(rows)
}

test('a topic that nobody has used is refused, and the known ones are named', async () => {
  await using toc = await open()
  await expect(scheduled('k')).rejects.toMatchObject({
    code: 'TC002',
    message: "unknown-topic: topic: no program has used 't' in this database; known: none",
    hint: expect.stringContaining('Start a consumer'),
  })
  await toc.topic('order.unpaid').schedule({ key: 'k', delay: '1h', payload: 0 })
  // To look for it, or to cancel what is not there, does not make a topic.
  await toc.topic('t').cancel('k')
  await toc.topic('t').get('k')
  for (const call of ["cancel('t', 'k')", "reschedule('t', 'k', now())"])
    await expect(sql(url, `SELECT tocsin.${call}`)).rejects.toMatchObject({
      code: 'TC002',
      message: expect.stringContaining('known: order.unpaid'),
    })
  expect(await said()).toEqual([{ name: 'order.unpaid', slot_by: 'key', merge_ms: 0, is_placed: true }])
})

test("a task of SQL lies where the program looks for it, by 'key' and by 'prefix'", async () => {
  expect(cellOf(elsewhere, 'key')).not.toBe(cellOf(elsewhere, 'prefix'))
  await using toc = await open()
  const topics = [toc.topic('by.key'), toc.topic('by.prefix', { slotBy: 'prefix' })]
  for (const topic of topics) {
    await topic.schedule({ key: 'first', delay: '1h', payload: 0 })
    await scheduled(elsewhere, topic.name)
    expect(await topic.get(elsewhere)).toMatchObject({ state: 'pending', payload: 1 })
    expect(await topic.cancel(elsewhere)).toMatchObject({ outcome: 'cancelled' })
  }
  const rows = await sql(
    url,
    'SELECT t.name, e.cell FROM tocsin.ended e JOIN tocsin.topic t ON t.id = e.topic ORDER BY 1',
  )
  expect(rows).toEqual([
    { name: 'by.key', cell: cellOf(elsewhere, 'key') },
    { name: 'by.prefix', cell: cellOf(elsewhere, 'prefix') },
  ])
})

test('a second program that would place keys otherwise is refused, whatever it wants of a key', async () => {
  await using first = await open()
  await first.topic('t', { slotBy: 'prefix' }).schedule(task)
  // One that has not heard how the topic was created: the ledger itself refuses it.
  await using second = await openAlone({ ledger: url })
  const topic = second.topic('t') as Topic<number, number>
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const calls: (() => Promise<unknown>)[] = [
      () => topic.schedule(task),
      () => topic.scheduleMany([task]),
      () => topic.cancel(elsewhere),
      () => topic.reschedule(elsewhere, { delay: 1 }),
      () => topic.get(elsewhere),
      () => topic.schedule(task, { tx: client }),
    ]
    await client.query('BEGIN')
    for (const call of calls) await expect(call()).rejects.toMatchObject(refused)
    await client.query('ROLLBACK')
  } finally {
    await client.end()
  }
  expect((await topic.counts()).pending).toBe(1)
  await using third = await open()
  expect(() => third.topic('t', { slotBy: 'key' }), 'one that has is refused at once').toThrow(
    expect.objectContaining({ code: 'bad-topic' }),
  )
  expect(await third.topic('t', { slotBy: 'prefix' }).cancel(elsewhere)).toMatchObject({
    outcome: 'cancelled',
  })
})

test('who only consumes says how, but does not fix it; a first task does, also one of SQL', async () => {
  await using worker = await open()
  const rung: string[] = []
  worker.topic('t').consume(async ({ key }) => void rung.push(key))
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 0, is_placed: false }])
  await using other = await open()
  other.topic('t', { slotBy: 'prefix', merge: '10s' }).consume(async ({ key }) => void rung.push(key))
  await untilSaid([{ name: 't', slot_by: 'prefix', merge_ms: 10_000, is_placed: false }])
  const [answer] = await scheduled(elsewhere)
  expect(answer?.due_at).toEqual(new Date('2030-01-01T00:00:10Z'))
  expect(await said()).toMatchObject([{ slot_by: 'prefix', is_placed: true }])
  await using late = await openAlone({ ledger: url })
  await expect(late.topic('t').schedule(task)).rejects.toMatchObject(refused)
  await using told = await open()
  expect(await told.topic('t').get(elsewhere), 'who says nothing does as the others').not.toBeNull()
  // A consumer that has it wrong places nothing: it goes on, and gets its share.
  await sql(url, "SELECT tocsin.reschedule('t', $1, delay => '0')", [elsewhere])
  await other.close()
  await expect.poll(() => rung, { timeout: 15_000 }).toEqual([elsewhere])
})

test('a first task that is undone fixes nothing', async () => {
  await using worker = await open()
  worker.topic('t').consume(async () => {})
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 0, is_placed: false }])
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query("SELECT tocsin.schedule('t', 'k', now(), '1')")
    await using same = await open()
    // Who places keys alike goes on. Who does not waits for the decision, until the timeout of its call.
    expect(await same.topic('t').cancel('never')).toMatchObject({ outcome: 'not-found' })
    await using second = await Tocsin.open({ ledger: url, logger: false, callTimeout: '500ms' })
    const other = second.topic('t', { slotBy: 'prefix' })
    await expect(other.schedule(task)).rejects.toMatchObject({
      code: 'ledger-unavailable',
      message: expect.stringContaining('Try again'),
    })
    await client.query('ROLLBACK')
    expect(await other.schedule(task)).toMatchObject({ outcome: 'created' })
    expect(await said()).toMatchObject([{ slot_by: 'prefix', is_placed: true }])
  } finally {
    await client.end()
  }
})

test('who writes does not wait for somebody who places the first key', { timeout: 20_000 }, async () => {
  await using worker = await open()
  worker.topic('t').consume(async () => {})
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 0, is_placed: false }])
  const clients = [new pg.Client({ connectionString: url }), new pg.Client({ connectionString: url })]
  for (const client of clients) await client.connect()
  try {
    for (const [n, client] of clients.entries()) {
      await client.query("SET lock_timeout = '2s'")
      await client.query('BEGIN')
      await client.query('SELECT tocsin.schedule($1, $2, now(), $3)', ['t', `k${n}`, '1'])
    }
    await using writer = await open()
    expect(await writer.topic('t').schedule(task)).toMatchObject({ outcome: 'created' })
    for (const client of clients) await client.query('COMMIT')
    expect(await writer.topic('t').schedule(task)).toMatchObject({ outcome: 'replaced' })
    expect(await said()).toMatchObject([{ slot_by: 'key', is_placed: true }])
  } finally {
    for (const client of clients) await client.end()
  }
})

test('who consumes does not wait for somebody who places the first key', { timeout: 40_000 }, async () => {
  await using writer = await open()
  await writer.topic('t').schedule({ key: 'due', delay: 0, payload: 0 })
  // As if it had come from before that was kept.
  await sql(url, 'UPDATE tocsin.topic SET slot_by = $1, is_placed = false', ['key'])
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query('BEGIN')
    await client.query("SELECT tocsin.schedule('t', 'k', '2030-01-01T00:00:00Z', '1')")
    await using worker = await open()
    const rung: string[] = []
    worker.topic('t').consume(async ({ key }) => void rung.push(key))
    await expect.poll(() => rung, { timeout: 15_000 }).toEqual(['due'])
  } finally {
    await client.end()
  }
})

test('what is merged follows the program', async () => {
  await using toc = await open()
  const topic = toc.topic('t', { merge: '10s' })
  topic.consume(async () => {})
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 10_000, is_placed: false }])
  await topic.configure({ merge: '1m' })
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 60_000, is_placed: false }])
  expect((await scheduled('k'))[0]?.due_at).toEqual(new Date('2030-01-01T00:01:00Z'))
  const apart = toc.topic('apart')
  await apart.schedule(task)
  await apart.configure({ merge: '5s' })
  await apart.schedule(task)
  expect(await said()).toMatchObject([{ name: 'apart', merge_ms: 5_000 }, { name: 't' }])
})

test("a write in a caller's transaction fixes slotBy only when the topic is created: another node may choose another", async () => {
  await using ledger = Object.assign(
    await openPostgres(
      checkPostgresOptions({ url }),
      { callTimeoutMs: 5_000, notifyWithinMs: 0, shard: '1 of 1' },
      { clock: systemClock, random: systemRandom, logger: silentLogger },
    ),
    { [Symbol.asyncDispose]: async (): Promise<void> => ledger.close() },
  )
  let slotBy: SlotBy = 'key'
  let create = () => {}
  let isWaiting = () => {}
  const created = new Promise<void>((resolve) => (create = resolve))
  const waiting = new Promise<void>((resolve) => (isWaiting = resolve))
  const wait = () => {
    isWaiting()
    return created
  }
  ledger.configure('t', () => ({ slotBy, mergeMs: 0, keepsEnded: true, fastClaims: false }), wait)
  await using client = await connected(url)
  await client.query('BEGIN')
  const writing = ledger.within(client).schedule('t', [entry('a')], 0)
  await waiting
  expect(await said()).toEqual([{ name: 't', slot_by: null, merge_ms: 0, is_placed: false }])
  slotBy = 'prefix'
  create()
  await writing
  await client.query('COMMIT')
  expect(await said()).toEqual([{ name: 't', slot_by: 'prefix', merge_ms: 0, is_placed: true }])
})

/** A transaction in which another program makes 'prefix' final for the topic 't', before its commit. */
async function placingByPrefix(): Promise<Awaited<ReturnType<typeof connected>>> {
  const [topic] = await sql<{ id: number }>(url, 'SELECT id FROM tocsin.topic')
  const other = await connected(url)
  await other.query('BEGIN')
  await other.query(TOPICS.place.text, [topic?.id, 'prefix', 0])
  return other
}

test("a slotBy that is only announced refuses no program while another one stores 'prefix'", async () => {
  await using worker = await open()
  worker.topic('t').consume(async () => {})
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 0, is_placed: false }])
  await using other = await placingByPrefix()
  await using toc = await openAlone({ ledger: url })
  const writing = toc.topic('t', { slotBy: 'prefix' }).schedule(task)
  await Promise.race([untilLockWaiters(url, 1), writing])
  await other.query('COMMIT')
  expect(await writing).toMatchObject({ outcome: 'created' })
  expect(await toc.topic('t', { slotBy: 'prefix' }).get(elsewhere)).not.toBeNull()
})

test('a task of SQL is placed by the slotBy that another program stores at the same time', async () => {
  await using worker = await open()
  worker.topic('t').consume(async () => {})
  await untilSaid([{ name: 't', slot_by: 'key', merge_ms: 0, is_placed: false }])
  await using other = await placingByPrefix()
  const writing = scheduled(elsewhere)
  await Promise.race([untilLockWaiters(url, 1), writing])
  await other.query('COMMIT')
  expect(await writing).toMatchObject([{ outcome: 'created' }])
  await using toc = await openAlone({ ledger: url })
  expect(await toc.topic('t', { slotBy: 'prefix' }).get(elsewhere)).not.toBeNull()
})

test('a slotBy that is final is never replaced', async () => {
  await using toc = await open()
  await toc.topic('t').schedule(task)
  const final = [{ name: 't', slot_by: 'key', merge_ms: 0, is_placed: true }]
  expect(await said()).toEqual(final)
  const [topic] = await sql<{ id: number }>(url, 'SELECT id FROM tocsin.topic')
  for (const { text } of [TOPICS.announce, TOPICS.place])
    expect(await sql(url, text, [topic?.id, 'prefix', 5_000])).toEqual([])
  expect(await said()).toEqual(final)
})
