import { describeValue, TocsinError } from '../errors.ts'

export const KEY_BYTES_MAX = 256
export const TAGS_MAX = 4
export const TAG_BYTES_MAX = 64

const PLAIN_TEXT = /^[\x20-\x7e]+$/
const CONTROL_CHARACTER = /\p{Cc}/u
export const TOPIC_NAME = /^[a-z][a-z0-9._-]{0,63}$/

export function checkTopicName(name: unknown): string {
  if (typeof name === 'string' && TOPIC_NAME.test(name)) return name
  throw new TocsinError(
    'bad-topic',
    `${describeValue(name)} is not a topic name; use a lower-case letter, then up to 63 of a–z 0–9 . _ -, like 'order.unpaid'`,
  )
}

/**
 * Throws unless the key has 1–256 bytes of UTF-8 and no control characters. Refuses '.' and '..', because a key is a
 * path segment of the HTTP API.
 */
export function checkKey(key: unknown, field = 'key'): string {
  const problem =
    textProblem(key, KEY_BYTES_MAX) ?? (key === '.' || key === '..' ? 'it is a path trick' : null)
  if (problem === null) return key as string
  throw new TocsinError('bad-key', `${field}: ${describeValue(key)} is not a key: ${problem}`, { field })
}

/** Returns the tags frozen, sorted and without duplicates. Returns null if there are none: then nothing is stored. */
export function checkTags(tags: unknown, field = 'tags'): readonly string[] | null {
  if (tags === undefined) return null
  if (!Array.isArray(tags)) throw badTags(field, `expected an array of text, got ${describeValue(tags)}`)
  if (tags.length === 0) return null
  const unique = [...new Set(Array.from(tags, (tag: unknown, i) => checkTag(tag, `${field}[${i}]`)))].sort()
  if (unique.length > TAGS_MAX) throw badTags(field, `${unique.length} tags; at most ${TAGS_MAX} are kept`)
  return Object.freeze(unique)
}

export function checkTag(tag: unknown, field = 'tag'): string {
  const problem = textProblem(tag, TAG_BYTES_MAX)
  if (problem === null) return tag as string
  throw badTags(field, `${describeValue(tag)} is not a tag: ${problem}`)
}

function badTags(field: string, message: string): TocsinError {
  return new TocsinError('bad-tags', `${field}: ${message}`, { field })
}

/** Throws unless the text can be a prefix: the whole part of a key before its first ':'. */
export function checkPrefix(prefix: unknown, field = 'prefix'): string {
  const problem =
    textProblem(prefix, KEY_BYTES_MAX) ??
    ((prefix as string).includes(':') ? "a prefix is the part of a key before its first ':'" : null)
  if (problem === null) return prefix as string
  throw new TocsinError('bad-key', `${field}: ${describeValue(prefix)} is not a prefix: ${problem}`, {
    field,
  })
}

function textProblem(text: unknown, bytesMax: number): string | null {
  if (typeof text !== 'string') return 'it is not text'
  if (text.length === 0) return 'it is empty'
  if (PLAIN_TEXT.test(text)) return text.length <= bytesMax ? null : tooLong(text.length, bytesMax)
  if (CONTROL_CHARACTER.test(text)) return 'it has a control character'
  if (!text.isWellFormed()) return 'it has half a surrogate pair, which UTF-8 cannot hold'
  const bytes = Buffer.byteLength(text)
  return bytes <= bytesMax ? null : tooLong(bytes, bytesMax)
}

function tooLong(bytes: number, bytesMax: number): string {
  return `it has ${bytes} bytes, at most ${bytesMax} are taken`
}
