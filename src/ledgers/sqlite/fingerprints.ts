import { crc32 } from '../../lib/crc32.ts'
import { prefixOf } from '../../values/cell.ts'

/** Bytes of one fingerprint. A batch of 128 keys is searched in vain for one key in 20,000 that it does not have. */
const BYTES = 3

/**
 * Returns the fingerprints of the keys of a batch, and of their prefixes, side by side. SQLite finds one with `instr`, so
 * that a search for a key or a prefix reads only the batches that may have it. `instr` may also match across two
 * fingerprints: then the batch is read in vain.
 *
 * (A Bloom filter takes two thirds of the bytes, but SQLite has no function that tests a bit.)
 */
export function fingerprintsOf(keys: readonly string[]): Buffer {
  const texts = new Set(keys)
  for (const key of keys) texts.add(prefixOf(key))
  const filter = Buffer.allocUnsafe(texts.size * BYTES)
  let at = 0
  for (const text of texts) at = write(fingerprint(text), filter, at)
  return filter
}

/** Returns the fingerprint of a key or of a prefix. */
export function fingerprintOf(text: string): Buffer {
  const bytes = Buffer.allocUnsafe(BYTES)
  write(fingerprint(text), bytes, 0)
  return bytes
}

function write(value: number, into: Buffer, at: number): number {
  into[at] = value >>> 16
  into[at + 1] = (value >>> 8) & 0xff
  into[at + 2] = value & 0xff
  return at + BYTES
}

/** The low bits of the checksum select the cell of a key, so the keys of a cell share them. The others are taken. */
function fingerprint(text: string): number {
  return crc32(text) >>> 8
}
