/**
 * Packs lists into one argument in MessagePack, which Lua in Redis unpacks (cmsgpack). A thousand tasks then take one
 * argument instead of three thousand: less work for the client, for Redis and for the garbage collector. Supports only
 * the three types that are needed: lists, strings and numbers.
 */
const ARRAY_32 = 0xdd
const STRING_8 = 0xd9
const STRING_16 = 0xda
const STRING_32 = 0xdb
const FLOAT_64 = 0xcb
/** Strings up to this length are written character by character, if all characters are ASCII. */
const SHORT = 32
const NOT_ASCII = 0x80
/** A UTF-16 unit takes at most this many bytes of UTF-8. */
const BYTES_PER_UNIT_MAX = 3

/** The initial size of a Packer's buffer: 1.25 times the size of the last packed result, within these limits. */
const LIKELY_BYTES_MIN = 1_024
const LIKELY_BYTES_MAX = 131_072
let likelyBytes = LIKELY_BYTES_MIN

/** Packs lists one after the other. cmsgpack.unpack returns each list as a separate value. */
export class Packer {
  #bytes = Buffer.allocUnsafe(likelyBytes)
  #end = 0
  #listStart = 0
  #listLength = 0

  beginList(): this {
    this.#closeList()
    this.#listStart = this.#reserve(5)
    this.#end += 5
    return this
  }

  string(text: string): void {
    if (text.length <= SHORT && this.#shortAscii(text)) return
    const bytesMax = text.length * BYTES_PER_UNIT_MAX
    const header = bytesMax < 256 ? 2 : bytesMax < 65_536 ? 3 : 5
    const at = this.#reserve(header + bytesMax)
    const bytes = this.#bytes
    const length = bytes.write(text, at + header)
    if (header === 2) {
      bytes[at] = STRING_8
      bytes[at + 1] = length
    } else if (header === 3) {
      bytes[at] = STRING_16
      bytes[at + 1] = length >> 8
      bytes[at + 2] = length & 255
    } else {
      bytes[at] = STRING_32
      bytes.writeUInt32BE(length, at + 1)
    }
    this.#end = at + header + length
    this.#listLength++
  }

  /**
   * Writes a short ASCII string and returns true. Returns false for other text. Most keys are short ASCII, and this
   * loop is faster than Buffer.write.
   */
  #shortAscii(text: string): boolean {
    const { length } = text
    const at = this.#reserve(2 + length)
    const bytes = this.#bytes
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i)
      if (code >= NOT_ASCII) return false
      bytes[at + 2 + i] = code
    }
    bytes[at] = STRING_8
    bytes[at + 1] = length
    this.#end = at + 2 + length
    this.#listLength++
    return true
  }

  number(value: number): void {
    const at = this.#reserve(9)
    this.#bytes[at] = FLOAT_64
    this.#bytes.writeDoubleBE(value, at + 1)
    this.#end = at + 9
    this.#listLength++
  }

  /** Returns the bytes. Nothing may be added after this call. */
  packed(): Buffer {
    this.#closeList()
    likelyBytes = Math.min(Math.max(LIKELY_BYTES_MIN, this.#end + (this.#end >> 2)), LIKELY_BYTES_MAX)
    return this.#bytes.subarray(0, this.#end)
  }

  /** Writes the header of the current list. The header contains the length of the list, which is known only now. */
  #closeList(): void {
    if (this.#end === 0) return
    this.#bytes[this.#listStart] = ARRAY_32
    this.#bytes.writeUInt32BE(this.#listLength, this.#listStart + 1)
    this.#listLength = 0
  }

  /** Grows the buffer if needed, so that this many more bytes fit. Returns the offset at which to write them. */
  #reserve(bytes: number): number {
    const end = this.#end
    if (end + bytes > this.#bytes.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.#bytes.length * 2, end + bytes))
      this.#bytes.copy(larger, 0, 0, end)
      this.#bytes = larger
    }
    return end
  }
}

export function packLists(...lists: readonly (readonly string[])[]): Buffer {
  const packer = new Packer()
  for (const list of lists) {
    packer.beginList()
    for (const text of list) packer.string(text)
  }
  return packer.packed()
}
