import { EventEmitter } from 'node:events'
import type { Pool } from 'pg'
import { expect, it, onTestFinished } from 'vitest'
import { systemClock } from '../../clock.ts'
import { VirtualClock } from '../../testing/virtual-clock.ts'
import { silentLogger } from '../../telemetry/logger.ts'
import { Listener } from './listener.ts'
import { Schema } from './schema.ts'

const eventLoopTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

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

it('leaves nothing behind after each attempt of an outage', async () => {
  const warnings: string[] = []
  const onWarning = ({ message }: Error) => void warnings.push(message)
  process.on('warning', onWarning)
  onTestFinished(() => void process.off('warning', onWarning))
  const clock = new VirtualClock(0)
  let attempts = 0
  const pool = {
    options: { max: 10 },
    connect: async () => {
      attempts++
      throw new Error('refused')
    },
  } as unknown as Pool
  const random = { fraction: () => 0.5, uniqueId: () => 'nonce' }
  const listener = new Listener(pool, new Schema('tocsin'), clock, random, silentLogger, 5_000)
  listener.listen(() => {})
  for (let second = 1; second <= 30; second++) {
    await eventLoopTurn()
    clock.moveTo(second * 1_000)
  }
  await eventLoopTurn()
  await listener.close()
  expect(attempts).toBeGreaterThan(20)
  // Node.js warns of more than ten listeners on one signal.
  expect(warnings).toEqual([])
})
