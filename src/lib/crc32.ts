import { crc32 as zlibCrc32 } from 'node:zlib'

const LONGEST_PLAIN = 64
const NOT_PLAIN = 0x80

export const CRC32_TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1
  return crc
})

/**
 * CRC-32 of a text's UTF-8, as zlib has it. Every task's key goes through this: for short plain ones, which nearly all
 * are, calling out takes several times as long as the work.
 */
export function crc32(text: string): number {
  if (text.length > LONGEST_PLAIN) return zlibCrc32(text)
  let crc = 0xffffffff
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code >= NOT_PLAIN) return zlibCrc32(text)
    crc = (CRC32_TABLE[(crc ^ code) & 0xff] as number) ^ (crc >>> 8)
  }
  return (crc ^ 0xffffffff) >>> 0
}
