/** kill -9 in the middle of a stream: what was answered is there, and nothing is there twice. */
import { EventEmitter, once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { type AnswerLine, BulkClient } from './bulk-client.ts'
import { startServer } from './server-process.ts'

const ROUNDS = 3
const ANSWERED_MIN = 2_000
const PIECE = 200
/** Lines that are sent and not answered yet. */
const AHEAD_MAX = 5_000
const PAGE = 1_000

test(`killed ${ROUNDS} times while it answers line by line`, { timeout: 120_000 }, async () => {
  using folder = temporaryFolder()
  const open = { ledger: `sqlite:${join(folder.path, 't.db')}` }
  const answered = new Set<string>()
  const sent = new Set<string>()
  for (let round = 0; round < ROUNDS; round++) {
    await using server = await startServer(open)
    await server.declare('orders')
    using client = new BulkClient(server.url, 'orders', '?results=all')
    const lines: AnswerLine[] = []
    const progress = new EventEmitter()
    const reading = (async () => {
      for (let line = await client.next(); line !== null; line = await client.next()) {
        lines.push(line)
        progress.emit('line')
      }
    })()
    for (let n = 0; lines.length < ANSWERED_MIN + round * 1_500; n += PIECE) {
      while (n - lines.length > AHEAD_MAX) await once(progress, 'line')
      const keys = Array.from({ length: PIECE }, (_, i) => `${round}-${n + i}`)
      for (const key of keys) sent.add(key)
      const hasRoom = client.send(...keys.map((key) => ({ key, delay: '30d', payload: key })))
      if (!hasRoom) await client.drained()
    }
    await server.program.kill()
    await reading
    expect(lines.filter(({ summary, error }) => summary !== undefined || error !== undefined)).toEqual([])
    for (const { key } of lines) answered.add(key as string)
  }

  await using server = await startServer(open)
  const found: string[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const at: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`
    const page = await server.ask('GET', `/v1/topics/orders/tasks?limit=${PAGE}${at}`)
    const { tasks, cursor: next } = (await page.json()) as { tasks: { key: string }[]; cursor: string | null }
    found.push(...tasks.map(({ key }) => key))
    cursor = next
  }
  const there = new Set(found)
  console.log(
    'bulk, SIGKILL:',
    JSON.stringify({ sent: sent.size, answered: answered.size, found: found.length }),
  )
  expect([...answered].filter((key) => !there.has(key))).toEqual([])
  expect(there.size).toBe(found.length)
  expect(found.filter((key) => !sent.has(key))).toEqual([])
  expect(answered.size).toBeGreaterThanOrEqual(ROUNDS * ANSWERED_MIN)
  const audit = (await (await server.ask('GET', '/v1/audit')).json()) as { balances: boolean }
  expect(audit.balances).toBe(true)
})
