import { describe, expect, it } from 'vitest'
import { ledgerBugs } from './ledger.ts'
import { ledgerCases, runLedgerCase } from '../contract/ledger.ts'
import { openSqliteLedger } from '../contract/sqlite-ledger-harness.ts'

const SLOW_TIMEOUT_MS = 120_000

/** What the case ends with on a ledger with the bug in it; null: it sees nothing. */
async function errorOf(caughtBy: string, plant: (typeof ledgerBugs)[number]['plant']): Promise<unknown> {
  const seeing = ledgerCases.find(({ name }) => name === caughtBy)
  if (seeing === undefined) throw new Error(`there is no case '${caughtBy}'`)
  try {
    await runLedgerCase(seeing, () => openSqliteLedger(plant()))
    return null
  } catch (error) {
    return error
  }
}

describe('the contract of a ledger sees', () => {
  it.each(ledgerBugs)(
    '$name',
    async ({ plant, caughtBy }) => {
      // That it is green without the bug, sqlite-ledger.test.ts says.
      expect(await errorOf(caughtBy, plant)).toHaveProperty('name', 'AssertionError')
    },
    SLOW_TIMEOUT_MS,
  )
})

it('no two cases and no two bugs share a name', () => {
  for (const named of [ledgerCases, ledgerBugs]) {
    const names = named.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
  }
})
