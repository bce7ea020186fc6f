import { afterEach, describe, expect, it, vi } from 'vitest'
import { Stamps } from './stamps.ts'

const AT = { topic: 'topic', cell: 3 }
const LEASE_MS = 30_000
/** A claim may take effect this much later than it was sent: as in stamps.ts. */
const LATE_MS = 60_000

afterEach(() => vi.unstubAllGlobals())

/** Stamps, and how many of them it has in mind. */
function counted(): { stamps: Stamps; count: () => number } {
  const maps: ReadonlyMap<unknown, unknown>[] = []
  class Known<K, V> extends Map<K, V> {
    constructor() {
      super()
      maps.push(this)
    }
  }
  vi.stubGlobal('Map', Known)
  const stamps = new Stamps()
  vi.unstubAllGlobals()
  expect(maps).toHaveLength(1)
  return { stamps, count: () => maps[0]?.size ?? Number.NaN }
}

describe('a stamp', () => {
  it('is for one request; that may use it again, when its answer was lost', () => {
    const stamps = new Stamps()
    expect(stamps.take(AT, 7, 'one', 0, LEASE_MS)).not.toBeNull()
    expect(stamps.take(AT, 7, 'other', 0, LEASE_MS)).toBeNull()
    expect(stamps.take(AT, 7, 'one', 5_000, LEASE_MS)).not.toBeNull()
    expect(stamps.take(AT, 7, 'other', 5_000, LEASE_MS)).toBeNull()
  })

  it('is of its cell and its topic: the same number elsewhere is another one', () => {
    const stamps = new Stamps()
    expect(stamps.take(AT, 7, 'one', 0, LEASE_MS)).not.toBeNull()
    expect(stamps.take({ ...AT, cell: 4 }, 7, 'other', 0, LEASE_MS)).not.toBeNull()
    expect(stamps.take({ ...AT, topic: 'another' }, 7, 'third', 0, LEASE_MS)).not.toBeNull()
    expect(stamps.take(AT, 8, 'fourth', 0, LEASE_MS)).not.toBeNull()
  })

  it('that was refused is as good as before to whom it belongs, and not its asker’s to free', () => {
    const stamps = new Stamps()
    stamps.take(AT, 7, 'one', 0, LEASE_MS)
    stamps.take(AT, 7, 'other', 0, LEASE_MS)
    stamps.free(AT, 7, 'other')
    expect(stamps.take(AT, 7, 'other', 0, LEASE_MS)).toBeNull()
    expect(stamps.take(AT, 7, 'one', 0, LEASE_MS)).not.toBeNull()
  })

  it('is free when nothing is held under it any more', () => {
    const stamps = new Stamps()
    stamps.take(AT, 7, 'one', 0, LEASE_MS)
    stamps.free(AT, 7, 'one')
    expect(stamps.take(AT, 7, 'other', 0, LEASE_MS)).not.toBeNull()
    // Freed once more, by the claim that had it before.
    stamps.free(AT, 7, 'one')
    expect(stamps.take(AT, 7, 'third', 0, LEASE_MS)).toBeNull()
  })

  it('is in use for its lease and for as long as its claim may be late, and not for longer', () => {
    const stamps = new Stamps()
    stamps.take(AT, 7, 'one', 1_000, LEASE_MS)
    const endMs = 1_000 + LEASE_MS + LATE_MS
    expect(stamps.take(AT, 7, 'other', endMs - 1, LEASE_MS)).toBeNull()
    expect(stamps.take(AT, 7, 'other', endMs, LEASE_MS)).not.toBeNull()
    expect(stamps.take(AT, 7, 'one', endMs, LEASE_MS)).toBeNull()
  })

  it('is in use for longer when it is taken again: its lease goes on', () => {
    const stamps = new Stamps()
    stamps.take(AT, 7, 'one', 0, LEASE_MS)
    stamps.take(AT, 7, 'one', 20_000, LEASE_MS)
    expect(stamps.take(AT, 7, 'other', LEASE_MS + LATE_MS, LEASE_MS)).toBeNull()
    expect(stamps.take(AT, 7, 'other', 20_000 + LEASE_MS + LATE_MS, LEASE_MS)).not.toBeNull()
  })

  it('whose lease is shorter is over in its time, though one before it lasts longer', () => {
    const stamps = new Stamps()
    stamps.take(AT, 1, 'long', 0, 3_600_000)
    stamps.take(AT, 7, 'short', 0, LEASE_MS)
    expect(stamps.take(AT, 7, 'other', LEASE_MS + LATE_MS, LEASE_MS)).not.toBeNull()
    expect(stamps.take(AT, 1, 'another', LEASE_MS + LATE_MS, LEASE_MS)).toBeNull()
  })
})

describe('what it has in mind', () => {
  it('does not grow with claims that are never settled', () => {
    const { stamps, count } = counted()
    let most = 0
    // One every 100 ms, for hours: none is freed, as when every answer of the ledger is lost.
    for (let n = 0; n < 100_000; n++) {
      stamps.take(AT, n, `r${n}`, n * 100, LEASE_MS)
      most = Math.max(most, count())
    }
    expect(most).toBeLessThanOrEqual((LEASE_MS + LATE_MS) / 100 + 1)
  })

  it('is not held up by a claim whose lease is prolonged for ever', () => {
    const { stamps, count } = counted()
    let most = 0
    for (let n = 0; n < 20_000; n++) {
      stamps.take(AT, -1, 'kept', n * 100, LEASE_MS)
      stamps.take(AT, n, `r${n}`, n * 100, LEASE_MS)
      most = Math.max(most, count())
    }
    expect(most).toBeLessThanOrEqual((LEASE_MS + LATE_MS) / 100 + 2)
    expect(stamps.take(AT, -1, 'other', 20_000 * 100, LEASE_MS)).toBeNull()
  })

  it('is nothing where everything was freed', () => {
    const { stamps, count } = counted()
    for (let n = 0; n < 1_000; n++) stamps.take(AT, n, `r${n}`, 0, LEASE_MS)
    expect(count()).toBe(1_000)
    for (let n = 0; n < 1_000; n++) stamps.free(AT, n, `r${n}`)
    expect(count()).toBe(0)
  })
})
