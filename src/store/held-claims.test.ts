import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { HeldClaims } from './held-claims.ts'

const AT = { topic: 'topic', cell: 3 }
const LEASE_MS = 30_000

/** Settles a claim of one task. Returns whether another claim may use its stamp then. */
function isFree(meanwhile: (held: HeldClaims) => void): boolean {
  const held = new HeldClaims(new VirtualClock(0), { limited: () => {}, doubtful: () => {} })
  const askedMs = held.asking(AT, 'one', 7, LEASE_MS) as number
  held.add(AT, 'one', 7, ['a'], askedMs, LEASE_MS)
  meanwhile(held)
  held.settled(AT, [{ key: 'a', stamp: 7 }])
  return held.asking(AT, 'other', 7, LEASE_MS) !== null
}

it('the stamp of a claim is free when all of it is settled', () => {
  expect(isFree(() => {})).toBe(true)
})

it('the stamp of a claim that was handed out stays reserved: a retry of its client must not settle another claim', () => {
  expect(isFree((held) => held.handedOut(AT, 7))).toBe(false)
  expect(isFree((held) => held.handedOut(AT, 8))).toBe(true)
})

it('a claim whose keys were once extended apart stays so: the table holds none of them longer than its own lease', () => {
  const held = new HeldClaims(new VirtualClock(0), { limited: () => {}, doubtful: () => {} })
  held.add(AT, 'one', 7, ['a', 'b'], held.asking(AT, 'one', 7, LEASE_MS) as number, LEASE_MS)
  const claim = held.of(AT, 'one')
  if (claim === undefined) throw new Error('the claim is not held')
  expect(held.extendedKeys(claim, ['a'], ['extended'], LEASE_MS)).toBe(false)
  expect(held.extendedKeys(claim, ['a', 'b'], ['extended', 'extended'], LEASE_MS)).toBe(false)
})
