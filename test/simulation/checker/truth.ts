/**
 * Walks through a history once and tells, for each effect at the truth, what the truth knew of the key just before. The
 * rules look at nothing else. An effect that fits no possible state stays in the walk as if it had been right, so that
 * one mistake is told once.
 */
import { LOSSES_OF_A_SUSPECT } from '../../../src/values/rescue.ts'
import type { DeadCause } from '../../../src/task.ts'
import type {
  BeginEvent,
  BuriedEvent,
  ClaimEvent,
  EndEvent,
  Event,
  ExtendEvent,
  ForgottenEvent,
  History,
  SettleEvent,
  StartEvent,
  WriteEvent,
} from '../history.ts'
import { Calls, firstAfter, push } from './calls.ts'
import {
  buried,
  type ClaimRecord,
  counted,
  isConvictable,
  type KeyState,
  lapsed,
  type Lease,
  type LiveTask,
  NOTHING,
} from './key-state.ts'
import { fitsSettle, isHeldUnder, settled } from './settling.ts'
import { fitsWrite, written } from './writes.ts'

/** The storage counts whole milliseconds, the simulation does not: so near to a lease's end, either side may be right. */
const LEASE_EDGE_MS = 1

export interface Step<E> {
  readonly event: E
  readonly before: KeyState
  readonly lease: Lease
  /** The possible state that it was right for; null: there is none. */
  readonly fit: KeyState | null
}

/** gone: the key has no live task of that version. */
export type ClaimKind = 'repeated' | 'taken' | 'taken-over' | 'held' | 'marked' | 'convicted' | 'gone'

export interface ClaimStep {
  readonly event: ClaimEvent
  readonly before: KeyState
  readonly kind: ClaimKind
  /** Of a version that is not live: how it ended; undefined: it was never written. */
  readonly end: VersionEnd | undefined
}

export type VersionEnd = 'done' | 'obsolete' | 'cancelled' | 'dead' | 'replaced'

export interface ExtendStep {
  readonly event: ExtendEvent
  /** Extended, and not held by it. */
  readonly foreign: readonly string[]
  /** Held by it beyond doubt, and not extended. */
  readonly forgotten: readonly string[]
  /** All that the claim ever took is held beyond doubt. */
  readonly holdsAll: boolean
}

export interface StartStep {
  readonly event: StartEvent
  /** Null: this process never claimed it. */
  readonly claim: ClaimRecord | null
  readonly leaseEndTrueMs: number
  /** Its claim had ended by the word of its own holder. */
  readonly isSettled: boolean
  /** Starts of the same claim before this one. */
  readonly startsBefore: number
}

export interface Death {
  readonly seq: number
  readonly cause: DeadCause
}

interface Moment {
  readonly seq: number
  readonly trueMs: number
}

/** A key after an event. */
export interface Chapter extends Moment {
  readonly state: KeyState
}

export class Truth {
  readonly history: History
  readonly calls: Calls
  readonly writes: Step<WriteEvent>[] = []
  readonly claims: ClaimStep[] = []
  readonly settles: (Step<SettleEvent> & { readonly claim: ClaimRecord | undefined })[] = []
  readonly extends: ExtendStep[] = []
  readonly begins: Step<BeginEvent>[] = []
  readonly burials: (Step<BuriedEvent> & { readonly isExpected: boolean })[] = []
  readonly starts: StartStep[] = []
  /** Claims that a crash of the ledger has undone. `claim`: undefined if there was no such claim. */
  readonly forgotten: { readonly event: ForgottenEvent; readonly claim: ClaimRecord | undefined }[] = []
  readonly deaths = new Map<string, Death[]>()
  readonly chapters = new Map<string, Chapter[]>()
  /** Ends of handler runs, by process and run. */
  readonly ends = new Map<string, EndEvent>()
  /** When processes ended. */
  readonly lifeEnds = new Map<string, number>()
  readonly crashed = new Set<string>()
  /**
   * Keys and books are looked at before everything is closed, and closing gives back what still runs. So the ending is
   * at the first close that no process and no fault came after.
   */
  readonly endsAt: Moment
  readonly #states = new Map<string, KeyState>()
  readonly #versionEnds = new Map<string, VersionEnd>()
  readonly #claims = new Map<string, ClaimRecord>()
  readonly #keysOfToken = new Map<string, Set<string>>()
  /** The last claim of a version by a process: what it starts belongs to that. */
  readonly #lastClaims = new Map<string, ClaimRecord>()

