/**
 * One cell of the in-process timetable. The class has a method for each transition of the state diagram in task.ts.
 * Every method is synchronous, hence atomic.
 *
 * Tasks become due by the wall clock (`nowMs`), as users expect. Leases end by the monotonic clock (`steadyMs`),
 * because a step of the wall clock must not end leases early.
 */
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import type { Random } from '../../random.ts'
import {
  LOSSES_OF_A_SUSPECT,
  nextSpread,
  poisonText,
  rescueDelayMs,
  RESCUES_PER_CLAIM,
} from '../../values/rescue.ts'
import { finiteOrNull, ringMsAt } from '../../values/ring-time.ts'
import { type DeadCause, taskId } from '../../task.ts'
import type {
  CancelAnswer,
  Claim,
  ClaimedTask,
  ClaimRequest,
  Look,
  NewEntry,
  Replayable,
  ReplayAnswer,
  RescheduleAnswer,
  ScheduleAnswer,
  SettleAnswer,
  Settlement,
} from '../../timetable.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Hint } from '../../hint-table.ts'
import { Claims } from './claims.ts'
import { type ClaimRecord, Entry, ringMsOf, scoreOf, type Tries } from './entry.ts'
import { Graveyard } from './graveyard.ts'
import { Lanes } from './lanes.ts'
import { TagIndex } from './tag-index.ts'

const NO_TAGS: readonly string[] = Object.freeze([])

/** The time of one call: `nowMs` by the wall clock, `steadyMs` by the monotonic clock. */
export interface CellTime {
  readonly nowMs: number
  readonly steadyMs: number
}

/** The next ring of the lanes and the next ring of the suspects. Infinity if no task waits. */
export interface Rings {
  readonly laneMs: number
  readonly suspectMs: number
}

export class MemoryCell {
  readonly lanes = new Lanes()
  /** All live tasks, waiting or held. */
  readonly pool = new Map<string, Entry>()
  readonly graves = new Graveyard()
  readonly tags = new TagIndex()
  readonly counters = { scheduled: 0, done: 0, cancelled: 0, obsolete: 0, purged: 0 }
  readonly #claims = new Claims()
  /**
   * The keys of tasks that died as poison: they lost a lease while running alone. The answer of the next claim reports
   * them.
   */
  #poisoned: string[] = []

  constructor(
    readonly topic: string,
    readonly random: Random,
    /** Called when a held task is cancelled or replaced. */
    readonly onFence: (key: string, stamp: number, cause: 'cancelled' | 'replaced') => void,
  ) {}

  get heldCount(): number {
    return this.#claims.heldCount
  }

  nextRings(): Rings {
    return { laneMs: this.lanes.nextRingMs(), suspectMs: this.lanes.nextSuspectMs() }
  }

