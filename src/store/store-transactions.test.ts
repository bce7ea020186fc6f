import { expect, it } from 'vitest'
import type { Ledger } from '../ledger.ts'
import type { HeldClaims } from './held-claims.ts'
import { StoreTransactions } from './store-transactions.ts'
import type { TransactionWatch } from './transaction-watch.ts'

it("a handler's lock on its own task is forgotten with its transaction, also one that rolls back", async () => {
  const locks: boolean[] = []
  const tx = {}
  const within = { schedule: async () => [], ended: null, isSynchronous: false }
  const ledger = {
    within: () => within,
    transact: async (work: (transaction: object) => Promise<boolean>) => {
      await work({ tx, hold: async () => true, settle: async () => [] })
      throw new Error('rolled back')
    },
  } as unknown as Ledger
  const held = { ownLock: (...args: unknown[]) => locks.push(args[3] as boolean) } as unknown as HeldClaims
  const transactions = new StoreTransactions({
    ledger,
    held,
    transactionWatch: {} as TransactionWatch,
    onSettled: async () => {},
  })
  const task = { key: 'a', cell: 0, stamp: 1 }
  const entry = { ...task, body: '', when: { kind: 'delay', ms: 0 }, priority: 'normal', tags: null } as const
  const run = transactions.forHandlers()(
    't',
    [task],
    async (of) => {
      await transactions.within(of).schedule('t', [{ ...entry, onConflict: 'replace' }], 0)
      return true
    },
    new AbortController().signal,
  )
  await expect(run).rejects.toThrow('rolled back')
  expect(locks).toEqual([true, false])
})
