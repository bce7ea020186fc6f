import { expect } from 'vitest'
import { DEAD, DONE, entry, FAR_MS, place, SHORT_LEASE_MS } from '../timetable/helpers.ts'
import {
  cancel,
  endNew,
  expectBooks,
  expectCounts,
  hold,
  holdNew,
  type LedgerCase,
  leaseEnds,
  now,
  purge,
  put,
  theme,
} from './helpers.ts'
import { compareWithModel } from './model.ts'

const cases: readonly LedgerCase[] = [
  {
    name: 'a new topic has nothing in its books',
    async run(harness) {
      await expectBooks(harness, {})
      await expectCounts(harness, {})
      expect(await harness.ledger.forecast(harness.topic, 0, 10, 1)).toEqual(new Array(10).fill(0))
    },
  },
  {
    name: 'every task is in exactly one account',
    async run(harness) {
      await put(harness, 'pending', { delayMs: FAR_MS })
      await put(harness, 'due')
      await holdNew(harness, 'claimed')
      await endNew(harness, 'done', DONE)
      await endNew(harness, 'dead', DEAD)
      await endNew(harness, 'purged', DEAD)
      await purge(harness, 'purged')
      await put(harness, 'cancelled')
      await cancel(harness, 'cancelled')
      await expectBooks(harness, {
        scheduled: 7,
        pending: 2,
        claimed: 1,
        done: 1,
        dead: 1,
        purged: 1,
        cancelled: 1,
      })
      await expectCounts(harness, { pending: 2, due: 1, claimed: 1, dead: 1 })
    },
  },
  {
    name: 'due is what waits and has its time, to the millisecond',
    async run(harness) {
      await put(harness, 'a', { delayMs: 1_000 })
      await expectCounts(harness, { pending: 1 })
      await harness.advance(1_000)
      await expectCounts(harness, { pending: 1, due: 1 })
    },
  },
  {
    name: 'a forecast says how many ring in each step; what is overdue is due now, what is held is not',
    async run(harness) {
      const { ledger, topic } = harness
      const nowMs = await now(harness)
      await put(harness, 'overdue', { atMs: nowMs - FAR_MS })
      for (const [n, ms] of [1_000, 1_999, 2_000, 4_999, 5_000].entries())
        await put(harness, `k${n}`, { atMs: nowMs + ms })
      await put(harness, 'held', { atMs: nowMs })
      await hold(harness, 'held')
      const fromMs = nowMs
      expect(await ledger.forecast(topic, fromMs, fromMs + 5_000, 1_000)).toEqual([1, 2, 1, 0, 1])
      expect(await ledger.forecast(topic, fromMs + 1_500, fromMs + 6_000, 2_000)).toEqual([2, 2, 0])
      await harness.advance(10_000)
      expect(await ledger.forecast(topic, fromMs, fromMs + 5_000, 1_000)).toEqual([0, 0, 0, 0, 0])
    },
  },
  {
    name: 'a lease that is over shows in no account twice',
    async run(harness) {
      await holdNew(harness, 'a', { leaseMs: SHORT_LEASE_MS })
      await leaseEnds(harness)
      const { pending, claimed } = await harness.ledger.books(harness.topic)
      expect(pending + claimed).toBe(1)
      await hold(harness, 'a')
      await expectBooks(harness, { scheduled: 1, claimed: 1 })
    },
  },
  {
    name: 'the books of two topics are apart',
    needsEmptyLedger: true,
    async run(harness) {
      const { ledger } = harness
      await put(harness, 'a')
      await ledger.schedule('another', [entry('a'), entry('b')], 0)
      await ledger.cancel('another', [place('a')])
      await expectBooks(harness, { scheduled: 1, pending: 1 })
      expect(await ledger.books('another')).toMatchObject({ scheduled: 2, pending: 1, cancelled: 1 })
    },
  },
  {
    name: '200 steps by chance are what a model says they are',
    slow: true,
    run: (harness) => compareWithModel(harness, 4, 200),
  },
  ...([1, 2, 3].map((seed) => ({
    name: longModelName(seed),
    slow: true,
    run: (harness) => compareWithModel(harness, seed, 2_000),
  })) satisfies LedgerCase[]),
]

function longModelName(seed: number): string {
  return `2,000 steps by chance are what a model says they are (seed ${seed})`
}

export const bookkeeping = theme('bookkeeping', cases)

/** Names of the cases that compare 2,000 steps each, by another seed each. On a real server one takes half a minute. */
export const LONG_MODELS = [1, 2, 3].map((seed) => `bookkeeping: ${longModelName(seed)}`)
