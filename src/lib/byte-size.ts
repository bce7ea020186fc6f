/** Up to this length, the size of a text is estimated. A thousand such texts are smaller than one full batch. */
const SHORT_LENGTH = 256

/**
 * Returns the size of a text in bytes of UTF-8. For a short text, returns its length, which is not more than its size:
 * counting bytes takes longer, and batches of short texts are limited by their number.
 */
export function byteSizeOf(text: string): number {
  return text.length <= SHORT_LENGTH ? text.length : Buffer.byteLength(text)
}