  look({ nowMs, steadyMs }: CellTime): Look {
    const { laneMs, suspectMs } = this.nextRings()
    return {
      ringInMs: finiteOrNull(Math.max(0, Math.min(laneMs, suspectMs) - nowMs)),
      leaseEndInMs: finiteOrNull(Math.max(0, this.#claims.nextLeaseEndMs() - steadyMs)),
    }
  }

  schedule(entry: NewEntry, { nowMs }: CellTime, mergeMs: number): ScheduleAnswer {
    const old = this.pool.get(entry.key)
    const inFlight = old !== undefined && old.claim !== null
    // A held task that was cancelled has no further attempt, so 'keep' replaces it, too.
    if (old !== undefined && entry.onConflict === 'keep' && !old.cancelled)
      return { outcome: 'kept', dueMs: this.dueMsOf(old), inFlight }
    const dueMs = ringMsAt(entry.when, nowMs, nowMs, mergeMs)
    if (old === undefined) this.counters.scheduled++
    else this.#replace(old)
    this.graves.supersede(entry.key)
    this.#enter(new Entry(entry.key, entry.body, entry.priority, entry.tags, nowMs), dueMs)
    return { outcome: old === undefined ? 'created' : 'replaced', dueMs, inFlight }
  }

  /** Rescues expired claims first, because a task whose lease has expired counts as waiting. */
  cancel(key: string, time: CellTime): CancelAnswer {
    this.#rescue(time, Number.POSITIVE_INFINITY)
    const entry = this.pool.get(key)
    if (entry === undefined) return 'not-found'
    if (entry.claim === null) {
      this.#end(entry, 'cancelled')
      return 'cancelled'
    }
    entry.cancelled = true
    this.onFence(key, entry.claim.stamp, 'cancelled')
    return 'in-flight'
  }

  reschedule(key: string, when: RingTime, time: CellTime, mergeMs: number): RescheduleAnswer {
    this.#rescue(time, Number.POSITIVE_INFINITY)
    const entry = this.pool.get(key)
    if (entry === undefined) return { outcome: 'not-found', dueMs: null }
    if (entry.claim !== null) return { outcome: 'in-flight', dueMs: null }
    const dueMs = ringMsAt(when, time.nowMs, ringMsOf(this.lanes.scoreOf(entry)), mergeMs)
    this.lanes.remove(entry)
    if (entry.tries !== null)
      Object.assign(entry.tries, {
        dueMs,
        failures: 0,
        lost: 0,
        updatedMs: time.nowMs,
      } satisfies Partial<Tries>)
    this.#wait(entry, dueMs, false)
    return { outcome: 'rescheduled', dueMs }
  }

  claim({ req, limit, leaseMs, from, wholePrefixes }: ClaimRequest, time: CellTime): Claim {
    const { nowMs, steadyMs } = time
    const known = this.#claims.of(req)
    // This request was made before, and its reply was lost. Return the tasks that the claim still holds, and take no
    // others.
    if (known !== undefined) return this.#answer(known, time, 0)
    const rescued = this.#rescue(time, RESCUES_PER_CLAIM)
    const alone = from === 'suspects'
    const taken = alone ? this.lanes.takeSuspect(limit, nowMs) : this.lanes.take(limit, nowMs, wholePrefixes)
    const record = this.#claims.hold(req, taken, alone, nowMs, steadyMs + leaseMs)
    return this.#answer(record, time, rescued)
  }

  begin(key: string, stamp: number, { nowMs }: CellTime): boolean {
    const entry = this.#heldUnder(key, stamp)
    if (entry === null) return false
    this.#triesOf(entry, nowMs).startedStamp = stamp
    return true
  }

  extend(req: string, leaseMs: number, { steadyMs }: CellTime): 'extended' | 'stale' {
    const record = this.#claims.of(req)
    if (record === undefined) return 'stale'
    this.#claims.extend(record, steadyMs + leaseMs)
    return 'extended'
  }

  settle({ key, stamp, outcome }: Settlement, { nowMs }: CellTime): SettleAnswer {
    const entry = this.#heldUnder(key, stamp)
    // The caller no longer holds the task: the task was settled, rescued or replaced.
    if (entry === null) return 'stale'
    if (outcome.kind === 'done' || outcome.kind === 'obsolete') this.#end(entry, outcome.kind)
    else if (outcome.kind === 'dead') this.#bury(entry, nowMs, outcome.cause, outcome.error, outcome.failed)
    else if (entry.cancelled) this.#end(entry, 'cancelled')
    else if (outcome.kind === 'return') this.#return(entry)
    else this.#again(entry, nowMs, outcome.delayMs, outcome.kind === 'retry' ? outcome.error : null)
    return 'settled'
  }

  replay(key: string, { nowMs }: CellTime, which: Replayable): ReplayAnswer {
    const grave = this.graves.get(key)
    if (grave === undefined) return 'not-found'
    // The key has a new live task, which must not be replaced.
    if (this.pool.has(key)) return 'live'
    if (grave.superseded && which === 'newest') return 'superseded'
    this.graves.remove(key)
    const { body, priority, tags, createdMs, tries } = grave.entry
    const entry = new Entry(key, body, priority, tags, createdMs)
    // The tries contain the first stamp, so the id stays the same. A handler that did the work of this task before can
    // recognise the id.
    entry.tries = tries && { ...tries, dueMs: nowMs, failures: 0, lost: 0, error: null, updatedMs: nowMs }
    this.#enter(entry, nowMs)
    return 'replayed'
  }

  purge(key: string): 'purged' | 'not-found' {
    if (!this.graves.remove(key)) return 'not-found'
    this.counters.purged++
    return 'purged'
  }

  /**
   * Puts a hint. 'set' replaces any hint of the key. 'lower' puts the hint only if the key has no hint, or a hint that
   * waits for a later time. Returns whether the hint was put.
   */
  put(
    { key, ringMs, failures, priority, isSuspect }: Hint,
    mode: 'set' | 'lower',
    { nowMs }: CellTime,
  ): boolean {
    const old = this.pool.get(key)
    // 'lower' does not change a held hint. The key keeps that hint: the lease holder settles it, or it waits again
    // after the lease expires.
    if (mode === 'lower' && old !== undefined && (old.claim !== null || this.dueMsOf(old) <= ringMs))
      return false
    if (old !== undefined) this.#replace(old)
    const entry = new Entry(key, '', priority, null, nowMs)
    entry.suspect = isSuspect
    this.pool.set(key, entry)
    this.lanes.add(entry, scoreOf(ringMs, failures))
    return true
  }

  drop(key: string): void {
    const old = this.pool.get(key)
    if (old !== undefined) this.#replace(old)
  }

  scoreOf(entry: Entry): number {
    return entry.claim === null ? this.lanes.scoreOf(entry) : (entry.claim.scores[entry.position] as number)
  }

  dueMsOf(entry: Entry): number {
    return entry.tries?.dueMs ?? ringMsOf(this.scoreOf(entry))
  }

  /** Returns the id of a task. Null before its first claim; a claim that was settled with 'return' does not count. */
  idOf(entry: Entry): string | null {
    const stamp = entry.tries?.firstStamp ?? entry.claim?.stamp
    return stamp === undefined ? null : taskId(this.topic, entry.key, stamp)
  }

  #answer(record: ClaimRecord, { nowMs, steadyMs }: CellTime, rescued: number): Claim {
    const tasks: ClaimedTask[] = []
    const poisoned = this.#poisoned
    this.#poisoned = []
    for (const entry of record.members)
      if (entry.claim === record) tasks.push(this.#claimedTask(entry, record))
    return {
      stamp: record.stamp,
      tasks,
      nowMs,
      nextRingMs: finiteOrNull(this.lanes.nextRingMs()),
      nextSuspectMs: finiteOrNull(this.lanes.nextSuspectMs()),
      nextLeaseEndInMs: finiteOrNull(Math.max(0, this.#claims.nextLeaseEndMs() - steadyMs)),
      rescued,
      poisoned,
    }
  }

  #claimedTask(entry: Entry, record: ClaimRecord): ClaimedTask {
    const ring = ringMsOf(record.scores[entry.position] as number)
    const { tries } = entry
    return {
      id: taskId(this.topic, entry.key, tries?.firstStamp ?? record.stamp),
      key: entry.key,
      body: entry.body,
      dueMs: tries?.dueMs ?? ring,
      ringMs: ring,
      failures: tries?.failures ?? 0,
      deliveries: (tries?.deliveries ?? 0) + 1,
      tags: entry.tags ?? NO_TAGS,
      priority: entry.priority,
    }
  }

  /**
   * Puts tasks of expired claims back into their lanes, and counts the lost leases. Returns how many tasks wait again.
   */
  #rescue({ nowMs, steadyMs }: CellTime, claimsMax: number): number {
    let rescued = 0
    let spread: number | null = null
    for (let n = 0; n < claimsMax; n++) {
      const record = this.#claims.expired(steadyMs)
      if (record === undefined) break
      for (const entry of record.members) {
        if (entry.claim !== record) continue
        spread = spread === null ? this.random.fraction() : nextSpread(spread)
        if (this.#lose(entry, record, nowMs, spread)) rescued++
      }
    }
    return rescued
  }

  /** Ends the claim of a task whose lease was lost. Returns true if the task waits again, false if it ended. */
  #lose(entry: Entry, record: ClaimRecord, nowMs: number, spread: number): boolean {
    if (entry.cancelled) {
      this.#end(entry, 'cancelled')
      return false
    }
    const tries = this.#triesOf(entry, nowMs)
    tries.lost++
    // A suspect is poison if `begin` recorded that its handler was started under this claim.
    if (record.alone && tries.startedStamp === record.stamp) {
      this.#bury(entry, nowMs, 'poison', poisonText(tries.lost), false)
      this.#poisoned.push(entry.key)
      return false
    }
    tries.deliveries++
    this.#claims.release(entry)
    this.#wait(entry, nowMs + rescueDelayMs(spread, tries.lost), tries.lost >= LOSSES_OF_A_SUSPECT)
    return true
  }

  /** Puts a claimed task that was never started back into its lane, with the score that it had there. */
  #return(entry: Entry): void {
    const { alone, scores } = entry.claim as ClaimRecord
    const score = scores[entry.position] as number
    this.#claims.release(entry)
    entry.suspect = alone
    if (entry.tries !== null) entry.tries.startedStamp = 0
    this.lanes.add(entry, score)
  }

  /**
   * Puts a task back for a retry or a snooze. A retry (`error` is not null) counts a failure, a snooze does not. Both
   * reset the count of lost leases.
   */
  #again(entry: Entry, nowMs: number, delayMs: number, error: string | null): void {
    const tries = this.#triesOf(entry, nowMs)
    tries.deliveries++
    tries.lost = 0
    if (error !== null) {
      tries.failures++
      tries.error = error
    }
    this.#claims.release(entry)
    this.#wait(entry, Math.min(nowMs + delayMs, LAST_INSTANT_MS), false)
  }

