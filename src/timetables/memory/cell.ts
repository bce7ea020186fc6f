/**
 * One cell of the in-process timetable: every transition of task.ts's drawing, one method each. A method runs to its
 * end without giving way, so it is atomic; it reads and decides first and writes after that.
 *
 * Tasks become due by the wall clock (`nowMs`), because that is what people mean by a time. Leases end by the
 * monotonic clock (`steadyMs`), because a wall clock that steps must not take claims away from their holders.
 */
import { prefixOf } from '../../cell.ts'
import { Heap } from '../../heap.ts'
import { LAST_INSTANT_MS } from '../../instant.ts'
import type { Random } from '../../random.ts'
import { type DeadCause, PRIORITIES, taskId } from '../../task.ts'
import type {
  CancelAnswer,
  Claim,
  ClaimedTask,
  ClaimRequest,
  NewEntry,
  RescheduleAnswer,
  RingTime,
  ScheduleAnswer,
  Settlement,
  SettleAnswer,
} from '../../timetable.ts'
import { ClaimRecord, Entry, ringMsOf, scoreOf, type Tries } from './entry.ts'
import { Graveyard } from './graveyard.ts'
import { TagIndex } from './tag-index.ts'

/** Expired claims that one call rescues, so that a claim stays short after a crash. */
const RESCUES_PER_CLAIM = 4

/** What a killer took down with it comes back spread over up to this · 2^losses, not all in one batch again. */
const RESCUE_SPREAD_MS = 1_000
const RESCUE_DOUBLINGS_MAX = 6

/** Leases lost in a row that make a task a suspect, to be claimed alone. */
const LOSSES_OF_A_SUSPECT = 2

export interface Moment {
  readonly nowMs: number
  readonly steadyMs: number
}

export type EndCounter = 'done' | 'cancelled' | 'obsolete'

export class MemoryCell {
  readonly lanes = { high: new Heap<Entry>(), normal: new Heap<Entry>(), low: new Heap<Entry>() }
  readonly suspects = new Heap<Entry>()
  /** Every live task, waiting or held. */
  readonly pool = new Map<string, Entry>()
  readonly graves: Graveyard
  readonly tags = new TagIndex()
  readonly counters = { scheduled: 0, done: 0, cancelled: 0, obsolete: 0, purged: 0 }
  readonly #claims = new Map<string, ClaimRecord>()
  readonly #leases = new Heap<ClaimRecord>()
  #held = 0
  #lastStamp = 0

  constructor(
    readonly topic: string,
    readonly random: Random,
    graves = new Graveyard(),
  ) {
    this.graves = graves
  }

  get heldCount(): number {
    return this.#held
  }

  /** When anything here rings next, suspects included. Infinity: never. */
  nextRingMs(): number {
    return Math.min(this.#nextLaneRingMs(), ringMsOf(this.suspects.headScore()))
  }

  #nextLaneRingMs(): number {
    const { high, normal, low } = this.lanes
    return ringMsOf(Math.min(high.headScore(), normal.headScore(), low.headScore()))
  }

  schedule(entry: NewEntry, { nowMs }: Moment, quantumMs: number): ScheduleAnswer {
    const old = this.pool.get(entry.key)
    const inFlight = old !== undefined && old.claim !== null
    // A held task that was cancelled has no further attempt: there is nothing left to keep.
    if (old !== undefined && entry.onConflict === 'keep' && !old.cancelled)
      return { outcome: 'kept', dueMs: this.dueMsOf(old), inFlight }
    const dueMs = ringMs(entry.when, nowMs, nowMs, quantumMs)
    if (old === undefined) this.counters.scheduled++
    else this.#detach(old)
    this.#enter(new Entry(entry.key, entry.body, entry.priority, entry.tags, nowMs), dueMs)
    return { outcome: old === undefined ? 'created' : 'replaced', dueMs, inFlight }
  }

