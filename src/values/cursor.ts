import { TocsinError } from '../errors.ts'
import { checkKey } from './key.ts'
import type { ListPosition } from './list-position.ts'

/** Returns a cursor, which is opaque to callers: the position of the last task of a page. */
export function encodeCursor({ ringMs, failures, key }: ListPosition): string {
  return Buffer.from(JSON.stringify([ringMs, failures, key])).toString('base64url')
}

export function decodeCursor(cursor: unknown): ListPosition {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor as string, 'base64url').toString())
    if (Array.isArray(parts)) {
      const [ringMs, failures, key] = parts as unknown[]
      if (isCount(ringMs) && isCount(failures)) return { ringMs, failures, key: checkKey(key) }
    }
  } catch {
    // Every kind of invalid cursor gets the error below.
  }
  throw new TocsinError('bad-cursor', "cursor: not one that 'list' returned; start again without it", {
    field: 'cursor',
  })
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
