import type { Clock } from '../clock.ts'
import type { ExtendAnswer } from '../ledger.ts'
import { finiteOrNull } from '../values/ring-time.ts'
import type { CellAddress, Place } from '../timetable.ts'
import { Stamps } from './stamps.ts'

/**
 * A claim of this process. The ledger extends and settles it by key, the hint table extends it by request. Its keys:
 *
 *   asking ──▶ held ──┬──▶ extended     all keys at once: they share one lease (leaseEndMs)
 *   (stamp      │     ├──▶ behind       locked, so not extended with the others; its holder is fenced before its lease
 *   reserved)   │     │                 ends, unless a later extension includes it
 *               │     ├──▶ parted       extended by key: a lease of its own (ownEndMs); the hint table, which has one
 *               │     │                 lease per claim, is not extended any more
 *               │     └──▶ handed out   a client has the token: the stamp stays reserved after the last key is settled
 *               │                                        │
 *               ├──▶ settled: the key is removed ◀───────┤   with the last key the stamp is released
 *               └──▶ lost: the lease ended ◀─────────────┘   the key is removed, the stamp stays reserved for a while
 */
export interface StoreClaim {
  readonly at: CellAddress
  readonly req: string
  readonly stamp: number
  /** Keys that are not settled yet. */
  readonly keys: Set<string>
  /** End of the lease by the monotonic clock, except for keys in `ownEndMs`. */
  leaseEndMs: number
  /** Lease ends of keys that were extended by key. */
  readonly ownEndMs: Map<string, number>
  /** True once some keys were extended without the others: the hint table, which has one lease for all, must not extend it. */
  isParted: boolean
  /** No other process can hold the claim before this: the lease, counted from before the ledger was called. */
  sureUntilMs: number
  /** Keys whose lease could not be extended with the others'. Each value cancels the timer that fences the holder. */
  readonly behind: Map<string, () => void>
  /** Keys that are locked by the transaction of their own handler: no other process can take them. */
  readonly ownLocks: Set<string>
  /** Number of extend calls under way. */
  extending: number
  /** True if a client has the token, and may send a retry after all keys are settled. */
  isHandedOut: boolean
}

/** Notified when the lease of one task of a claim can no longer be relied on. */
export interface Doubts {
  /** The lease of the key ends at `endMs`, not with that of the others. Null: it was extended after all. */
  limited(claim: StoreClaim, key: string, endMs: number | null): void
  /** The lease is about to end, or the task is no longer held. */
  doubtful(claim: StoreClaim, key: string): void
}

/** The holder of a key is fenced this long before its lease ends, as a fraction of the lease. */
const FENCE_BEFORE = 0.1

/** The claims that this process holds, with the ends of their leases. */
export class HeldClaims {
  readonly #byRequest = new Map<string, StoreClaim>()
  readonly #byCell = new Map<string, Set<StoreClaim>>()
  readonly #stamps = new Stamps()
  readonly #clock: Clock
  readonly #doubts: Doubts

  constructor(clock: Clock, doubts: Doubts) {
    this.#clock = clock
    this.#doubts = doubts
  }

  /**
   * Reserves the stamp, before the ledger is called. Returns when the ledger was first called for this request. Null if
   * another claim may hold tasks under the stamp, which must not be used then.
   */
  asking(at: CellAddress, req: string, stamp: number, leaseMs: number): number | null {
    return this.#stamps.take(at, stamp, req, this.#clock.monotonicNow(), leaseMs)
  }

  /** `askedMs`: when the ledger was called. It has answered now: its lease began at some moment in between. */
  add(
    at: CellAddress,
    req: string,
    stamp: number,
    keys: readonly string[],
    askedMs: number,
    leaseMs: number,
  ): void {
    if (keys.length === 0) return this.#stamps.free(at, stamp, req)
    const known = this.of(at, req)
    // A retry after a lost answer.
    if (known !== undefined) return keys.forEach((key) => known.keys.add(key))
    const claim: StoreClaim = {
      at,
      req,
      stamp,
      keys: new Set(keys),
      // Counted from the answer: a task is not rescued while its lease lasts in the ledger.
      leaseEndMs: this.#clock.monotonicNow() + leaseMs,
      ownEndMs: new Map(),
      isParted: false,
      sureUntilMs: askedMs + leaseMs,
      behind: new Map(),
      ownLocks: new Set(),
      extending: 0,
      isHandedOut: false,
    }
    this.#byRequest.set(nameOf(at, req), claim)
    const cell = cellName(at)
    const claims = this.#byCell.get(cell)
    if (claims === undefined) this.#byCell.set(cell, new Set([claim]))
    else claims.add(claim)
  }

  of(at: CellAddress, req: string): StoreClaim | undefined {
    return this.#byRequest.get(nameOf(at, req))
  }

  /** Records the answers to an extension of all keys. Keys that are locked by a transaction do not hold up the others. */
  extended(
    claim: StoreClaim,
    keys: readonly string[],
    answers: readonly ExtendAnswer[],
    askedMs: number,
    leaseMs: number,
  ): void {
    // All keys were settled meanwhile.
    if (this.of(claim.at, claim.req) !== claim) return
    const nowMs = this.#clock.monotonicNow()
    const fenceInMs = Math.max(0, claim.sureUntilMs - leaseMs * FENCE_BEFORE - nowMs)
    for (const [i, key] of keys.entries()) {
      if (!claim.keys.has(key)) continue
      if (answers[i] === 'extended') {
        claim.ownEndMs.delete(key)
        this.#caughtUp(claim, key)
      } else if (answers[i] === 'stale') {
        // Replaced, or claimed by another process: the extended lease of the others must not cover this key.
        this.settled(claim.at, claim.stamp, key)
        this.#doubts.doubtful(claim, key)
      } else if (!claim.ownLocks.has(key)) this.#leftBehind(claim, key, fenceInMs)
    }
    if (!answers.includes('extended') || claim.keys.size === 0) return
    claim.leaseEndMs = nowMs + leaseMs
    claim.sureUntilMs = askedMs + leaseMs
    this.#stamps.take(claim.at, claim.stamp, claim.req, nowMs, leaseMs)
  }

