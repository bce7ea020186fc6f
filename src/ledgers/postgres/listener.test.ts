import { EventEmitter } from 'node:events'
import type { Pool } from 'pg'
import { expect, it } from 'vitest'
import { systemClock } from '../../clock.ts'
import { silentLogger } from '../../telemetry/logger.ts'
import { Listener } from './listener.ts'
import { Schema } from './schema.ts'

it('tells after each connect that any topic may have news, and gives no connection back that listens', async () => {
  const released: unknown[] = []
  const client = Object.assign(new EventEmitter(), {
    query: async () => ({ rows: [] }),
    release: (isDestroyed?: boolean) => released.push(isDestroyed),
  })
  const pool = {
    options: { max: 10 },
    connect: async () => client,
    query: async (_: string, [, payload]: [string, string]) => client.emit('notification', { payload }),
  } as unknown as Pool
  const random = { fraction: () => 0.5, uniqueId: () => 'nonce' }
  const listener = new Listener(pool, new Schema('tocsin'), systemClock, random, silentLogger, 5_000)
  const told: (string | null)[] = []
  listener.listen((topic) => void told.push(topic))
  await expect.poll(() => told).toEqual([null])
  client.emit('notification', { payload: 'orders' })
  expect(told).toEqual([null, 'orders'])
  await listener.close()
  expect(released).toEqual([true])
})
