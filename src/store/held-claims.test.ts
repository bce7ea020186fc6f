import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { HeldClaims } from './held-claims.ts'

const AT = { topic: 'topic', cell: 3 }
const LEASE_MS = 30_000

/** One claim of one task, which is settled; answers whether another claim may have its stamp then. */
function isFree(meanwhile: (held: HeldClaims) => void): boolean {
  const held = new HeldClaims(new VirtualClock(0), { limited: () => {}, doubtful: () => {} })
  const askedMs = held.asking(AT, 'one', 7, LEASE_MS) as number
  held.add(AT, 'one', 7, ['a'], askedMs, LEASE_MS)
  meanwhile(held)
  held.settled(AT, 7, 'a')
  return held.asking(AT, 'other', 7, LEASE_MS) !== null
}

it('the stamp of a claim is free when all of it is settled', () => {
  expect(isFree(() => {})).toBe(true)
})

it('one that was handed out keeps it: its bearer may say once more what he has said, and must not speak for another', () => {
  expect(isFree((held) => held.handedOut(AT, 7))).toBe(false)
  expect(isFree((held) => held.handedOut(AT, 8))).toBe(true)
})
