import { expect, it } from 'vitest'
import { BATCH_MAX } from '../lib/batch-max.ts'
import type { Ledger } from '../ledger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Janitor } from './janitor.ts'

it('one step deletes all that is too old, batch after batch', async () => {
  let old = 2 * BATCH_MAX + 5
  const ledger = {
    topics: async () => ['t'],
    nowMs: async () => 0,
    forget: async (_: string, { limit }: { limit: number }) => {
      const ended = Math.min(old, limit)
      old -= ended
      return { ended, dead: 0 }
    },
  } as unknown as Ledger
  const noop = () => {}
  const janitor = new Janitor(ledger, new VirtualClock(0), () => 0, noop, noop)
  expect(await janitor.step()).toBe(2 * BATCH_MAX + 5)
  expect(old).toBe(0)
})
