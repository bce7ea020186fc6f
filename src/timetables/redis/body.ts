/**
 * The body of a task as Redis stores it (in the hash `pool` of a cell): the creation time in 7 characters, then the
 * JSON. If the task has tags, or a priority other than normal, a line precedes the JSON: '#', the letter of the
 * priority, and each tag after a tab. JSON never starts with '#'.
 */
import type { Priority } from '../../task.ts'

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~'
const CREATED_LENGTH = 7
const LETTERS = { high: 'h', normal: 'n', low: 'l' } as const
const PRIORITY_OF: Record<string, Priority> = { h: 'high', n: 'normal', l: 'low' }
const NO_TAGS: readonly string[] = Object.freeze([])

export interface Body {
  readonly priority: Priority
  readonly tags: readonly string[]
  readonly json: string
}

export function laneLetter(priority: Priority): string {
  return LETTERS[priority]
}

export function encodeBody(
  created: string,
  json: string,
  priority: Priority,
  tags: readonly string[] | null,
): string {
  if (tags === null && priority === 'normal') return created + json
  return `${created}#${[LETTERS[priority], ...(tags ?? [])].join('\t')}\n${json}`
}

export function decodeBody(text: string): Body {
  if (text.charCodeAt(CREATED_LENGTH) !== HASH)
    return { priority: 'normal', tags: NO_TAGS, json: text.slice(CREATED_LENGTH) }
  const end = text.indexOf('\n', CREATED_LENGTH)
  const [letter = 'n', ...tags] = text.slice(CREATED_LENGTH + 1, end).split('\t')
  return { priority: PRIORITY_OF[letter] ?? 'normal', tags, json: text.slice(end + 1) }
}

const HASH = '#'.charCodeAt(0)

/**
 * Encodes a time in ms as 7 characters (42 bits, enough until 2109). Caches the last result, because many tasks share a
 * millisecond.
 */
export function createdText(ms: number): string {
  if (ms === lastMs) return lastText
  let left = Math.max(0, Math.min(ms, 2 ** 42 - 1))
  let text = ''
  for (let i = 0; i < CREATED_LENGTH; i++) {
    text = DIGITS.charAt(left % 64) + text
    left = Math.floor(left / 64)
  }
  lastMs = ms
  lastText = text
  return text
}

let lastMs = -1
let lastText = ''

export function createdMsOf(text: string): number {
  let ms = 0
  for (let i = 0; i < CREATED_LENGTH; i++) ms = ms * 64 + Math.max(0, DIGITS.indexOf(text.charAt(i)))
  return ms
}
