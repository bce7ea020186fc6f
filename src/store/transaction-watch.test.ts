import { expect, it } from 'vitest'
import { TransactionWatch } from './transaction-watch.ts'

it('follows each transaction of a connection, not the first one only', async () => {
  const told: string[] = []
  const watch = new TransactionWatch(
    async (_, places) => void told.push(...places.map(({ key }) => key)),
    (error) => {
      throw error
    },
  )
  const connection = {}
  for (const key of ['a', 'b']) {
    watch.follow(connection, async () => {}, 't', [{ key, cell: 0 }])
    await expect.poll(() => told).toContain(key)
  }
  expect(told).toEqual(['a', 'b'])
})
