import type { Clock } from '../clock.ts'
import type { ExtendAnswer } from '../ledger.ts'
import { finiteOrNull } from '../values/ring-time.ts'
import type { CellAddress, Place } from '../timetable.ts'
import { Stamps } from './stamps.ts'

/**
 * A claim of this process. The ledger extends and settles a claim key by key; the hint table extends it as a whole, by
 * its request id. The states of a key of the claim:
 *
 *   asking ──▶ held ──┬──▶ extended     all keys at once: they share one lease (leaseEndMs)
 *   (stamp      │     ├──▶ behind       locked, so not extended with the other keys; the lease holder must stop
 *   reserved)   │     │                 (fenced) before this key's lease ends, unless the key is extended later
 *               │     ├──▶ parted       extended by key, so it has a lease of its own (ownEndMs); the hint table, which
 *               │     │                 has one lease for the whole claim, no longer extends the claim
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
  /** The end of the lease of all keys that are not in `ownEndMs`, by the monotonic clock. */
  leaseEndMs: number
  /** The ends of the leases of keys that were extended by key, by the monotonic clock. */
  readonly ownEndMs: Map<string, number>
  /**
   * True once an extension by key (`extendedKeys`) left out some keys. Then the claim must not be extended in the hint
   * table, which has one lease for all keys.
   */
  isParted: boolean
  /**
   * Until this time of the monotonic clock, no other process can claim the keys. This time is one lease after the call
   * to the ledger. `leaseEndMs` is later: one lease after the ledger's answer.
   */
  sureUntilMs: number
  /** Keys that could not be extended with the other keys. Each value cancels the timer that fences the lease holder. */
  readonly behind: Map<string, () => void>
  /**
   * Keys that the transaction of their own handler has locked. No other process can claim these keys, so the handler is
   * not fenced.
   */
  readonly ownLocks: Set<string>
  /** The number of extend calls under way. */
  extending: number
  /** True if a client has the token. The client may use the token even after all keys are settled. */
  isHandedOut: boolean
}

/** Callbacks for a single key whose lease ends earlier than the leases of the other keys of its claim. */
export interface Doubts {
  /**
   * Called when a key was not extended with the other keys: its lease ends at `endMs`, by the monotonic clock. Called
   * with null when the key was extended later, or was settled.
   */
  limited(claim: StoreClaim, key: string, endMs: number | null): void
  /** Called when the lease of the key is about to end, or the key is no longer held. */
  doubtful(claim: StoreClaim, key: string): void
}

/** How long before the end of a key's lease the lease holder is fenced, as a fraction of the lease. */
const FENCE_BEFORE = 0.1

