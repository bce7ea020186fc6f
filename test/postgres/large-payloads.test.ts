/** No statement has more than a bounded size of payloads, in either direction. */
import type pg from 'pg'
import { Tocsin } from 'tocsin'
import { postgres } from 'tocsin/postgres'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BATCH_BYTES_MAX } from '../../src/lib/batch-max.ts'
import { PAYLOAD_BYTES_MAX } from '../../src/values/payload.ts'
import { type PostgresServer, startPostgres, pooled } from '../real-servers/postgres-server.ts'

const PAYLOAD = 'x'.repeat(60_000)
const COUNT = 100
/** Payloads, and a little for keys, numbers and separators. */
const STATEMENT_BYTES_MAX = BATCH_BYTES_MAX + PAYLOAD_BYTES_MAX + 16_384

let server: PostgresServer
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server.stop())

/** A pool that notes the size of the values it sends and of the rows it receives. */
async function measuredPool() {
  const pool = pooled(await server.createDatabase(), { max: 8 })
  const sent: number[] = []
  const received: number[] = []
  const sizeOf = (values: readonly unknown[]) =>
    values.reduce<number>((sum, value) => sum + (typeof value === 'string' ? Buffer.byteLength(value) : 0), 0)
  const sizeOfRows = ({ rows }: pg.QueryResult) =>
    sizeOf((rows as object[]).flatMap((row) => Object.values(row) as unknown[]))
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => unknown
    client.query = ((statement: unknown, values?: unknown[], ...rest: unknown[]) => {
      const given = (statement as { values?: unknown[] }).values ?? values
      if (Array.isArray(given)) sent.push(sizeOf(given))
      const answer = query(statement, values, ...rest) as
        | Promise<pg.QueryResult | pg.QueryResult[]>
        | undefined
      // A text of several statements has several results.
      void answer?.then?.(
        (result) => received.push(...[result].flat().map(sizeOfRows)),
        () => {},
      )
      return answer
    }) as typeof client.query
  })
  return { pool, sent, received }
}

function* tasks() {
  for (let n = 0; n < COUNT; n++) yield { key: `p:${n}`, delay: 0, payload: PAYLOAD }
}

describe('tasks of 60 KB', () => {
  it('are written and claimed in statements of a bounded size', async () => {
    const { pool, sent, received } = await measuredPool()
    const toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
    // All in one cell: the statements of other cells take their own payloads.
    const topic = toc.topic<string>('t', { slotBy: 'prefix' })
    await topic.scheduleMany(tasks())
    expect(Math.max(...sent)).toBeLessThan(STATEMENT_BYTES_MAX)
    expect(sent.filter((size) => size > PAYLOAD.length).length).toBeLessThan(10)
    const handled = new Set<string>()
    await new Promise<void>((resolve) => {
      topic.consumeBatch(async (batch) => {
        for (const { key } of batch) handled.add(key)
        if (handled.size === COUNT) resolve()
      })
    })
    await toc.close()
    expect(Math.max(...received)).toBeGreaterThan(BATCH_BYTES_MAX / 2)
    expect(Math.max(...received)).toBeLessThan(STATEMENT_BYTES_MAX)
    await pool.end()
  })

  it('are written in a transaction in statements of a bounded size', async () => {
    const { pool, sent } = await measuredPool()
    const toc = await Tocsin.open({ ledger: postgres({ pool }), logger: false })
    const topic = toc.topic<string>('t')
    await topic.schedule({ key: 'first', delay: '1h', payload: '' })
    const client = await pool.connect()
    await client.query('BEGIN')
    await topic.scheduleMany([...tasks()], { tx: client })
    await client.query('COMMIT')
    client.release()
    expect(Math.max(...sent)).toBeLessThan(STATEMENT_BYTES_MAX)
    expect(await topic.counts()).toMatchObject({ pending: COUNT + 1 })
    await toc.close()
    await pool.end()
  })
})
