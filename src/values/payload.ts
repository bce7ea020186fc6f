import { describeError, TocsinError } from '../errors.ts'

/** Maximum size of a payload as UTF-8 JSON. Store larger values elsewhere, and reference them in the payload. */
export const PAYLOAD_BYTES_MAX = 65_536

/**
 * Maximum nesting depth of a payload. Real documents are less deep, and JSON.stringify overflows the stack only at a
 * depth of about 5,000.
 */
export const PAYLOAD_DEPTH_MAX = 100
const TOO_DEEP = `it is nested more than ${PAYLOAD_DEPTH_MAX} levels deep`

/**
 * Returns the JSON text that is stored for a payload. Throws if JSON.stringify cannot convert the value (a cycle, a
 * BigInt, undefined), or if the text is too large, is nested too deep, or has a key '__proto__'. Handlers get the
 * values as JSON converts them: null for NaN, text for a Date.
 */
export function encodePayload(payload: unknown, field = 'payload'): string {
  const text = stringify(payload, field)
  if (text.length * 3 > PAYLOAD_BYTES_MAX) checkSize(text, field)
  // JSON text of n characters is at most n / 2 levels deep, so most payloads are too short to need this check.
  if (text.length > PAYLOAD_DEPTH_MAX * 2 && depthOf(text) > PAYLOAD_DEPTH_MAX) throw refusal(field, TOO_DEEP)
  if (text.includes('__proto__') && hasProtoKey(JSON.parse(text)))
    throw refusal(field, "it has a key named '__proto__', which turns into an attack when objects are merged")
  return text
}

export function decodePayload(text: string): unknown {
  return JSON.parse(text)
}

function stringify(payload: unknown, field: string): string {
  let text: string | undefined
  try {
    text = JSON.stringify(payload)
  } catch (thrown) {
    if (thrown instanceof RangeError && /call stack/.test(thrown.message))
      throw refusal(field, TOO_DEEP, thrown)
    // V8's message names the cause: a cycle, a BigInt, or a toJSON that throws.
    throw refusal(field, describeError(thrown), thrown)
  }
  if (text === undefined) throw refusal(field, `JSON has no ${typeof payload}; use null for 'nothing'`)
  return text
}

function checkSize(text: string, field: string): void {
  const bytes = Buffer.byteLength(text)
  if (bytes <= PAYLOAD_BYTES_MAX) return
  const message = `${field}: ${bytes} bytes of JSON; at most ${PAYLOAD_BYTES_MAX} are taken. Keep large things in your own store and put their name here`
  throw new TocsinError('payload-too-large', message, { field, bytes, limit: PAYLOAD_BYTES_MAX })
}

/** Returns the nesting depth of JSON text. Counts brackets outside of string literals, without allocating memory. */
function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === BACKSLASH) i++
      else if (code === QUOTE) inString = false
    } else if (code === QUOTE) inString = true
    else if (code === OPEN_BRACE || code === OPEN_BRACKET) deepest = Math.max(deepest, ++depth)
    else if (code === CLOSE_BRACE || code === CLOSE_BRACKET) depth--
  }
  return deepest
}

const [QUOTE, BACKSLASH, OPEN_BRACE, CLOSE_BRACE, OPEN_BRACKET, CLOSE_BRACKET] = [
  0x22, 0x5c, 0x7b, 0x7d, 0x5b, 0x5d,
]

function hasProtoKey(value: unknown): boolean {
  if (value === null || typeof value !== 'object') return false
  if (Object.hasOwn(value, '__proto__')) return true
  return Object.values(value).some(hasProtoKey)
}

function refusal(field: string, why: string, cause?: unknown): TocsinError {
  return new TocsinError('bad-payload', `${field}: cannot be sent as JSON: ${why}`, { field }, cause)
}
