import type { Clock } from '../clock.ts'
import type { ExtendAnswer } from '../ledger.ts'
import { finiteOrNull } from '../values/ring-time.ts'
import type { CellAddress, Place } from '../timetable.ts'
import { Stamps } from './stamps.ts'

/** A claim of this process: its ledger is told by keys what its timetable is told by request. */
export interface StoreClaim {
  readonly at: CellAddress
  readonly req: string
  readonly stamp: number
  /** Not yet settled. */
  readonly keys: Set<string>
  /** Monotonic: nobody trusts it after this. */
  leaseEndMs: number
  /** Of keys that were prolonged by themselves: when each of their leases ends. */
  readonly apart: Map<string, number>
  /** The leases of its keys are no longer one: the timetable, which has one for all of them, must not prolong it. */
  isParted: boolean
  /** Nobody else can have it before this: counted from before the ledger was asked. */
  sureUntilMs: number
  /** Keys whose lease could not be prolonged with the others'; each calls off that its holder is told. */
  readonly behind: Map<string, () => void>
  /** Keys that are locked by their own handler: nobody can take these. */
  readonly ownLocks: Set<string>
  /** Extensions that are not answered yet. */
  extending: number
  /** Somebody outside has its token, and may speak again when all of it is settled. */
  isHandedOut: boolean
}

/** What becomes of one task of a claim. */
export interface Doubts {
  /** Its lease ends then, and not with that of the others. Null: it was prolonged. */
  limited(claim: StoreClaim, key: string, endMs: number | null): void
  /** Its lease is all but over, or it is not ours any more. */
  doubtful(claim: StoreClaim, key: string): void
}

