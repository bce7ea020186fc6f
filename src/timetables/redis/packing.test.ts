import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Packer, packLists } from './packing.ts'

/** Reads MessagePack by its specification: the types that cmsgpack in Redis reads here, and no others. */
function unpack(bytes: Buffer): (string | number)[][] {
  let at = 0
  const count = (size: 1 | 2 | 4): number => {
    const value = bytes.readUIntBE(at, size)
    at += size
    return value
  }
  const text = (length: number): string => {
    at += length
    return bytes.toString('utf8', at - length, at)
  }
  const item = (): string | number => {
    const type = count(1)
    if (type === 0xd9) return text(count(1))
    if (type === 0xda) return text(count(2))
    if (type === 0xdb) return text(count(4))
    if (type !== 0xcb) throw new Error(`type ${type} at ${at - 1}`)
    at += 8
    return bytes.readDoubleBE(at - 8)
  }
  const lists: (string | number)[][] = []
  while (at < bytes.length) {
    if (count(1) !== 0xdd) throw new Error(`no list at ${at - 1}`)
    lists.push(Array.from({ length: count(4) }, item))
  }
  return lists
}

/** Characters of one, two, three and four bytes of UTF-8. */
const CHARACTERS = ['a', 'é', '漢', '🔔']

/** The lengths at which the header, or the way of writing, changes: short text, one byte, two bytes, four bytes. */
const BOUNDARIES = [
  0, 1, 31, 32, 33, 64, 85, 86, 127, 128, 200, 255, 256, 257, 21_845, 21_846, 65_535, 65_536,
]

describe('packed lists', () => {
  // Scripts of another version read these bytes during a deployment.
  it.each([
    ['no list', [], ''],
    ['an empty list', [[]], 'dd00000000'],
    ['a short key', [['a']], 'dd00000001d90161'],
    ['an empty text', [['']], 'dd00000001d900'],
    ['two bytes per character', [['é']], 'dd00000001d902c3a9'],
    ['a character above U+FFFF', [['🔔']], 'dd00000001d904f09f9494'],
    ['several lists', [['a', 'b'], [], ['é']], 'dd00000002d90161d90162dd00000000dd00000001d902c3a9'],
  ])('of %s are these bytes', (_, lists, hex) => {
    expect(packLists(...lists).toString('hex')).toBe(hex)
  })

  it.each([
    ['85 characters fit a header of one byte', 'é'.repeat(85), 'd9aa'],
    ['86 may not', 'é'.repeat(86), 'da00ac'],
    ['200 characters of two bytes are 400 bytes', 'é'.repeat(200), 'da0190'],
    ['21,845 characters fit a header of two bytes', '漢'.repeat(21_845), 'daffff'],
    ['21,846 may not', 'x'.repeat(21_846), 'db00005556'],
    ['a megabyte', '漢'.repeat(400_000), 'db00124f80'],
  ])('count bytes: %s', (_, text, header) => {
    const bytes = packLists([text])
    expect(bytes.subarray(5, 5 + header.length / 2).toString('hex')).toBe(header)
    expect(unpack(bytes)).toEqual([[text]])
  })

  it('give back text of every width, at every boundary', () => {
    for (const character of CHARACTERS)
      for (const length of BOUNDARIES) {
        const text = character.repeat(length)
        const lists = [['before', text, `x${text}`, `${text}x`, `${text}🔔`, 'after']]
        expect(unpack(packLists(...lists))).toEqual(lists)
      }
  })

  it('give back any lists of any text and numbers', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 100 }),
      fc
        .tuple(
          fc.constantFrom(...CHARACTERS),
          fc.constantFrom(...BOUNDARIES.filter((length) => length < 1_000)),
        )
        .map(([character, length]) => character.repeat(length)),
    )
    const item = fc.oneof(text, fc.double({ noNaN: true }), fc.integer({ min: 0, max: 2 ** 53 }))
    fc.assert(
      fc.property(fc.array(fc.array(item, { maxLength: 8 }), { minLength: 1, maxLength: 4 }), (lists) => {
        const packer = new Packer()
        for (const list of lists) {
          packer.beginList()
          for (const one of list) {
            if (typeof one === 'string') packer.string(one)
            else packer.number(one)
          }
        }
        expect(unpack(packer.packed())).toEqual(lists)
      }),
      { numRuns: 20 },
    )
  })

  it('keep what is packed when the buffer grows in the middle of a list', () => {
    const texts = Array.from({ length: 500 }, (_, n) => `${n}-${'é'.repeat(n % 100)}`)
    for (let round = 0; round < 2; round++)
      expect(unpack(packLists(texts, ['end']))).toEqual([texts, ['end']])
  })

  it('write numbers as doubles, which hold any time in ms', () => {
    const packer = new Packer().beginList()
    for (const value of [0, 1.5, -1, 1_700_000_000_123, 2 ** 53]) packer.number(value)
    const bytes = packer.packed()
    expect(unpack(bytes)).toEqual([[0, 1.5, -1, 1_700_000_000_123, 2 ** 53]])
    expect(bytes).toHaveLength(5 + 5 * 9)
  })
})
