import { finiteOrNull } from '../ring-time.ts'
import type { CellAddress, Place } from '../timetable.ts'

/** A claim of this process: its ledger is told by keys what its timetable is told by request. */
export interface StoreClaim {
  readonly at: CellAddress
  readonly req: string
  readonly stamp: number
  /** Not yet settled. */
  readonly keys: Set<string>
  /** Monotonic: nobody trusts it after this. */
  leaseEndMs: number
}

export class HeldClaims {
  readonly #byRequest = new Map<string, StoreClaim>()
  readonly #byCell = new Map<string, Set<StoreClaim>>()

  add(at: CellAddress, req: string, stamp: number, keys: readonly string[], leaseEndMs: number): void {
    const known = this.of(at, req)
    // Repeated, because its answer was lost.
    if (known !== undefined) return keys.forEach((key) => known.keys.add(key))
    const claim = { at, req, stamp, keys: new Set(keys), leaseEndMs }
    this.#byRequest.set(nameOf(at, req), claim)
    const cell = cellName(at)
    const claims = this.#byCell.get(cell)
    if (claims === undefined) this.#byCell.set(cell, new Set([claim]))
    else claims.add(claim)
  }

  of(at: CellAddress, req: string): StoreClaim | undefined {
    return this.#byRequest.get(nameOf(at, req))
  }

  /** Claims of the cell whose lease is over. */
  expired(at: CellAddress, steadyMs: number): StoreClaim[] {
    const claims = this.#byCell.get(cellName(at))
    if (claims === undefined) return []
    return [...claims].filter(({ leaseEndMs }) => leaseEndMs <= steadyMs)
  }

  /** When the first lease of the cell ends; null when none is held. */
  nextEndMs(at: CellAddress): number | null {
    let endMs = Number.POSITIVE_INFINITY
    for (const { leaseEndMs } of this.#byCell.get(cellName(at)) ?? []) endMs = Math.min(endMs, leaseEndMs)
    return finiteOrNull(endMs)
  }

  settled(at: CellAddress, stamp: number, key: string): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? []) {
      if (claim.stamp !== stamp) continue
      claim.keys.delete(key)
      if (claim.keys.size === 0) this.remove(claim)
      return
    }
  }

  remove(claim: StoreClaim): void {
    this.#byRequest.delete(nameOf(claim.at, claim.req))
    const cell = cellName(claim.at)
    const claims = this.#byCell.get(cell)
    claims?.delete(claim)
    if (claims?.size === 0) this.#byCell.delete(cell)
  }
}

export function placesOfClaim({ at, keys }: StoreClaim): Place[] {
  return Array.from(keys, (key) => ({ key, cell: at.cell }))
}

function cellName({ topic, cell }: CellAddress): string {
  return `${topic}/${cell}`
}

function nameOf(at: CellAddress, req: string): string {
  return `${cellName(at)}/${req}`
}