  /** A held task under an expired lease is nobody's: rescue first, then answer. */
  cancel(key: string, moment: Moment): CancelAnswer {
    this.#rescueAll(moment)
    const entry = this.pool.get(key)
    if (entry === undefined) return 'not-found'
    if (entry.claim !== null) {
      entry.cancelled = true
      return 'in-flight'
    }
    this.#end(entry, 'cancelled')
    return 'cancelled'
  }

  reschedule(key: string, when: RingTime, moment: Moment, quantumMs: number): RescheduleAnswer {
    this.#rescueAll(moment)
    const entry = this.pool.get(key)
    if (entry === undefined) return { outcome: 'not-found', dueMs: null }
    if (entry.claim !== null) return { outcome: 'in-flight', dueMs: null }
    const dueMs = ringMs(when, moment.nowMs, ringMsOf(this.#laneOf(entry).scoreOf(entry)), quantumMs)
    this.#laneOf(entry).remove(entry)
    const { tries } = entry
    if (tries !== null) Object.assign(tries, { dueMs, failures: 0, lost: 0, updatedMs: moment.nowMs })
    this.#wait(entry, dueMs, false)
    return { outcome: 'rescheduled', dueMs }
  }

  claim(request: ClaimRequest, moment: Moment): Claim {
    const known = this.#claims.get(request.req)
    // The reply was lost and the call repeated: hand out what it still holds, and nothing more.
    if (known !== undefined) return this.#answer(known, moment, 0, [])
    const { rescued, poisoned } = this.#rescue(moment, RESCUES_PER_CLAIM)
    const stamp = Math.max(moment.nowMs, this.#lastStamp + 1)
    const members: Entry[] = []
    const scores: number[] = []
    if (request.from === 'suspects')
      this.#take(this.suspects, Math.min(1, request.limit), moment.nowMs, members, scores)
    else
      for (const priority of PRIORITIES) {
        const lane = this.lanes[priority]
        const from = members.length
        this.#take(lane, request.limit, moment.nowMs, members, scores)
        if (request.wholePrefixes && members.length === request.limit)
          this.#uncut(lane, from, members, scores)
      }
    const record = new ClaimRecord(request.req, stamp, members, scores, request.from === 'suspects')
    if (members.length > 0) this.#hold(record, moment.steadyMs + request.leaseMs)
    return this.#answer(record, moment, rescued, poisoned)
  }

  begin(key: string, stamp: number, { nowMs }: Moment): boolean {
    const entry = this.#heldUnder(key, stamp)
    if (entry === null) return false
    this.#triesOf(entry, nowMs).startedStamp = stamp
    return true
  }

  /** The stamp stays: an extension must never make its own holder stale. */
  extend(req: string, leaseMs: number, { steadyMs }: Moment): 'extended' | 'stale' {
    const record = this.#claims.get(req)
    if (record === undefined) return 'stale'
    this.#leases.move(record, steadyMs + leaseMs)
    return 'extended'
  }

  settle({ key, stamp, outcome }: Settlement, { nowMs }: Moment): SettleAnswer {
    const entry = this.#heldUnder(key, stamp)
    // Settled before, rescued, replaced: whatever it was, the task is not this holder's. Nothing changes.
    if (entry === null) return 'stale'
    const record = entry.claim as ClaimRecord
    const score = record.scores[entry.position] as number
    switch (outcome.kind) {
      case 'done':
      case 'obsolete':
        this.#end(entry, outcome.kind)
        break
      case 'dead':
        this.#bury(entry, nowMs, outcome.cause, outcome.error, outcome.failed)
        break
      case 'return':
        if (entry.cancelled) {
          this.#end(entry, 'cancelled')
        } else {
          this.#release(entry)
          this.#waitAt(entry, score, record.alone)
        }
        break
      case 'retry':
      case 'snooze':
        this.#again(entry, nowMs, outcome)
    }
    return 'settled'
  }

  replay(key: string, { nowMs }: Moment): 'replayed' | 'live' | 'not-found' {
    const grave = this.graves.get(key)
    if (grave === undefined) return 'not-found'
    // A new task of the key is alive: it is another task, and waking the dead must not touch it.
    if (this.pool.has(key)) return 'live'
    this.graves.remove(key)
    const { body, priority, tags, createdMs } = grave.entry
    this.#enter(new Entry(key, body, priority, tags, createdMs), nowMs)
    return 'replayed'
  }

  purge(key: string): 'purged' | 'not-found' {
    if (!this.graves.remove(key)) return 'not-found'
    this.counters.purged++
    return 'purged'
  }

  scoreOf(entry: Entry): number {
    return entry.claim === null
      ? this.#laneOf(entry).scoreOf(entry)
      : (entry.claim.scores[entry.position] as number)
  }

  dueMsOf(entry: Entry): number {
    return entry.tries?.dueMs ?? ringMsOf(this.scoreOf(entry))
  }

  idOf(entry: Entry): string | null {
    const stamp = entry.tries?.firstStamp ?? entry.claim?.stamp
    return stamp === undefined ? null : taskId(this.topic, entry.key, stamp)
  }

  #take(lane: Heap<Entry>, limit: number, nowMs: number, members: Entry[], scores: number[]): void {
    const lastDueScore = scoreOf(nowMs, 999)
    while (members.length < limit) {
      const score = lane.headScore()
      if (score > lastDueScore) return
      members.push(lane.pop() as Entry)
      scores.push(score)
    }
  }

  /** The limit fell inside a prefix: put its members back, unless they are all that was taken from this lane. */
  #uncut(lane: Heap<Entry>, from: number, members: Entry[], scores: number[]): void {
    const next = lane.head()
    const last = members.at(-1)
    if (next === undefined || last === undefined) return
    const prefix = prefixOf(last.key)
    const ring = ringMsOf(scores.at(-1) as number)
    if (prefixOf(next.key) !== prefix || ringMsOf(lane.headScore()) !== ring) return
    let keep = members.length
    while (
      keep > from &&
      prefixOf((members[keep - 1] as Entry).key) === prefix &&
      ringMsOf(scores[keep - 1] as number) === ring
    )
      keep--
    if (keep === 0) return
    for (let i = keep; i < members.length; i++) lane.push(members[i] as Entry, scores[i] as number)
    members.length = keep
    scores.length = keep
  }

  #hold(record: ClaimRecord, leaseEndMs: number): void {
    this.#lastStamp = record.stamp
    this.#claims.set(record.key, record)
    this.#leases.push(record, leaseEndMs)
    this.#held += record.members.length
    record.members.forEach((entry, i) => {
      entry.claim = record
      entry.position = i
    })
  }