/** The claims that this process holds, and when their leases end. */
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
   * Reserves the stamp. Call this before the call to the ledger. Returns the time of the first call to the ledger for
   * this request. Returns null if the stamp must not be used, because another claim may hold tasks under it.
   */
  asking(at: CellAddress, req: string, stamp: number, leaseMs: number): number | null {
    return this.#stamps.take(at, stamp, req, this.#clock.monotonicNow(), leaseMs)
  }

  /**
   * Adds a claim after the ledger's answer. The lease began between the call to the ledger (`askedMs`) and now. If the
   * ledger granted no key, adds nothing and releases the stamp.
   */
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
    // The claim is known if this call is a retry after a lost answer.
    if (known !== undefined) return keys.forEach((key) => known.keys.add(key))
    const claim: StoreClaim = {
      at,
      req,
      stamp,
      keys: new Set(keys),
      // Count from the answer, not from the call, so that no task is rescued before its lease ends in the ledger.
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

  /** Records the answers to an extension of all keys. A key locked by a transaction does not delay the other keys. */
  extended(
    claim: StoreClaim,
    keys: readonly string[],
    answers: readonly ExtendAnswer[],
    askedMs: number,
    leaseMs: number,
  ): void {
    // The claim is gone if all keys were settled meanwhile.
    if (this.of(claim.at, claim.req) !== claim) return
    const nowMs = this.#clock.monotonicNow()
    const fenceInMs = Math.max(0, claim.sureUntilMs - leaseMs * FENCE_BEFORE - nowMs)
    for (const [i, key] of keys.entries()) {
      if (!claim.keys.has(key)) continue
      if (answers[i] === 'extended') {
        claim.ownEndMs.delete(key)
        this.#caughtUp(claim, key)
      } else if (answers[i] === 'stale') {
        // The task was replaced, or another process claimed it. The extended lease must not include this key.
        this.#settled(claim, key)
        this.#doubts.doubtful(claim, key)
      } else if (!claim.ownLocks.has(key)) this.#leftBehind(claim, key, fenceInMs)
    }
    if (!answers.includes('extended') || claim.keys.size === 0) return
    claim.leaseEndMs = nowMs + leaseMs
    claim.sureUntilMs = askedMs + leaseMs
    this.#stamps.take(claim.at, claim.stamp, claim.req, nowMs, leaseMs)
  }

  /**
   * Records the answers to an extension of some keys. The leases of the other keys do not change. Returns true if the
   * caller must also extend the claim in the hint table: all keys were extended, now and in every earlier call.
   */
  extendedKeys(
    claim: StoreClaim,
    keys: readonly string[],
    answers: readonly ExtendAnswer[],
    leaseMs: number,
  ): boolean {
    // The claim is gone if all keys were settled meanwhile.
    if (this.of(claim.at, claim.req) !== claim) return false
    const nowMs = this.#clock.monotonicNow()
    const extended = new Set<string>()
    for (const [i, key] of keys.entries()) {
      if (!claim.keys.has(key)) continue
      if (answers[i] === 'extended') extended.add(key)
      else if (answers[i] === 'stale') this.#settled(claim, key)
    }
    if (extended.size === 0) return false
    this.#stamps.take(claim.at, claim.stamp, claim.req, nowMs, leaseMs)
    for (const key of extended) claim.ownEndMs.set(key, nowMs + leaseMs)
    claim.isParted ||= extended.size < claim.keys.size
    return !claim.isParted
  }

  /** Returns the claims of the cell that have expired leases, each with the keys of these leases. */
  expired(at: CellAddress, steadyMs: number): { readonly claim: StoreClaim; readonly keys: string[] }[] {
    const claims = this.#byCell.get(cellName(at))
    if (claims === undefined) return []
    return [...claims].flatMap((claim) => {
      // Skip a claim that is being extended: the ledger may still extend its leases.
      if (claim.extending > 0 || firstEndMs(claim) > steadyMs) return []
      return { claim, keys: [...claim.keys].filter((key) => endMsOf(claim, key) <= steadyMs) }
    })
  }

  /** Returns when the first lease of the cell ends; null if there is none. Ignores claims that are being extended. */
  nextEndMs(at: CellAddress): number | null {
    let endMs = Number.POSITIVE_INFINITY
    for (const claim of this.#byCell.get(cellName(at)) ?? [])
      if (claim.extending === 0) endMs = Math.min(endMs, firstEndMs(claim))
    return finiteOrNull(endMs)
  }

  /**
   * Records that a handler's transaction has locked the handler's own task, or (`isLocked` false) that it has ended.
   */
  ownLock(at: CellAddress, stamp: number, key: string, isLocked: boolean): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? []) {
      if (claim.stamp !== stamp) continue
      if (isLocked) claim.ownLocks.add(key)
      else claim.ownLocks.delete(key)
    }
  }

  /** Keeps the stamp reserved for a while after the claim ends, so that the client's token matches no other claim. */
  handedOut(at: CellAddress, stamp: number): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? [])
      if (claim.stamp === stamp) claim.isHandedOut = true
  }

  settled(at: CellAddress, settlements: readonly { readonly key: string; readonly stamp: number }[]): void {
    const claims = this.#byCell.get(cellName(at))
    if (claims === undefined) return
    let claim: StoreClaim | undefined
    for (const { key, stamp } of settlements) {
      // Tasks of one claim usually follow one another.
      if (claim?.stamp !== stamp) claim = withStamp(claims, stamp)
      if (claim === undefined) continue
      this.#settled(claim, key)
      // The claim has ended, and its stamp may be used again.
      if (claim.keys.size === 0) claim = undefined
    }
  }

  #settled(claim: StoreClaim, key: string): void {
    claim.keys.delete(key)
    if (claim.ownEndMs.size > 0) claim.ownEndMs.delete(key)
    if (claim.behind.size > 0) this.#caughtUp(claim, key)
    if (claim.keys.size === 0) this.#ended(claim)
  }

  #ended(claim: StoreClaim): void {
    if (!claim.isHandedOut) this.#stamps.free(claim.at, claim.stamp, claim.req)
    this.#forget(claim)
  }

  /** Removes keys whose lease ended. The stamp stays reserved for a while, because a late settle may still arrive. */
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

  /** Reports the end of the key's lease now, and fences the handler shortly before that end. */
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

function withStamp(claims: Iterable<StoreClaim>, stamp: number): StoreClaim | undefined {
  for (const claim of claims) if (claim.stamp === stamp) return claim
  return undefined
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
