import { crc32 } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { BUCKETS, bucketOf, CELLS, cellOf, cellsOfSlot, prefixOf } from './cell.ts'

const POWERS_OF_TWO = [1, 2, 4, 8, 16, 32, 64]

/** The slot whose puller looks after a key: what `cellsOfSlot` says, asked the other way round. */
const slotOf = (key: string, slots: number): number | undefined =>
  Array.from({ length: slots }, (_, slot) => slot).find((slot) =>
    cellsOfSlot(slot, slots).includes(cellOf(key, 'key')),
  )

describe('where a key lives', () => {
  // Stored tasks are found by these numbers: another checksum, or another encoding, would lose them.
  test.each([
    ['123456789', 0xcbf43926],
    ['', 0],
    ['a', 0xe8b7be43],
    ['order-42', 0x57f706de],
    ['é', 0x0e048d3e],
    ['😀', 0x054db544],
  ])('the checksum of %j is CRC-32 over UTF-8', (key, checksum) => {
    expect(crc32(Buffer.from(key, 'utf8'))).toBe(checksum)
    expect(bucketOf(key, 'key')).toBe(checksum % BUCKETS)
    expect(cellOf(key, 'key')).toBe(checksum % CELLS)
  })

  test.each([
    ['user-9:coupon-77', 'user-9'],
    ['user-9', 'user-9'],
    ['user-9:a:b', 'user-9'],
    ['user-9:', 'user-9'],
    [':coupon', ''],
    ['', ''],
    ['é：x', 'é：x'],
  ])('the prefix of %j is %j', (key, prefix) => expect(prefixOf(key)).toBe(prefix))

  test('by prefix, keys of one prefix share a bucket; by key, they do not', () => {
    const keys = Array.from({ length: 100 }, (_, i) => `user-9:coupon-${i}`)
    expect(new Set(keys.map((key) => bucketOf(key, 'prefix')))).toEqual(new Set([bucketOf('user-9', 'key')]))
    expect(new Set(keys.map((key) => cellOf(key, 'key'))).size).toBeGreaterThan(32)
  })

  test.each<[string, (i: number) => string]>([
    ['numbers', String],
    ['padded numbers', (i) => String(i).padStart(12, '0')],
    ['a word and a number', (i) => `order-${i}`],
    ['a few prefixes', (i) => `user-${i % 7}:coupon-${i}`],
    ['hexadecimal', (i) => `${(i * 2_654_435_761).toString(16)}-${i.toString(16)}`],
  ])('100,000 keys made of %s fill every cell within 10 %%', (_, make) => {
    const filled = Array.from({ length: CELLS }, () => 0)
    for (let i = 0; i < 100_000; i++) {
      const cell = cellOf(make(i), 'key')
      filled[cell] = (filled[cell] ?? 0) + 1
    }
    expect(filled).toHaveLength(CELLS)
    expect(Math.min(...filled)).toBeGreaterThan((100_000 / CELLS) * 0.9)
    expect(Math.max(...filled)).toBeLessThan((100_000 / CELLS) * 1.1)
  })
})

describe('which slot looks after a cell', () => {
  test.each(POWERS_OF_TWO)('%s slots share the cells out, each to one, evenly', (slots) => {
    const shares = Array.from({ length: slots }, (_, slot) => cellsOfSlot(slot, slots))
    expect(shares.flat().toSorted((a, b) => a - b)).toEqual(Array.from({ length: CELLS }, (_, cell) => cell))
    expect(new Set(shares.map((share) => share.length))).toEqual(new Set([CELLS / slots]))
  })

  test('a slot is the low bits of a cell', () => {
    for (const slots of POWERS_OF_TWO)
      for (let slot = 0; slot < slots; slot++)
        for (const cell of cellsOfSlot(slot, slots)) expect(cell & (slots - 1)).toBe(slot)
  })

  test('16 → 64 → 8 slots moves no key: the cells of a slot are only dealt to others', () => {
    for (let i = 0; i < 1_000; i++) {
      const key = `order-${i}`
      const cell = cellOf(key, 'key')
      for (const slots of [16, 64, 8]) {
        expect(slotOf(key, slots)).toBe(cell % slots)
        expect(cellOf(key, 'key')).toBe(cell)
      }
    }
  })
})