  #answer(record: ClaimRecord, { nowMs, steadyMs }: Moment, rescued: number, poisoned: string[]): Claim {
    const tasks: ClaimedTask[] = []
    for (const entry of record.members)
      if (entry.claim === record) tasks.push(this.#claimedTask(entry, record))
    const nextRing = this.#nextLaneRingMs()
    return {
      stamp: record.stamp,
      tasks,
      nowMs,
      nextRingMs: Number.isFinite(nextRing) ? nextRing : null,
      nextSuspectMs: this.suspects.size === 0 ? null : ringMsOf(this.suspects.headScore()),
      nextLeaseEndInMs: this.#leases.size === 0 ? null : Math.max(0, this.#leases.headScore() - steadyMs),
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

  #rescueAll(moment: Moment): void {
    while (this.#leases.headScore() <= moment.steadyMs) this.#rescue(moment, RESCUES_PER_CLAIM)
  }

  /** What expired claims still hold goes back, with the lost lease counted apart from failures. */
  #rescue(moment: Moment, claimsMax: number): { rescued: number; poisoned: string[] } {
    const poisoned: string[] = []
    let rescued = 0
    for (let n = 0; n < claimsMax && this.#leases.headScore() <= moment.steadyMs; n++) {
      const record = this.#leases.head() as ClaimRecord
      for (const entry of record.members) {
        if (entry.claim !== record) continue
        rescued++
        if (this.#lose(entry, record, moment.nowMs) === 'poison') poisoned.push(entry.key)
      }
    }
    return { rescued, poisoned }
  }

  #lose(entry: Entry, record: ClaimRecord, nowMs: number): 'poison' | 'ended' | 'waits' {
    if (entry.cancelled) {
      this.#end(entry, 'cancelled')
      return 'ended'
    }
    const tries = this.#triesOf(entry, nowMs)
    tries.lost++
    tries.deliveries++
    // Only a start that was recorded, with nothing else running beside it, can convict.
    if (record.alone && tries.startedStamp === record.stamp) {
      this.#bury(
        entry,
        nowMs,
        'poison',
        `its lease ran out ${tries.lost} times in a row, the last time running alone`,
        false,
      )
      return 'poison'
    }
    this.#release(entry)
    const spreadMs =
      this.random.fraction() * RESCUE_SPREAD_MS * 2 ** Math.min(tries.lost, RESCUE_DOUBLINGS_MAX)
    this.#wait(entry, nowMs + Math.ceil(spreadMs), tries.lost >= LOSSES_OF_A_SUSPECT)
    return 'waits'
  }

