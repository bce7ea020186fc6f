import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { join } from 'node:path'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type PostgresServer, startPostgres } from '../../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { eventually } from '../helpers.ts'
import { startProgram } from '../program.ts'
import { hintPrefix, hintsIn } from './tables.ts'

const TOPIC = 'secret'
const OF_EACH = 20
const KINDS = ['done', 'fail', 'dead', 'held', 'late']

let postgres: PostgresServer
let redis: RedisServer
beforeAll(async () => {
  postgres = await startPostgres()
  // Not compressed: it is to be searched.
  redis = await startRedis({ config: { rdbcompression: 'no', dbfilename: 'dump.rdb' } })
}, 60_000)
afterAll(async () => {
  await redis.stop()
  await postgres.stop()
})

/** Everything that Redis is told, as it tells it to an onlooker. */
async function monitor(): Promise<{ text: () => string } & Disposable> {
  const socket = connect({ path: redis.socket })
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  await once(socket, 'connect')
  socket.write('MONITOR\r\n')
  const text = () => Buffer.concat(chunks).toString('latin1')
  await eventually('it monitors', () => text().startsWith('+OK'))
  return { text, [Symbol.dispose]: () => void socket.destroy() }
}

async function snapshot(): Promise<string> {
  await redis.cli('SAVE')
  return (await readFile(join(redis.folder, 'dump.rdb'))).toString('latin1')
}

test('no byte of a payload is ever in Redis', { timeout: 90_000 }, async () => {
  const url = await postgres.createDatabase()
  const open = { timetable: redis.url, ledger: url }
  const config = { retry: { min: '200ms', max: '200ms' }, lease: '3s' }
  // Letters alone, so that no encoding on the way changes them.
  const canary = `canary${randomBytes(16)
    .toString('hex')
    .replaceAll(/\d/g, (digit) => 'ghijklmnop'[Number(digit)]!)}`
  using seen = await monitor()
  await using consumer = await startProgram('postgres/fated', { open, topic: TOPIC, config })
  await consumer.untilCount('ready', 1)
  await using toc = await Tocsin.open({ ...open, logger: false })
  const topic = toc.topic<{ secret: string; of: string }>(TOPIC, config)
  const snapshots: string[] = []

  const tasks = KINDS.flatMap((kind) =>
    Array.from({ length: OF_EACH }, (_, i) => ({
      key: `${kind}-${i}`,
      delay: kind === 'late' ? '30m' : 2_000,
      payload: { secret: canary, of: `${canary}${i}` },
    })),
  )
  await topic.scheduleMany(tasks)
  const prefix = await hintPrefix(url)
  await eventually('told', async () => (await hintsIn(redis, prefix, TOPIC)).waiting.size === tasks.length)
  snapshots.push(await snapshot())
  await eventually('claimed', async () => (await hintsIn(redis, prefix, TOPIC)).held.size >= OF_EACH)
  snapshots.push(await snapshot())
  await consumer.untilCount('dead', OF_EACH)
  await consumer.untilCount('end', 3 * OF_EACH)
  consumer.signal('SIGUSR2')
  await consumer.untilCount('end', 4 * OF_EACH)
  // And on the ways that remain: moved, replaced, brought back from the dead, cancelled.
  await topic.reschedule('late-0', { delay: '20m' })
  await topic.schedule({ key: 'late-1', delay: '20m', payload: { secret: canary, of: canary } })
  expect(await topic.dead.replay({ all: true })).toEqual({ replayed: OF_EACH, superseded: 0 })
  await consumer.untilCount('dead', 2 * OF_EACH)
  await topic.cancel('late-2')
  snapshots.push(await snapshot())
  await consumer.close()

  const starts = consumer.of('start') as unknown as {
    key: string
    payload: { secret: string }
    attempt: number
  }[]
  expect(
    starts.every(({ payload }) => payload.secret === canary),
    'handlers get it',
  ).toBe(true)
  expect(starts.filter(({ key, attempt }) => key.startsWith('fail-') && attempt === 2).length).toBe(OF_EACH)
  const told = seen.text()
  console.log(
    'searched for payloads:',
    JSON.stringify({ monitorBytes: told.length, rdbBytes: snapshots.map(({ length }) => length) }),
  )
  // It is the right place to look: keys are there.
  expect(told).toContain('late-0')
  for (const saved of snapshots) expect(saved).toContain('late-0')
  for (const text of [told, ...snapshots]) expect(text.includes(canary)).toBe(false)
})
