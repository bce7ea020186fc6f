import { crc32 as zlibCrc32 } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { crc32 } from './crc32.ts'

describe('crc32', () => {
  it.each(['', 'a', 'order-12345678', 'user-9:coupon-77', 'x'.repeat(64), 'x'.repeat(65), '\u007f'])(
    'of %j is zlib’s',
    (text) => expect(crc32(text)).toBe(zlibCrc32(text)),
  )

  it('of what is not plain, too, wherever that begins', () => {
    for (const odd of ['é', '\u0080', '漢字', '🔔'])
      for (const text of [odd, `a${odd}`, `${odd}b`, `${'k'.repeat(60)}${odd}`])
        expect(crc32(text)).toBe(zlibCrc32(text))
  })

  it('of ten thousand numbered keys', () => {
    for (let n = 0; n < 10_000; n++) expect(crc32(`order-${n * 7919}`)).toBe(zlibCrc32(`order-${n * 7919}`))
  })
})
