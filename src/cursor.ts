import { TocsinError } from './errors.ts'
import type { ListPosition } from './timetable.ts'

/** Opaque to callers: where a page ended. */
export function encodeCursor({ ringMs, key }: ListPosition): string {
  return Buffer.from(JSON.stringify([ringMs, key])).toString('base64url')
}

export function decodeCursor(cursor: unknown): ListPosition {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor as string, 'base64url').toString())
    if (Array.isArray(parts) && Number.isFinite(parts[0]) && typeof parts[1] === 'string')
      return { ringMs: parts[0] as number, key: parts[1] }
  } catch {
    // Falls through to the refusal, which says the same for every kind of damage.
  }
  throw new TocsinError('bad-cursor', "cursor: not one that 'list' returned; start again without it", {
    field: 'cursor',
  })
}
