import { Heap } from '../../lib/heap.ts'
import { ClaimRecord, type Entry } from './entry.ts'
import type { Taken } from './lanes.ts'

/** The claims of a cell: which tasks are held, under which stamp, and when the lease ends. */
export class Claims {
  readonly #byRequest = new Map<string, ClaimRecord>()
  /** The claims, ordered by the end of their lease, in ms of the monotonic clock. */
  readonly #leases = new Heap<ClaimRecord>()
  #heldCount = 0
  #lastStamp = 0

  get heldCount(): number {
    return this.#heldCount
  }

  /** Returns when the first lease ends. Infinity if there is no claim. */
  nextLeaseEndMs(): number {
    return this.#leases.headScore()
  }

  of(req: string): ClaimRecord | undefined {
    return this.#byRequest.get(req)
  }

  /** Returns a claim whose lease has expired at `steadyMs`, or undefined if there is none. */
  expired(steadyMs: number): ClaimRecord | undefined {
    return this.#leases.headScore() <= steadyMs ? this.#leases.head() : undefined
  }

  /**
   * Creates a claim. Its stamp is the current time, or the last stamp plus 1 if that is greater. So stamps grow even if
   * the clock stands still or steps back. A claim without tasks is returned, but neither it nor its stamp is stored.
   */
  hold(
    req: string,
    { members, scores }: Taken,
    alone: boolean,
    nowMs: number,
    leaseEndMs: number,
  ): ClaimRecord {
    const stamp = Math.max(nowMs, this.#lastStamp + 1)
    const record = new ClaimRecord(req, stamp, members, scores, alone)
    if (members.length === 0) return record
    this.#lastStamp = stamp
    this.#byRequest.set(req, record)
    this.#leases.push(record, leaseEndMs)
    this.#heldCount += members.length
    for (const [i, entry] of members.entries()) {
      entry.claim = record
      entry.position = i
    }
    return record
  }

  /**
   * Changes the end of a lease. The stamp stays the same, because the lease holder settles its tasks with this stamp.
   */
  extend(record: ClaimRecord, leaseEndMs: number): void {
    this.#leases.move(record, leaseEndMs)
  }

  /** Ends the claim of one entry. Deletes the claim if it has no more entries. */
  release(entry: Entry): void {
    const record = entry.claim as ClaimRecord
    entry.claim = null
    this.#heldCount--
    if (--record.open > 0) return
    this.#byRequest.delete(record.key)
    this.#leases.remove(record)
  }
}