/** The holder of a key is told so long before its lease is over, as a share of the lease. */
const TOLD_BEFORE = 0.1

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

  /** Before the ledger is asked: when it was first. Null: its stamp is that of another claim, and must not be used. */
  asking(at: CellAddress, req: string, stamp: number, leaseMs: number): number | null {
    return this.#stamps.take(at, stamp, req, this.#clock.monotonicNow(), leaseMs)
  }

  /** `askedMs`: when the ledger was asked; it has answered now, and trusts the claim from some moment in between. */
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
    // Repeated, because its answer was lost.
    if (known !== undefined) return keys.forEach((key) => known.keys.add(key))
    const claim: StoreClaim = {
      at,
      req,
      stamp,
      keys: new Set(keys),
      // From when the ledger has answered: nobody is rescued whom the ledger still trusts.
      leaseEndMs: this.#clock.monotonicNow() + leaseMs,
      apart: new Map(),
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

  /** Some leases go on, and some do not: where somebody's transaction is at a task, the others are not held up for it. */
  extended(
    claim: StoreClaim,
    keys: readonly string[],
    answers: readonly ExtendAnswer[],
    askedMs: number,
    leaseMs: number,
  ): void {
    // Settled meanwhile, all of it: there is no lease left to speak of.
    if (this.of(claim.at, claim.req) !== claim) return
    const nowMs = this.#clock.monotonicNow()
    const tellInMs = Math.max(0, claim.sureUntilMs - leaseMs * TOLD_BEFORE - nowMs)
    for (const [i, key] of keys.entries()) {
      if (!claim.keys.has(key)) continue
      if (answers[i] === 'extended') {
        claim.apart.delete(key)
        this.#caughtUp(claim, key)
      } else if (answers[i] === 'stale') {
        // Replaced, or somebody else's by now: the trust in the others must not be trust in this one.
        this.settled(claim.at, claim.stamp, key)
        this.#doubts.doubtful(claim, key)
      } else if (!claim.ownLocks.has(key)) this.#leftBehind(claim, key, tellInMs)
    }
    if (!answers.includes('extended') || claim.keys.size === 0) return
    claim.leaseEndMs = nowMs + leaseMs
    claim.sureUntilMs = askedMs + leaseMs
    this.#stamps.take(claim.at, claim.stamp, claim.req, nowMs, leaseMs)
  }

  /**
   * Only these of its keys were asked for, each by whoever bears it: the leases of the others end when they would have.
   * True: that was all of them, and the claim is still one.
   */
  extendedKeys(
    claim: StoreClaim,
    keys: readonly string[],
    answers: readonly ExtendAnswer[],
    leaseMs: number,
  ): boolean {
    // Settled meanwhile, all of it.
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
    for (const key of extended) claim.apart.set(key, nowMs + leaseMs)
    claim.isParted ||= extended.size < claim.keys.size
    return !claim.isParted
  }

  /** Claims of the cell of which some keys' leases are over, with these. */
  expired(at: CellAddress, steadyMs: number): { readonly claim: StoreClaim; readonly keys: string[] }[] {
    const claims = this.#byCell.get(cellName(at))
    if (claims === undefined) return []
    return [...claims].flatMap((claim) => {
      // One that is being extended may live on: what the ledger says to that comes first.
      if (claim.extending > 0 || firstEndMs(claim) > steadyMs) return []
      return { claim, keys: [...claim.keys].filter((key) => endMsOf(claim, key) <= steadyMs) }
    })
  }

  /** When the first lease of the cell ends; null when none is held. What is being extended is not looked at meanwhile. */
  nextEndMs(at: CellAddress): number | null {
    let endMs = Number.POSITIVE_INFINITY
    for (const claim of this.#byCell.get(cellName(at)) ?? [])
      if (claim.extending === 0) endMs = Math.min(endMs, firstEndMs(claim))
    return finiteOrNull(endMs)
  }

  /** A handler has locked its own task, or has let go of it. */
  ownLock(at: CellAddress, stamp: number, key: string, isLocked: boolean): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? []) {
      if (claim.stamp !== stamp) continue
      if (isLocked) claim.ownLocks.add(key)
      else claim.ownLocks.delete(key)
    }
  }

  /** From now on its stamp is its own for a while, however it ends: a token must not become that of another claim. */
  handedOut(at: CellAddress, stamp: number): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? [])
      if (claim.stamp === stamp) claim.isHandedOut = true
  }

  settled(at: CellAddress, stamp: number, key: string): void {
    for (const claim of this.#byCell.get(cellName(at)) ?? []) {
      if (claim.stamp !== stamp) continue
      claim.keys.delete(key)
      claim.apart.delete(key)
      this.#caughtUp(claim, key)
      if (claim.keys.size === 0) this.#ended(claim)
      return
    }
  }

  /** All of it is settled. */
  #ended(claim: StoreClaim): void {
    if (!claim.isHandedOut) this.#stamps.free(claim.at, claim.stamp, claim.req)
    this.#forget(claim)
  }

  /** Nobody settled these in time. Their holder may still speak, so that the stamp stays its own for a while. */
  lost(claim: StoreClaim, keys: readonly string[]): void {
    for (const key of keys) {
      claim.keys.delete(key)
      claim.apart.delete(key)
      claim.behind.get(key)?.()
      claim.behind.delete(key)
    }
    if (claim.keys.size === 0) this.#forget(claim)
  }

  #forget(claim: StoreClaim): void {
    for (const callOff of claim.behind.values()) callOff()
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

  /** At once it may be started no more when its time is over; whoever runs is told when that is near. */
  #leftBehind(claim: StoreClaim, key: string, tellInMs: number): void {
    if (claim.behind.has(key)) return
    const tell = () => this.#doubts.doubtful(claim, key)
    claim.behind.set(key, tellInMs > 0 ? this.#clock.after(tellInMs, tell, true) : () => {})
    this.#doubts.limited(claim, key, claim.sureUntilMs)
    if (tellInMs <= 0) tell()
  }

  #caughtUp(claim: StoreClaim, key: string): void {
    const callOff = claim.behind.get(key)
    if (callOff === undefined) return
    callOff()
    claim.behind.delete(key)
    this.#doubts.limited(claim, key, null)
  }
}

function endMsOf({ apart, leaseEndMs }: StoreClaim, key: string): number {
  return apart.get(key) ?? leaseEndMs
}

/** When the first of its leases ends. */
function firstEndMs({ keys, apart, leaseEndMs }: StoreClaim): number {
  return Math.min(...apart.values(), apart.size < keys.size ? leaseEndMs : Number.POSITIVE_INFINITY)
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
