/** Several servers on one store: a task claimed on one can be settled on another, as behind a load balancer. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Servers } from '../cluster/compositions.ts'
import { TestServer } from './harness.ts'

let servers: Servers
beforeAll(async () => {
  servers = await Servers.start()
}, 60_000)
afterAll(() => servers.stop())

const T = '/v1/topics/orders'

async function claimOne(server: TestServer, lease = '30s', wait = '20s') {
  return (await server.post(`${T}/claim`, { limit: 1, wait, lease })).json.tasks[0]
}

const settle = async (server: TestServer, key: string, token: string, outcome = 'done') =>
  (await server.post(`${T}/settle`, { tasks: [{ key, token, outcome }] })).json.results[0].outcome

describe.each(['Redis', 'Redis + PostgreSQL', 'PostgreSQL'] as const)('%s', (composition) => {
  it(
    'a claim is settled and extended at another server, also when its own is gone',
    { timeout: 60_000 },
    async () => {
      await using place = await servers.place(composition)
      const one = await TestServer.start(place.open)
      await using other = await TestServer.start(place.open)
      await one.declare('orders', { retry: { min: '10ms', max: '10ms', jitter: 0 } })
      for (const key of ['a', 'b', 'c']) await one.post(`${T}/tasks`, { key, delay: '0s', payload: key })

      const first = await claimOne(one)
      expect(await settle(other, first.key, first.token)).toBe('settled')
      expect(await settle(one, first.key, first.token)).toBe('stale')

      const second = await claimOne(one, '2s')
      const extended = await other.post(`${T}/extend`, {
        tasks: [{ key: second.key, token: second.token }],
        lease: '1m',
      })
      expect(extended.json.results).toEqual([{ key: second.key, outcome: 'extended' }])

      const third = await claimOne(one)
      expect(new Set([first.key, second.key, third.key])).toEqual(new Set(['a', 'b', 'c']))
      await one.served.close()
      // Past its first lease: an extended task is not handed to another consumer.
      expect((await other.post(`${T}/claim`, { wait: '3s' })).json.tasks).toEqual([])
      expect(await settle(other, third.key, third.token, 'retry')).toBe('settled')
      expect(await claimOne(other)).toMatchObject({ key: third.key, id: third.id, attempt: 2 })
      expect(await settle(other, second.key, second.token)).toBe('settled')
      expect(await settle(other, second.key, second.token)).toBe('stale')
    },
  )

  it(
    'a task scheduled on one server is handed to a claim that waits on the other',
    { timeout: 60_000 },
    async () => {
      await using place = await servers.place(composition)
      await using one = await TestServer.start(place.open)
      await using other = await TestServer.start(place.open)
      await one.declare('orders')
      const waiting = claimOne(other)
      await one.post(`${T}/tasks`, { key: 'a', delay: '500ms', payload: null })
      const task = await waiting
      expect(task.key).toBe('a')
      expect(await settle(one, 'a', task.token)).toBe('settled')
    },
  )
})

it('embedded: after a restart a claim of before is stale, and its task comes again', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-server-'))
  try {
    const ledger = `sqlite:${join(folder, 'tocsin.db')}`
    const before = await TestServer.start({ ledger })
    await before.declare('orders', { retry: { maxAttempts: 3 } })
    await before.post(`${T}/tasks`, { key: 'a', delay: '0s', payload: { n: 1 } })
    const claimed = await claimOne(before)
    await before.served.close()
    await using after = await TestServer.start({ ledger })
    expect((await after.get(T)).json.code.retry.maxAttempts).toBe(3)
    expect(await settle(after, 'a', claimed.token)).toBe('stale')
    const again = await claimOne(after)
    expect(again).toMatchObject({ key: 'a', id: claimed.id, deliveries: 2, attempt: 1 })
    expect(await settle(after, 'a', again.token)).toBe('settled')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