  #bury(entry: Entry, nowMs: number, cause: DeadCause, error: string, failed: boolean): void {
    const tries = this.#triesOf(entry, nowMs)
    if (failed) tries.failures++
    tries.deliveries++
    tries.error = error
    this.#detach(entry)
    this.counters.purged += this.graves.bury({
      entry,
      dueMs: tries.dueMs,
      diedMs: nowMs,
      cause,
      error,
      superseded: false,
    })
  }

  #replace(old: Entry): void {
    const holder = old.claim
    this.#detach(old)
    if (holder !== null) this.onFence(old.key, holder.stamp, 'replaced')
  }

  #end(entry: Entry, counter: 'done' | 'cancelled' | 'obsolete'): void {
    this.#detach(entry)
    this.counters[counter]++
  }

  #enter(entry: Entry, dueMs: number): void {
    this.pool.set(entry.key, entry)
    if (entry.tags !== null) this.tags.add(entry)
    this.#wait(entry, dueMs, false)
  }

  /**
   * Removes a task from its lane or its claim, from the pool and from the tags. A later outcome from its lease holder
   * is stale.
   */
  #detach(entry: Entry): void {
    if (entry.claim === null) this.lanes.remove(entry)
    else this.#claims.release(entry)
    this.pool.delete(entry.key)
    if (entry.tags !== null) this.tags.remove(entry)
  }

  #wait(entry: Entry, atMs: number, suspect: boolean): void {
    entry.suspect = suspect
    this.lanes.add(entry, scoreOf(atMs, entry.tries?.failures ?? 0))
  }

  #heldUnder(key: string, stamp: number): Entry | null {
    const entry = this.pool.get(key)
    return entry?.claim?.stamp === stamp ? entry : null
  }

  #triesOf(entry: Entry, nowMs: number): Tries {
    entry.tries ??= {
      dueMs: this.dueMsOf(entry),
      firstStamp: entry.claim?.stamp ?? 0,
      failures: 0,
      deliveries: 0,
      lost: 0,
      startedStamp: 0,
      error: null,
      updatedMs: nowMs,
    }
    entry.tries.updatedMs = nowMs
    return entry.tries
  }
}
