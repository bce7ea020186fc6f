import { Heap } from '../../lib/heap.ts'
import { ClaimRecord, type Entry } from './entry.ts'
import type { Taken } from './lanes.ts'

/** The prepare queue of a cell: what is claimed, under which stamp, and until when that is trusted. */
export class Claims {
  readonly #byRequest = new Map<string, ClaimRecord>()
  /** By the end of the lease, monotonic ms. */
  readonly #leases = new Heap<ClaimRecord>()
  #heldCount = 0
  #lastStamp = 0

  get heldCount(): number {
    return this.#heldCount
  }

  /** Infinity: no claim is held. */
  nextLeaseEndMs(): number {
    return this.#leases.headScore()
  }

  of(req: string): ClaimRecord | undefined {
    return this.#byRequest.get(req)
  }

  /** A claim whose lease is over at `steadyMs`, or undefined. */
  expired(steadyMs: number): ClaimRecord | undefined {
    return this.#leases.headScore() <= steadyMs ? this.#leases.head() : undefined
  }

  /** The stamp only ever grows, also when the clock stands still or steps back. */
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

  /** The stamp stays: an extension must never make its own holder stale. */
  extend(record: ClaimRecord, leaseEndMs: number): void {
    this.#leases.move(record, leaseEndMs)
  }

  /** The entry is nobody's; with its last entry the claim is gone. */
  release(entry: Entry): void {
    const record = entry.claim as ClaimRecord
    entry.claim = null
    this.#heldCount--
    if (--record.open > 0) return
    this.#byRequest.delete(record.key)
    this.#leases.remove(record)
  }
}