  #again(
    entry: Entry,
    nowMs: number,
    outcome: { kind: 'retry' | 'snooze'; delayMs: number; error?: string },
  ): void {
    if (entry.cancelled) return this.#end(entry, 'cancelled')
    const tries = this.#triesOf(entry, nowMs)
    tries.deliveries++
    tries.lost = 0
    if (outcome.kind === 'retry') {
      tries.failures++
      tries.error = outcome.error ?? null
    }
    this.#release(entry)
    this.#wait(entry, Math.min(nowMs + outcome.delayMs, LAST_INSTANT_MS), false)
  }

  #bury(entry: Entry, nowMs: number, cause: DeadCause, error: string, failed: boolean): void {
    const tries = this.#triesOf(entry, nowMs)
    if (failed) tries.failures++
    if (cause !== 'poison') tries.deliveries++
    tries.error = error
    const id = taskId(this.topic, entry.key, tries.firstStamp)
    this.#detach(entry)
    this.counters.purged += this.graves.bury({ entry, id, dueMs: tries.dueMs, diedMs: nowMs, cause, error })
  }

  #end(entry: Entry, counter: EndCounter): void {
    this.#detach(entry)
    this.counters[counter]++
  }

  #enter(entry: Entry, dueMs: number): void {
    this.pool.set(entry.key, entry)
    if (entry.tags !== null) this.tags.add(entry)
    this.#wait(entry, dueMs, false)
  }

  /** Out of everything that knows it. A holder finds its stamp outdated. */
  #detach(entry: Entry): void {
    if (entry.claim !== null) this.#release(entry)
    else this.#laneOf(entry).remove(entry)
    this.pool.delete(entry.key)
    if (entry.tags !== null) this.tags.remove(entry)
  }

  #release(entry: Entry): void {
    const record = entry.claim as ClaimRecord
    entry.claim = null
    this.#held--
    if (--record.open > 0) return
    this.#claims.delete(record.key)
    this.#leases.remove(record)
  }

  #wait(entry: Entry, atMs: number, suspect: boolean): void {
    this.#waitAt(entry, scoreOf(atMs, entry.tries?.failures ?? 0), suspect)
  }

  #waitAt(entry: Entry, score: number, suspect: boolean): void {
    entry.suspect = suspect
    this.#laneOf(entry).push(entry, score)
  }

  #laneOf(entry: Entry): Heap<Entry> {
    return entry.suspect ? this.suspects : this.lanes[entry.priority]
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

const NO_TAGS: readonly string[] = Object.freeze([])

function ringMs(when: RingTime, nowMs: number, wasMs: number, quantumMs: number): number {
  const wanted = when.kind === 'at' ? when.ms : when.kind === 'delay' ? nowMs + when.ms : wasMs + when.ms
  const rounded = quantumMs > 0 ? Math.ceil(wanted / quantumMs) * quantumMs : wanted
  return Math.min(Math.max(rounded, 0), LAST_INSTANT_MS)
}
