/** Claims many tasks of a cell at once. Runs in the transaction of its caller. */
import type { Database } from 'better-sqlite3'
import { byteSizeOf } from '../../lib/byte-size.ts'
import { LOSSES_OF_A_SUSPECT } from '../../values/rescue.ts'
import { KeyListStatement, KEYS_MAX } from './key-list-statement.ts'
import { type ClaimedRow, isIntact } from './rows.ts'

/** Fewer tasks than this are claimed one by one. */
export const LIST_MIN = 8
/** Lists with a longer body are claimed one by one, so that a list of tasks is never read that is too large for one call. */
const BODY_BYTES_MAX = 4_096

export interface ListedClaim {
  readonly topic: number
  readonly cell: number
  readonly session: number
  readonly stamp: number
  readonly leaseEndMs: number
  /** Tasks that ring later are not claimed. */
  readonly nowMs: number
}

type Columns = [string, number, string | null, number, number, number, number, number, string | null, number]

export class ClaimLists {
  readonly #due: KeyListStatement
  readonly #take: KeyListStatement

  constructor(database: Database) {
    // The + keeps SQLite from reading all tasks that are due instead of those in the list.
    this.#due = new KeyListStatement(
      database,
      (list) => `SELECT key, generation, CASE WHEN octet_length(body) <= ${BODY_BYTES_MAX} THEN body END,
        checksum, due_ms, ring_ms, failures, deliveries, tags, priority FROM tocsin_live
      WHERE topic = ? AND cell = ? AND session IS NULL AND +ring_ms <= ? AND lost < ${LOSSES_OF_A_SUSPECT}
        AND key IN (${list})`,
    )
    this.#take = new KeyListStatement(
      database,
      (list) => `UPDATE tocsin_live SET session = ?, stamp = ?, lease_ms = ?, started = 0,
        deliveries = deliveries + 1 WHERE topic = ? AND cell = ? AND key IN (${list})`,
    )
  }

  /**
   * Claims those of the tasks that are pending and due, no suspects, and intact. Adds them to `taken` by their keys. All
   * others are as they were: the caller looks at each of them. Returns the size of the bodies, which is less than
   * `bytesMax`: at the first list that has a long body or does not fit, it leaves that list and all after it to the caller,
   * which claims them in their order until the call is full. Otherwise a short body would be taken before a long one of
   * a higher priority.
   */
  take(
    claim: ListedClaim,
    keys: readonly string[],
    bytesMax: number,
    taken: Map<string, ClaimedRow>,
  ): number {
    let bytes = 0
    for (let from = 0; from < keys.length; from += KEYS_MAX) {
      const size = this.#takeList(claim, keys.slice(from, from + KEYS_MAX), bytesMax - bytes, taken)
      if (size === null) break
      bytes += size
    }
    return bytes
  }

  /** Returns null, without any change, if a body is long or the bodies do not fit. */
  #takeList(
    { topic, cell, session, stamp, leaseEndMs, nowMs }: ListedClaim,
    keys: readonly string[],
    bytesMax: number,
    taken: Map<string, ClaimedRow>,
  ): number | null {
    const rows: ClaimedRow[] = []
    let bytes = 0
    for (const columns of this.#due.rows([topic, cell, nowMs], keys) as Columns[]) {
      const [key, generation, body, checksum, due_ms, ring_ms, failures, deliveries, tags, priority] = columns
      if (body === null) return null
      const row: ClaimedRow = {
        key,
        generation,
        body,
        checksum,
        due_ms,
        ring_ms,
        failures,
        deliveries: deliveries + 1,
        tags,
        priority,
      }
      if (!isIntact(row)) continue
      bytes += byteSizeOf(body)
      rows.push(row)
    }
    if (bytes >= bytesMax) return null
    if (rows.length === 0) return 0
    const found = rows.map(({ key }) => key)
    this.#take.run([session, stamp, leaseEndMs, topic, cell], found)
    for (const row of rows) taken.set(row.key, row)
    return bytes
  }
}
