import { TocsinError } from './errors.ts'
import type { ListPosition } from './timetable.ts'

/** Opaque to callers: where a page ended. */
export function encodeCursor({ ringMs, failures, key }: ListPosition): string {
  return Buffer.from(JSON.stringify([ringMs, failures, key])).toString('base64url')
}

export function decodeCursor(cursor: unknown): ListPosition {
  try {
    const parts: unknown = JSON.parse(Buffer.from(cursor as string, 'base64url').toString())
    if (Array.isArray(parts)) {
      const [ringMs, failures, key] = parts as unknown[]
      if (Number.isFinite(ringMs) && Number.isFinite(failures) && typeof key === 'string')
        return { ringMs: ringMs as number, failures: failures as number, key }
    }
  } catch {
    // Falls through to the refusal, which says the same for every kind of damage.
  }
  throw new TocsinError('bad-cursor', "cursor: not one that 'list' returned; start again without it", {
    field: 'cursor',
  })
}