  /**
   * Records the answers to an extension of some keys; the leases of the others end when they would have. Returns true if
   * these were all keys of the claim, and it never parted.
   */
  extendedKeys(
    claim: StoreClaim,
    keys: readonly string[],
    answers: readonly ExtendAnswer[],
    leaseMs: number,
  ): boolean {
    // All keys were settled meanwhile.
    if (this.of(claim.at, claim.req) !== claim) return false
    const nowMs = this.#clock.monotonicNow()
    const extended = new Set<string>()
    for (const [i, key] of keys.entries()) {
      if (!claim.keys.has(key)) continue
      if (answers[i] === 'extended') extended.add(key)
      else if (answers[i] === 'stale') this.settled(claim.at, claim.stamp, key)
    }
    if (extended.size === 0) return false
    this.#stamps.take(claim.at, claim.stamp, claim.req, nowMs, leaseMs)
    for (const key of extended) claim.ownEndMs.set(key, nowMs + leaseMs)
    claim.isParted ||= extended.size < claim.keys.size
    return !claim.isParted
  }

  /** Returns the claims of the cell of which some leases have ended, with the keys of these leases. */
  expired(at: CellAddress, steadyMs: number): { readonly claim: StoreClaim; readonly keys: string[] }[] {
    const claims = this.#byCell.get(cellName(at))
    if (claims === undefined) return []
    return [...claims].flatMap((claim) => {
      // A claim that is being extended may live on: wait for the ledger's answer.
      if (claim.extending > 0 || firstEndMs(claim) > steadyMs) return []
      return { claim, keys: [...claim.keys].filter((key) => endMsOf(claim, key) <= steadyMs) }
    })
  }

  /** Returns when the first lease of the cell ends. Null if none is held. Skips claims that are being extended. */
  nextEndMs(at: CellAddress): number | null {
    let endMs = Number.POSITIVE_INFINITY
    for (const claim of this.#byCell.get(cellName(at)) ?? [])
      if (claim.extending === 0) endMs = Math.min(endMs, firstEndMs(claim))
    return finiteOrNull(endMs)
  }

  /** The transaction of a handler has locked its own task, or released it. */
  ownLock(at: CellAddress, stamp: number, key: string, isLocked: boolean): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? []) {
      if (claim.stamp !== stamp) continue
      if (isLocked) claim.ownLocks.add(key)
      else claim.ownLocks.delete(key)
    }
  }

  /** Keeps the stamp reserved for a while after the claim ends: the client's token must not match another claim. */
  handedOut(at: CellAddress, stamp: number): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? [])
      if (claim.stamp === stamp) claim.isHandedOut = true
  }

  settled(at: CellAddress, stamp: number, key: string): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? []) {
      if (claim.stamp !== stamp) continue
      claim.keys.delete(key)
      claim.ownEndMs.delete(key)
      this.#caughtUp(claim, key)
      if (claim.keys.size === 0) this.#ended(claim)
      return
    }
  }

  #ended(claim: StoreClaim): void {
    if (!claim.isHandedOut) this.#stamps.free(claim.at, claim.stamp, claim.req)
    this.#forget(claim)
  }

  /** Removes keys whose lease ended. Their holder may still settle late, so the stamp stays reserved for a while. */
  lost(claim: StoreClaim, keys: readonly string[]): void {
    for (const key of keys) {
      claim.keys.delete(key)
      claim.ownEndMs.delete(key)
      claim.behind.get(key)?.()
      claim.behind.delete(key)
    }
    if (claim.keys.size === 0) this.#forget(claim)
  }

  #forget(claim: StoreClaim): void {
    for (const cancelTimer of claim.behind.values()) cancelTimer()
    claim.behind.clear()
    this.#byRequest.delete(nameOf(claim.at, claim.req))
    const cell = cellName(claim.at)
    const claims = this.#byCell.get(cell)
    claims?.delete(claim)
    if (claims?.size === 0) this.#byCell.delete(cell)
  }

  close(): void {
    for (const claim of this.#byRequest.values()) this.#forget(claim)
  }

  /** Caps the key's lease now; fences a running handler shortly before the lease ends. */
  #leftBehind(claim: StoreClaim, key: string, fenceInMs: number): void {
    if (claim.behind.has(key)) return
    const fence = () => this.#doubts.doubtful(claim, key)
    claim.behind.set(key, fenceInMs > 0 ? this.#clock.after(fenceInMs, fence, true) : () => {})
    this.#doubts.limited(claim, key, claim.sureUntilMs)
    if (fenceInMs <= 0) fence()
  }

  #caughtUp(claim: StoreClaim, key: string): void {
    const cancelTimer = claim.behind.get(key)
    if (cancelTimer === undefined) return
    cancelTimer()
    claim.behind.delete(key)
    this.#doubts.limited(claim, key, null)
  }
}

function endMsOf({ ownEndMs, leaseEndMs }: StoreClaim, key: string): number {
  return ownEndMs.get(key) ?? leaseEndMs
}

/** Returns when the first lease of the claim ends. */
function firstEndMs({ keys, ownEndMs, leaseEndMs }: StoreClaim): number {
  return Math.min(...ownEndMs.values(), ownEndMs.size < keys.size ? leaseEndMs : Number.POSITIVE_INFINITY)
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
