import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { TestServer } from './harness.ts'

let server: TestServer
beforeAll(async () => {
  server = await TestServer.start()
  await server.declare('orders')
})
afterAll(() => server[Symbol.asyncDispose]())

const later = { delay: '1h', payload: { orderId: 42 } }

describe('one task', () => {
  it('is created, replaced, kept, looked at, moved and cancelled', async () => {
    const created = await server.post('/v1/topics/orders/tasks', { key: 'a', ...later })
    expect([created.status, created.json]).toMatchObject([
      201,
      { key: 'a', outcome: 'created', inFlight: false },
    ])
    const replaced = await server.post('/v1/topics/orders/tasks', { key: 'a', ...later })
    expect([replaced.status, replaced.json.outcome]).toEqual([200, 'replaced'])
    const kept = await server.post('/v1/topics/orders/tasks', { key: 'a', ...later, onConflict: 'keep' })
    expect([kept.status, kept.json.outcome]).toEqual([200, 'kept'])
    const got = await server.get('/v1/topics/orders/tasks/a')
    expect(got.json).toMatchObject({ topic: 'orders', key: 'a', state: 'pending', payload: { orderId: 42 } })
    const moved = await server.request('PATCH', '/v1/topics/orders/tasks/a', {
      body: { at: '2031-01-01T00:00:00Z' },
    })
    expect(moved.json).toEqual({ key: 'a', outcome: 'rescheduled', dueAt: '2031-01-01T00:00:00.000Z' })
    const cancelled = await server.request('DELETE', '/v1/topics/orders/tasks/a')
    expect(cancelled.json).toEqual({ key: 'a', outcome: 'cancelled' })
    for (const method of ['GET', 'DELETE'])
      expect(await server.request(method, '/v1/topics/orders/tasks/a')).toMatchObject({
        status: 404,
        json: { error: { code: 'not-found', retryable: false } },
      })
  })

  it('gets a key where it brings none', async () => {
    const { json } = await server.post('/v1/topics/orders/tasks', later)
    expect((await server.get(`/v1/topics/orders/tasks/${encodeURIComponent(json.key)}`)).status).toBe(200)
  })

  it('is found under any key that is one', async () => {
    for (const key of ['a/b', 'a b', 'ä', 'user-9:coupon-77', '%2f', '?x=1#y', '😀'.repeat(60)]) {
      expect((await server.post('/v1/topics/orders/tasks', { key, ...later })).status).toBe(201)
      const got = await server.get(`/v1/topics/orders/tasks/${encodeURIComponent(key)}`)
      expect([key, got.status, got.json.key]).toEqual([key, 200, key])
    }
  })
})
