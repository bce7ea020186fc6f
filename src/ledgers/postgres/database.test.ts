import type { Pool } from 'pg'
import { expect, it } from 'vitest'
import { systemClock } from '../../clock.ts'
import type { CancelRequests } from './cancel-request.ts'
import { Database, type TypeParsers } from './database.ts'
import { Schema } from './schema.ts'

it.each(['40P01', '40001'])('a statement that %s has undone is sent again', async (code) => {
  const failures = [Object.assign(new Error('undone'), { code, severity: 'ERROR' })]
  const client = {
    on() {},
    off() {},
    release() {},
    query: async () => {
      const failure = failures.shift()
      if (failure !== undefined) throw failure
      return { rows: [[1]] }
    },
  }
  const pool = { connect: async () => client } as unknown as Pool
  const limits = { callTimeoutMs: 5_000, notifyWithinMs: 0 }
  const cancels = {} as CancelRequests
  const place = { schema: new Schema('tocsin'), where: 'the database' }
  const database = new Database(pool, {} as TypeParsers, systemClock, limits, place, cancels)
  expect(await database.ask('read', 'SELECT 1')).toEqual([[1]])
})
