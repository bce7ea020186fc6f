import { expect, test } from 'vitest'
import { countEmptyClaims, type Claims } from './empty-claims.ts'

const text = ({ claims, empty }: Claims): string =>
  `${empty} of ${claims} empty (${Math.round((empty / claims) * 100)}%)`

test.each([
  { tasks: 0, cancelledShare: 0 },
  { tasks: 60, cancelledShare: 0 },
  { tasks: 600, cancelledShare: 0 },
  { tasks: 6_000, cancelledShare: 0 },
  { tasks: 60_000, cancelledShare: 0 },
  { tasks: 600, cancelledShare: 0.9 },
  { tasks: 6_000, cancelledShare: 0.9 },
])(
  'of $tasks tasks a minute, $cancelledShare of them cancelled, owned slots are asked in vain far less often',
  (some) => {
    const load = { nodes: 4, slots: 16, seed: 1, ...some }
    const owned = countEmptyClaims('owned', load)
    const turns = countEmptyClaims('incr-modulo', load)
    console.log(`owned ${text(owned)}; incr-modulo ${text(turns)}`)

    expect(countEmptyClaims('owned', load)).toEqual(owned)
    expect(countEmptyClaims('incr-modulo', load)).toEqual(turns)
    expect(turns.empty).toBeGreaterThan(owned.empty * 5)
  },
)
