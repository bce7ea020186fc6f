/** The number of hash slots of a Redis Cluster. */
export const HASH_SLOTS = 16_384

/** CRC16-CCITT (XMODEM), with the polynomial 0x1021, by bytes. */
const TABLE = Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 8
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? (crc << 1) ^ 0x1021 : crc << 1
  return crc & 0xffff
})

/** Returns the hash slot of a key: that of its hash tag (`{…}`) if it has one, as Redis computes it. */
export function hashSlotOf(key: string): number {
  const [, tag = ''] = /^[^{]*\{([^}]+)\}/.exec(key) ?? []
  let crc = 0
  for (const byte of Buffer.from(tag === '' ? key : tag))
    crc = ((crc << 8) & 0xffff) ^ (TABLE[(crc >> 8) ^ byte] as number)
  return crc % HASH_SLOTS
}