  constructor(history: History) {
    this.history = history
    this.calls = new Calls(history.events)
    this.endsAt = this.#ending()
    for (const event of history.events) this.#see(event)
  }

  #ending(): Moment {
    const { events, ending } = this.history
    let at: Moment = { seq: Number.POSITIVE_INFINITY, trueMs: ending.trueMs }
    for (let i = events.length - 1; i >= 0; i--) {
      const event = events[i] as Event
      if (event.kind === 'fault' || (event.kind === 'life' && event.phase === 'starts')) break
      if (event.kind === 'life' && event.phase === 'closes') at = event
    }
    return at
  }

  stateAt(key: string, seq: number): KeyState {
    const all = this.chapters.get(key) ?? []
    return all[firstAfter(all, seq) - 1]?.state ?? NOTHING
  }

  get keys(): Iterable<string> {
    return this.#states.keys()
  }

  stateOf(key: string): KeyState {
    return this.#states.get(key) ?? NOTHING
  }

  /** All that the key may be at a moment, given what it was after the last event. */
  possible(state: KeyState, at: Moment): KeyState[] {
    const other = lapsed(state, this.leaseOf(state.live, at), this.history.composition, at.trueMs)
    return other === null ? [state] : [state, other]
  }

  leaseOf(live: LiveTask | null, { seq, trueMs }: Moment): Lease {
    if (live?.holder === undefined || live.holder === null) return 'none'
    const { event, leaseEndTrueMs } = live.holder.claim
    // Only one process at a time has the file: what an earlier one held is free.
    const lifeEnd = this.lifeEnds.get(event.life) ?? Number.POSITIVE_INFINITY
    if (this.history.composition === 'embedded' && lifeEnd < seq) return 'over'
    if (live.holder.claim.isDoubtful) return 'edge'
    if (trueMs < leaseEndTrueMs - LEASE_EDGE_MS) return 'valid'
    return trueMs > leaseEndTrueMs + LEASE_EDGE_MS ? 'over' : 'edge'
  }

  #see(event: Event): void {
    switch (event.kind) {
      case 'write':
        return this.#write(event)
      case 'claim':
        return this.#claim(event)
      case 'forgotten':
        return this.#forget(event)
      case 'extend':
        return this.#extend(event)
      case 'settle':
        return this.#settle(event)
      case 'begin':
        return this.#begin(event)
      case 'buried':
        return this.#buried(event)
      case 'start':
        return this.#start(event)
      case 'end':
        return void this.ends.set(`${event.life}\0${event.run}`, event)
      case 'life':
        if (event.phase === 'crashes') this.crashed.add(event.life)
        if (event.phase === 'crashes' || event.phase === 'closed') this.lifeEnds.set(event.life, event.seq)
        return
      default:
    }
  }

  #write(event: WriteEvent): void {
    const step = this.#step(event, (state) =>
      fitsWrite(state, this.leaseOf(state.live, event), event, this.history.composition),
    )
    this.writes.push(step)
    const state = step.fit ?? step.before
    this.#become(event, written(state, this.leaseOf(state.live, event), event))
  }

  #claim(event: ClaimEvent): void {
    const before = this.stateOf(event.key)
    const kind = this.#claimKind(before, event)
    const end = kind === 'gone' ? this.#versionEnds.get(event.version) : undefined
    this.claims.push({ event, before, kind, end })
    const name = `${event.token}\0${event.key}`
    if (kind === 'repeated') {
      const record = this.#claims.get(name) as ClaimRecord
      record.leaseEndTrueMs = event.leaseEndTrueMs
      record.isDoubtful = false
      return
    }
    const overtaken = kind === 'taken-over' || kind === 'convicted'
    const task = kind === 'gone' || before.live === null ? null : this.#asClaimed(before.live, overtaken)
    const claim: ClaimRecord = {
      event,
      task,
      leaseEndTrueMs: event.leaseEndTrueMs,
      // Taken anew under a token that had it before: what was told is when that lease ended.
      isDoubtful: event.leaseEndTrueMs <= event.trueMs,
      isForgotten: false,
      settled: null,
      starts: [],
      earlier: this.#claims.get(name) ?? null,
    }
    this.#claims.set(name, claim)
    this.#lastClaims.set(`${event.life}\0${event.key}\0${event.version}`, claim)
    const keys = this.#keysOfToken.get(event.token)
    if (keys === undefined) this.#keysOfToken.set(event.token, new Set([event.key]))
    else keys.add(event.key)
    // Another version is live: what the claim took has nothing to do with that.
    if (kind === 'gone' && before.live !== null) return
    const { version, dueMs, ringMs, failures } = event
    const holder = { claim, begun: false }
    const known = task ?? { version, dueMs, lost: 0, marked: false }
    this.#become(event, {
      ...(kind === 'gone' ? unended(before, version) : before),
      live: { ...known, dueMs: known.dueMs ?? dueMs, ringMs, ringTrueMs: null, failures, holder },
    })
  }

  /** The task is as it was before that claim. */
  #forget(event: ForgottenEvent): void {
    const claim = this.#claims.get(`${event.token}\0${event.key}`)
    this.forgotten.push({ event, claim })
    const before = this.stateOf(event.key)
    if (claim === undefined || before.live?.holder?.claim !== claim) return
    claim.isForgotten = true
    this.#become(event, { ...before, live: { ...(claim.task ?? before.live), holder: null } })
  }

  /** Where the claim before was lost, that counts. A timetable let it ring again some time; a ledger where it was. */
  #asClaimed(live: LiveTask, overtaken: boolean): LiveTask {
    if (!overtaken) return live
    return { ...live, lost: live.lost + 1, ringMs: this.history.composition === 'redis' ? null : live.ringMs }
  }

  #claimKind({ live }: KeyState, event: ClaimEvent): ClaimKind {
    if (live === null || live.version !== event.version) return 'gone'
    if (live.holder === null) return 'taken'
    const held = live.holder.claim.event
    // A request whose claim is over and forgotten is a new one when it comes again, with one delivery more.
    if (held.token === event.token && held.deliveries === event.deliveries) return 'repeated'
    if (this.leaseOf(live, event) === 'valid') return 'held'
    if (live.marked) return 'marked'
    return isConvictable(live) ? 'convicted' : 'taken-over'
  }

  #extend(event: ExtendEvent): void {
    const extended = new Set(event.keys)
    const forgotten: string[] = []
    let holdsAll = true
    for (const key of this.#keysOfToken.get(event.token) ?? []) {
      if (extended.has(key)) continue
      if (this.#isHeldBeyondDoubt(key, event)) forgotten.push(key)
      else holdsAll = false
    }
    const foreign = event.keys.filter((key) => {
      const state = this.stateOf(key)
      return !isHeldUnder(state, event.token) || this.#isOfOver(state, event)
    })
    this.extends.push({ event, foreign, forgotten, holdsAll: holdsAll && forgotten.length > 0 })
    for (const key of event.keys) {
      const claim = this.#claims.get(`${event.token}\0${key}`)
      if (claim === undefined) continue
      // A ledger answers how many, and not which.
      claim.isDoubtful = event.keys.length > 1 && this.possible(this.stateOf(key), event).length > 1
      claim.leaseEndTrueMs = event.leaseEndTrueMs
    }
  }

  #isHeldBeyondDoubt(key: string, event: ExtendEvent): boolean {
    const state = this.stateOf(key)
    if (this.#isOfOver(state, event)) return false
    return isHeldUnder(state, event.token) && this.possible(state, event).length === 1
  }

  #settle(event: SettleEvent): void {
    const claim = this.#claims.get(`${event.token}\0${event.key}`)
    const step = this.#step(
      event,
      (state) =>
        isConviction(state, event, claim) ||
        (this.#isOfOver(state, event)
          ? event.answer === 'stale'
          : fitsSettle(state, this.leaseOf(state.live, event), event, this.history.composition)),
    )
    this.settles.push({ ...step, claim })
    if (event.answer === 'settled' && claim !== undefined) claim.settled ??= event
    const state = step.fit ?? step.before
    // One that must not have counted: what it says is of its own task, if that is the one that lives.
    if (step.fit === null && state.live?.version !== claim?.event.version) return
    this.#become(event, settled(state, event))
  }

  #begin(event: BeginEvent): void {
    const step = this.#step(event, (state) => isHeldUnder(state, event.token) === event.isHeld)
    this.begins.push(step)
    const state = step.fit ?? step.before
    const { live } = state
    if (!event.isHeld || live?.holder === undefined || live.holder === null) return this.#become(event, state)
    this.#become(event, { ...state, live: { ...live, holder: { ...live.holder, begun: true } } })
  }

  #buried(event: BuriedEvent): void {
    const before = this.stateOf(event.key)
    const { live } = before
    const lease = this.leaseOf(live, event)
    const isPoison =
      live !== null &&
      isConvictable(live) &&
      lease !== 'valid' &&
      live.lost + 1 > LOSSES_OF_A_SUSPECT &&
      !live.marked
    const isRight = event.cause === 'poison' ? isPoison : event.cause === 'payload' && live !== null
    // A rescue may have found it earlier, in a process that was not told.
    const isExpected = !isRight && event.cause === 'poison' && before.untold > 0
    this.burials.push({ event, before, lease, fit: isRight ? before : null, isExpected })
    if (isExpected) return this.#become(event, { ...before, untold: before.untold - 1 })
    if (live === null) return this.#died(event, event.cause)
    this.#become(event, buried(before, event.cause, live.failures, event.trueMs))
  }

  #start(event: StartEvent): void {
    const claim = this.#claimOf(event)
    this.starts.push({
      event,
      claim,
      leaseEndTrueMs: claim?.leaseEndTrueMs ?? Number.NaN,
      isSettled: claim !== null && claim.settled !== null,
      startsBefore: claim?.starts.length ?? 0,
    })
    claim?.starts.push(event)
  }

  /** Who bears what was pulled says by which claim; a handler has what its process claimed last. */
  #claimOf({ life, key, version, token }: StartEvent): ClaimRecord | null {
    if (token === undefined) return this.#lastClaims.get(`${life}\0${key}\0${version}`) ?? null
    const claim = this.#claims.get(`${token}\0${key}`)
    return claim?.event.version === version ? claim : null
  }

  /** Only one process at a time has the file: the tokens of an earlier one are worth nothing. */
  #isOfOver({ live }: KeyState, { seq }: Moment): boolean {
    const life = live?.holder?.claim.event.life ?? ''
    return this.history.composition === 'embedded' && (this.lifeEnds.get(life) ?? seq) < seq
  }

  /** Tries the states that are possible, the one without a doubt first. */
  #step<E extends Moment & { readonly key: string }>(event: E, fits: (state: KeyState) => boolean): Step<E> {
    const before = this.stateOf(event.key)
    const fit = this.possible(before, event).find(fits) ?? null
    return { event, before, lease: this.leaseOf(before.live, event), fit }
  }

  #become(event: Moment & { readonly key: string }, after: KeyState): void {
    const { key, seq, trueMs } = event
    const before = this.stateOf(key)
    if (before === after) return
    this.#states.set(key, after)
    push(this.chapters, key, { seq, trueMs, state: after })
    if (after.untold > before.untold) this.#died(event, 'poison')
    else if (after.grave !== null && after.grave !== before.grave) this.#died(event, after.grave.cause)
    if (before.live !== null && before.live.version !== after.live?.version)
      this.#versionEnds.set(before.live.version, howEnded(before.live.version, before, after))
    if (after.live !== null) this.#versionEnds.delete(after.live.version)
  }

  #died({ key, seq }: Moment & { readonly key: string }, cause: DeadCause): void {
    push(this.deaths, key, { seq, cause })
  }
}

/** It was claimed, so it had not ended after all, and was written even if no event shows that. */
function unended(state: KeyState, version: string): KeyState {
  const { ended, grave, tally } = state
  if (grave?.version === version) return { ...state, grave: null }
  if (ended?.version !== version) return { ...state, tally: counted(tally, 'scheduled') }
  return { ...state, ended: ended.before, tally: { ...tally, [ended.state]: tally[ended.state] - 1 } }
}

/** The very loss that convicted it, told after its burial. */
function isConviction(
  { live, grave }: KeyState,
  event: SettleEvent,
  claim: ClaimRecord | undefined,
): boolean {
  if (live !== null || grave === null || event.outcome.kind !== 'lost') return false
  return grave.cause === 'poison' && grave.trueMs === event.trueMs && grave.version === claim?.event.version
}

function howEnded(version: string, before: KeyState, after: KeyState): VersionEnd {
  if (after.grave !== before.grave && after.grave?.version === version) return 'dead'
  if (after.ended !== before.ended && after.ended?.version === version) return after.ended.state
  return 'replaced'
}
