/**
 * Changes the rows of tasks, with one method for each transition in the state diagram of task.ts. Every method runs
 * inside a transaction that the ledger or its caller has begun, and takes effect only if that transaction commits.
 */
import type { Database, Statement } from 'better-sqlite3'
import { BATCH_BYTES_MAX } from '../../lib/batch-max.ts'
import { byteSizeOf } from '../../lib/byte-size.ts'
import { CELLS } from '../../values/cell.ts'
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import type {
  ClaimVerdict,
  ExtendAnswer,
  LedgerClaimRequest,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettlement,
  Retention,
} from '../../ledger.ts'
import { LOSSES_OF_A_SUSPECT, poisonText, rescueDelayMs } from '../../values/rescue.ts'
import { ringMsAt } from '../../values/ring-time.ts'
import type { DeadCause } from '../../task.ts'
import type { CancelAnswer, NewEntry, Place, Replayable } from '../../timetable.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Hint } from '../../hint-table.ts'
import type { StepTime } from './step-time.ts'
import {
  claimedTaskOf,
  type Counter,
  COUNTERS,
  ALONE,
  DEAD,
  type EndedState,
  ENDED_STATES,
  hintOf,
  priorityNumber,
  STARTED_ALONE,
  tagsOf,
  tagsText,
} from '../rows.ts'
import { checksumOf, type ClaimedRow, DAMAGED, isIntact, type LiveRow, type SupersedableRow } from './rows.ts'
import { BATCH_MIN, BatchWriter } from './batch-writer.ts'
import { ClaimLists, LIST_MIN } from './claim-lists.ts'
import { PLUCKED, WRITES } from './write-statements.ts'

/** How a task ends if its lease has expired and it gets no further attempt. */
type Lapse = { readonly kind: 'cancelled' } | { readonly kind: 'poison'; readonly error: string }

export class Transitions {
  readonly #session: number
  readonly #topicIds = new Map<string, number>()
  readonly #statements: ReturnType<typeof prepareAll>
  readonly #batches: BatchWriter
  readonly #claimLists: ClaimLists
  #nextGeneration = 0
  #lastGeneration = 0
  /** The changes of the counters in the current transaction, by topic id. They are written once, before the commit. */
  readonly #tally = new Map<number, Map<Counter, number>>()

  constructor(database: Database, session: number) {
    this.#session = session
    this.#statements = prepareAll(database)
    this.#batches = new BatchWriter(database)
    this.#claimLists = new ClaimLists(database)
  }

  /** Writes the changes of the counters to the rows of the topics. Must be called before the transaction commits. */
  writeBooks(): void {
    for (const [topic, counters] of this.#tally)
      for (const [counter, by] of counters) if (by !== 0) this.#statements.count[counter].run(by, topic)
    this.#tally.clear()
  }

  /**
   * Clears all cached values after a rollback. The topics that the transaction created and the generations that it
   * reserved no longer exist.
   */
  undone(): void {
    this.#tally.clear()
    this.#topicIds.clear()
    this.#nextGeneration = this.#lastGeneration
  }

  schedule(
    topicName: string,
    entries: readonly NewEntry[],
    mergeMs: number,
    { nowMs }: StepTime,
  ): LedgerScheduled[] {
    const topic = this.#topicId(topicName) ?? this.#newTopic(topicName)
    let created = 0
    const answers = entries.map((entry): LedgerScheduled => {
      const dueMs = ringMsAt(entry.when, nowMs, nowMs, mergeMs)
      const hint = freshHint(entry, dueMs)
      if (this.#insert(topic, entry, dueMs, nowMs)) {
        created++
        return { outcome: 'created', dueMs, inFlight: false, hint }
      }
      const old = this.#row(topic, entry) as LiveRow
      const inFlight = old.session === this.#session
      // A task that was cancelled in flight gets no further attempt, so there is nothing to keep.
      if (entry.onConflict === 'keep' && old.marked === 0)
        return { outcome: 'kept', dueMs: old.due_ms, inFlight, hint: null }
      this.#freed(topic, old)
      this.#remove(topic, old)
      this.#insert(topic, entry, dueMs, nowMs)
      return { outcome: 'replaced', dueMs, inFlight, hint }
    })
    this.#count(topic, 'scheduled', created)
    return answers
  }

  cancel(topicName: string, places: readonly Place[], keepsEnded: boolean, time: StepTime): CancelAnswer[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    const how = { ...time, keepsEnded }
    const ended = this.#endTogether(
      topic,
      places,
      cellOfPlace,
      () => ({ ...NO_CLAIM, state: 'cancelled' }),
      how,
    )
    return places.map((place) => (ended.has(place.key) ? 'cancelled' : this.#cancelOne(topic, place, how)))
  }

  reschedule(
    topicName: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
    time: StepTime,
  ): LedgerRescheduled[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    return places.map((place): LedgerRescheduled => {
      const row = this.#row(topic, place)
      if (row !== undefined && this.#isHeld(row, time))
        return { outcome: 'in-flight', dueMs: null, hint: null }
      if (row === undefined || row.marked === 1) {
        if (row !== undefined) this.#end(topic, row, 'cancelled', time)
        return { outcome: 'not-found', dueMs: null, hint: null }
      }
      const dueMs = ringMsAt(when, time.nowMs, row.ring_ms, mergeMs)
      this.#freed(topic, row)
      this.#statements.move.run(dueMs, dueMs, time.nowMs, topic, row.cell, row.key)
      const hint = hintOf({ ...row, failures: 0, lost: 0 }, dueMs)
      return { outcome: 'rescheduled', dueMs, hint }
    })
  }

  claim(
    topicName: string,
    request: LedgerClaimRequest,
    places: readonly Place[],
    time: StepTime,
  ): ClaimVerdict[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    const taken = new Map<string, ClaimedRow>()
    let bytes = this.#takeTogether(topic, request, places, time, taken)
    return places.map((place) => {
      const row = taken.get(place.key)
      if (row !== undefined) return { kind: 'ours', task: claimedTaskOf(topicName, row) }
      if (bytes >= BATCH_BYTES_MAX && !this.#isClaimedBy(topic, place, request)) return FULL
      const verdict = this.#claimOne(topicName, topic, place, request, time)
      if (verdict.kind === 'ours') bytes += byteSizeOf(verdict.task.body)
      return verdict
    })
  }

  begin(topicName: string, place: Place, stamp: number, _time: StepTime): boolean {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    if (this.#heldUnder(topic, place, stamp) === null) return false
    this.#statements.begin.run(topic, place.cell, place.key)
    return true
  }

  extend(
    topicName: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    { steadyMs }: StepTime,
  ): ExtendAnswer[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    const endMs = steadyMs + leaseMs
    return places.map(({ key, cell }) => {
      const { changes } = this.#statements.extend.run(endMs, topic, cell, key, this.#session, stamp)
      return changes > 0 ? 'extended' : 'stale'
    })
  }

  settle(
    topicName: string,
    settlements: readonly LedgerSettlement[],
    keepsEnded: boolean,
    time: StepTime,
  ): LedgerSettled[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    const how = { ...time, keepsEnded }
    const endingOf = ({ stamp, outcome }: LedgerSettlement) => ({
      session: this.#session,
      stamp,
      state: outcome.kind as 'done' | 'obsolete',
    })
    const ended = this.#endTogether(topic, settlements, groupOfSettlement, endingOf, how)
    return settlements.map((settlement) =>
      ended.has(settlement.key) ? ENDED : this.#settleOne(topic, settlement, how),
    )
  }

  replay(
    topicName: string,
    places: readonly Place[],
    which: Replayable,
    { nowMs }: StepTime,
  ): LedgerReplayed[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    return places.map(({ key, cell }): LedgerReplayed => {
      const grave = this.#statements.grave.get(topic, cell, key) as SupersedableRow | undefined
      if (grave === undefined) return { outcome: 'not-found', hint: null }
      if (this.#row(topic, grave) !== undefined) return { outcome: 'live', hint: null }
      if (which === 'newest' && grave.is_superseded === 1) return { outcome: 'superseded', hint: null }
      this.#statements.outrankNewer.run(topic, cell, key, grave.generation)
      this.#statements.revive.run(nowMs, nowMs, nowMs, topic, cell, key)
      this.#statements.purge.run(topic, cell, key)
      for (const tag of tagsOf(grave.tags)) this.#statements.tag.run(topic, tag, cell, key)
      this.#count(topic, 'dead', -1)
      return { outcome: 'replayed', hint: hintOf(this.#row(topic, grave) as LiveRow) }
    })
  }

  purge(topicName: string, places: readonly Place[], _time: StepTime): ('purged' | 'not-found')[] {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    return places.map(({ key, cell }) => (this.#purgeOne(topic, cell, key) ? 'purged' : 'not-found'))
  }

  forget(
    topicName: string,
    { endedBeforeMs, deadBeforeMs, deadMax, limit }: Retention,
    _time: StepTime,
  ): { ended: number; dead: number } {
    const topic = this.#topicId(topicName) ?? NO_TOPIC
    const { outrankDead, sweep, oldDead, deadCount } = this.#statements
    let ended = 0
    for (const state of ['done', 'cancelled', 'obsolete'] as const) {
      const old = [topic, ENDED_STATES.indexOf(state), endedBeforeMs, limit - ended]
      outrankDead.run(...old)
      const swept = sweep.run(...old).changes
      const inBatches = this.#batches.forget(
        topic,
        ENDED_STATES.indexOf(state),
        endedBeforeMs,
        limit - ended - swept,
      )
      this.#count(topic, `${state}_swept`, swept + inBatches)
      ended += swept + inBatches
    }
    // The stored counter, plus the changes that this transaction has not written yet.
    const dead =
      ((deadCount.get(topic) as number | undefined) ?? 0) + (this.#tally.get(topic)?.get('dead') ?? 0)
    const tooMany = Math.max(0, dead - deadMax)
    const old = oldDead.all(topic, Math.max(0, limit - ended)) as {
      cell: number
      key: string
      ended_ms: number
    }[]
    const gone = old.filter(({ ended_ms }, i) => i < tooMany || ended_ms < deadBeforeMs)
    for (const { cell, key } of gone) this.#purgeOne(topic, cell, key)
    return { ended, dead: gone.length }
  }

  /** Claims most of the tasks: those that are pending and due. Adds them to `taken`; returns the size of their bodies. */
  #takeTogether(
    topic: number,
    { stamp, leaseMs, nowMs, alone }: LedgerClaimRequest,
    places: readonly Place[],
    { steadyMs }: StepTime,
    taken: Map<string, ClaimedRow>,
  ): number {
    if (alone || places.length < LIST_MIN) return 0
    const [group = [], ...others] = groupsOf(places, cellOfPlace)
    // A call of the store is for one cell. Others would be claimed in another order than that of the call.
    if (others.length > 0 || group[0] === undefined) return 0
    const leaseEndMs = steadyMs + leaseMs
    const claim = { topic, cell: group[0].cell, session: this.#session, stamp, leaseEndMs, nowMs }
    const keys = group.map(({ key }) => key)
    const bytes = this.#claimLists.take(claim, keys, BATCH_BYTES_MAX, taken)
    this.#count(topic, 'claimed', taken.size)
    return bytes
  }

  /**
   * Claims a task that is due, or whose lease has expired, or that this call has already claimed (a retry after a lost
   * answer).
   */
  #claimOne(
    topicName: string,
    topic: number,
    place: Place,
    request: LedgerClaimRequest,
    time: StepTime,
  ): ClaimVerdict {
    // Most tasks that ring are pending and due. One statement checks that and claims the task.
    const taken = this.#take(topicName, topic, place, request, request.nowMs, time)
    if (taken !== null) return taken
    const row = this.#row(topic, place)
    if (row === undefined) return { kind: 'gone' }
    if (this.#isHeld(row, time)) {
      // The stamp is the same: the answer to this claim was lost, and the call is repeated.
      if (row.stamp === request.stamp) return this.#intact(topicName, topic, row, time)
      return { kind: 'held', leaseEndInMs: (row.lease_ms as number) - time.steadyMs }
    }
    if (row.session === null)
      return row.ring_ms > request.nowMs
        ? { kind: 'later', hint: hintOf(row) }
        : { kind: 'suspect', hint: hintOf(row) }
    const lost = row.lost + 1
    const lapse = lapseOf(row, lost)
    if (lapse?.kind === 'poison') {
      this.#bury(topic, row, 'poison', lapse.error, false, time)
      return lapse
    }
    if (lapse?.kind === 'cancelled') {
      this.#end(topic, row, 'cancelled', time)
      return { kind: 'gone' }
    }
    // The lease has expired. The task is made pending again, with one more lost lease, and then claimed. Its ring time
    // is not checked: the task has rung before, even if the clock was set back meanwhile.
    this.#freed(topic, row)
    this.#statements.release.run(row.ring_ms, lost, row.updated_ms, topic, place.cell, place.key)
    const again = this.#take(topicName, topic, place, request, Number.MAX_SAFE_INTEGER, time)
    return again ?? { kind: 'suspect', hint: hintOf({ ...row, lost }) }
  }

  /** Claims a pending task. Returns null if it is not pending, rings later, or is a suspect and not claimed alone. */
  #take(
    topicName: string,
    topic: number,
    place: Place,
    { stamp, leaseMs, alone }: LedgerClaimRequest,
    nowMs: number,
    time: StepTime,
  ): ClaimVerdict | null {
    const taken = this.#statements.take.get(
      this.#session,
      stamp,
      time.steadyMs + leaseMs,
      alone ? ALONE : 0,
      topic,
      place.cell,
      place.key,
      nowMs,
      alone ? Number.MAX_SAFE_INTEGER : LOSSES_OF_A_SUSPECT,
    ) as ClaimedRow | undefined
    if (taken === undefined) return null
    this.#count(topic, 'claimed', 1)
    return this.#intact(topicName, topic, { ...taken, cell: place.cell }, time)
  }

  /**
   * Returns the claimed task. A damaged task becomes dead instead: it must not be delivered, and must not block the
   * other tasks of its cell.
   */
  #intact(topicName: string, topic: number, row: ClaimedRow & Place, time: StepTime): ClaimVerdict {
    if (isIntact(row)) return { kind: 'ours', task: claimedTaskOf(topicName, row) }
    this.#bury(topic, this.#row(topic, row) as LiveRow, 'payload', DAMAGED, false, time)
    return { kind: 'damaged', error: DAMAGED }
  }

  /**
   * Ends tasks of a cell together, if they are enough for a batch. Returns the keys of those that ended; the others are as
   * they were, and the caller looks at each of them. `groupOf` returns the same number for tasks that end in one way in
   * one cell, and null for a task that does not end.
   */
  #endTogether<T extends Place>(
    topic: number,
    items: readonly T[],
    groupOf: (item: T) => number | null,
    endingOf: (item: T) => Token & { readonly state: UndeadState },
    { nowMs, keepsEnded }: How,
  ): ReadonlySet<string> {
    if (items.length < BATCH_MIN) return NO_KEYS
    const ended = new Set<string>()
    for (const group of groupsOf(items, groupOf)) {
      const [first] = group
      if (first === undefined || group.length < BATCH_MIN) continue
      const { session, stamp, state } = endingOf(first)
      const { cell } = first
      const keys = this.#batches.end(
        { topic, cell, state: ENDED_STATES.indexOf(state), session, stamp, endedMs: nowMs, keepsEnded },
        group.map(({ key }) => key),
      )
      if (session === this.#session) this.#count(topic, 'claimed', -keys.length)
      this.#countEnded(topic, state, keys.length, keepsEnded)
      for (const key of keys) ended.add(key)
    }
    return ended
  }

  #cancelOne(topic: number, place: Place, how: How): CancelAnswer {
    // Most tasks are pending. One statement checks that and ends the task; its columns are not read.
    if (this.#endUnder(topic, place, NO_CLAIM, 'cancelled', how)) return 'cancelled'
    const row = this.#row(topic, place)
    if (row === undefined) return 'not-found'
    if (this.#isHeld(row, how)) {
      this.#statements.mark.run(topic, row.cell, row.key)
      return 'in-flight'
    }
    this.#end(topic, row, 'cancelled', how)
    return 'cancelled'
  }

  #settleOne(topic: number, { key, cell, stamp, outcome }: LedgerSettlement, time: How): LedgerSettled {
    const { kind } = outcome
    if (kind === 'done' || kind === 'obsolete')
      return this.#endUnder(topic, { key, cell }, { session: this.#session, stamp }, kind, time)
        ? ENDED
        : STALE
    const row = this.#heldUnder(topic, { key, cell }, stamp)
    // The claim is no longer valid: the task was settled, claimed again, replaced or rescheduled. Nothing changes.
    if (row === null) return STALE
    if (kind === 'dead') return this.#bury(topic, row, outcome.cause, outcome.error, outcome.failed, time)
    if (kind === 'lost') return this.#isHeld(row, time) ? STALE : this.#lose(topic, row, outcome.spread, time)
    if (row.marked === 1) return this.#end(topic, row, 'cancelled', time)
    if (kind === 'return') return this.#giveBack(topic, row)
    return this.#again(topic, row, outcome.delayMs, kind === 'retry' ? outcome.error : null, time)
  }

  /** Undoes the claim of a task whose handler was never started. The ring time of the task does not change. */
  #giveBack(topic: number, row: LiveRow): LedgerSettled {
    this.#freed(topic, row)
    this.#statements.giveBack.run(topic, row.cell, row.key)
    return { answer: 'settled', hint: hintOf(row) }
  }

  /**
   * Makes the task pending again after a retry or a snooze. A retry stores its error and counts a failure; a snooze
   * does neither. Both reset the number of lost leases to 0.
   */
  #again(
    topic: number,
    row: LiveRow,
    delayMs: number,
    error: string | null,
    { nowMs }: StepTime,
  ): LedgerSettled {
    const ringMs = Math.min(nowMs + delayMs, LAST_INSTANT_MS)
    const failures = row.failures + (error === null ? 0 : 1)
    this.#freed(topic, row)
    this.#statements.again.run(ringMs, failures, error ?? row.error, nowMs, topic, row.cell, row.key)
    return { answer: 'settled', hint: hintOf({ ...row, failures, lost: 0 }, ringMs) }
  }

  /**
   * Counts a lost lease of a task whose lease has expired. Makes the task pending again, or ends it if it was cancelled
   * or is poison.
   */
  #lose(topic: number, row: LiveRow, spread: number, time: StepTime): LedgerSettled {
    const lost = row.lost + 1
    const lapse = lapseOf(row, lost)
    if (lapse?.kind === 'cancelled') return this.#end(topic, row, 'cancelled', time)
    if (lapse?.kind === 'poison') {
      this.#bury(topic, row, 'poison', lapse.error, false, time)
      return { answer: 'settled', hint: null, poison: lapse.error }
    }
    const ringMs = time.nowMs + rescueDelayMs(spread, lost)
    this.#freed(topic, row)
    this.#statements.release.run(ringMs, lost, time.nowMs, topic, row.cell, row.key)
    return { answer: 'settled', hint: hintOf({ ...row, lost }, ringMs) }
  }

  #bury(
    topic: number,
    row: LiveRow,
    cause: DeadCause,
    error: string,
    failed: boolean,
    time: StepTime,
  ): LedgerSettled {
    // A key has at most one dead task, so the earlier dead task of the key is purged.
    this.#purgeOne(topic, row.cell, row.key)
    const failures = row.failures + (failed ? 1 : 0)
    this.#freed(topic, row)
    this.#statements.bury.run(DEAD, time.nowMs, failures, error, cause, topic, row.cell, row.key)
    this.#remove(topic, row)
    this.#count(topic, 'dead', 1)
    return ENDED
  }

  #end(topic: number, row: LiveRow, state: UndeadState, how: StepTime | How): LedgerSettled {
    this.#endUnder(topic, row, row, state, { keepsEnded: true, ...how })
    return ENDED
  }

  /**
   * Moves the task to the ended tasks if it is claimed under this token, or not claimed if the token is NO_CLAIM. One
   * statement checks that and copies the task. Returns false, without any change, if the task is not in that state.
   */
  #endUnder(
    topic: number,
    { key, cell }: Place,
    token: Token,
    state: UndeadState,
    { nowMs, keepsEnded }: How,
  ): boolean {
    const { end, tagsUnder, outrankDeadOf } = this.#statements
    const under = [topic, cell, key, token.session, token.stamp]
    const tags = keepsEnded ? end.get(ENDED_STATES.indexOf(state), nowMs, ...under) : tagsUnder.get(...under)
    if (tags === undefined) return false
    // The dead task of the key stays superseded, as if the newer one had been deleted because of its age.
    if (!keepsEnded) outrankDeadOf.run(topic, cell, key)
    this.#freed(topic, token)
    this.#remove(topic, { key, cell, tags: tags as string | null })
    this.#countEnded(topic, state, 1, keepsEnded)
    return true
  }

  /** A task that is not kept is counted as ended and as deleted, so that the books and the rows agree. */
  #countEnded(topic: number, state: UndeadState, tasks: number, keepsEnded: boolean): void {
    this.#count(topic, state, tasks)
    if (!keepsEnded) this.#count(topic, `${state}_swept`, tasks)
  }

  /** Decrements the counter of claimed tasks if the row was claimed in this session. */
  #freed(topic: number, { session }: Pick<LiveRow, 'session'>): void {
    if (session === this.#session) this.#count(topic, 'claimed', -1)
  }

  #purgeOne(topic: number, cell: number, key: string): boolean {
    if (this.#statements.purge.run(topic, cell, key).changes === 0) return false
    this.#count(topic, 'dead', -1)
    this.#count(topic, 'purged', 1)
    return true
  }

  #remove(topic: number, { key, cell, tags }: Place & { readonly tags: string | null }): void {
    this.#statements.remove.run(topic, cell, key)
    if (tags !== null) for (const tag of tagsOf(tags)) this.#statements.untag.run(topic, tag, cell, key)
  }

  /** Inserts the task. Returns false if the key already has a live task. */
  #insert(topic: number, entry: NewEntry, dueMs: number, nowMs: number): boolean {
    const { key, cell, priority, tags, body } = entry
    const { changes } = this.#statements.insert.run(
      topic,
      cell,
      key,
      this.#newGeneration(),
      dueMs,
      dueMs,
      priorityNumber(priority),
      nowMs,
      nowMs,
      tagsText(tags),
      checksumOf(key, body),
      body,
    )
    if (changes === 0) return false
    if (tags !== null) for (const tag of tags) this.#statements.tag.run(topic, tag, cell, key)
    return true
  }

  /**
   * Returns a new generation, a number that is part of the task's id and is never reused. Generations are reserved in
   * blocks, in the current transaction. If that transaction is rolled back, the block is no longer reserved, and
   * `undone` discards the rest of the block.
   */
  #newGeneration(): number {
    if (this.#nextGeneration === this.#lastGeneration) {
      this.#lastGeneration = this.#statements.generations.get(GENERATIONS) as number
      this.#nextGeneration = this.#lastGeneration - GENERATIONS
    }
    return ++this.#nextGeneration
  }

  #row(topic: number, { key, cell }: Place): LiveRow | undefined {
    return this.#statements.row.get(topic, cell, key) as LiveRow | undefined
  }

  /** Returns true if an earlier call of the same claim took the task. Does not read the payload. */
  #isClaimedBy(topic: number, { key, cell }: Place, { stamp }: LedgerClaimRequest): boolean {
    return this.#statements.isHeldUnder.get(topic, cell, key, this.#session, stamp) !== undefined
  }

  #heldUnder(topic: number, place: Place, stamp: number): LiveRow | null {
    const row = this.#row(topic, place)
    return row !== undefined && row.session === this.#session && row.stamp === stamp ? row : null
  }

  /**
   * Returns true if the claim is of this session and its lease has not expired. Claims of earlier sessions are invalid.
   */
  #isHeld(row: LiveRow, { steadyMs }: StepTime): boolean {
    return row.session === this.#session && (row.lease_ms as number) > steadyMs
  }

  #topicId(name: string): number | null {
    const known = this.#topicIds.get(name) ?? (this.#statements.topic.get(name) as number | undefined)
    if (known === undefined) return null
    this.#topicIds.set(name, known)
    return known
  }

  #newTopic(name: string): number {
    this.#statements.newTopic.run(name)
    return this.#topicId(name) as number
  }

  #count(topic: number, counter: Counter, by: number): void {
    let counters = this.#tally.get(topic)
    if (counters === undefined) {
      counters = new Map()
      this.#tally.set(topic, counters)
    }
    counters.set(counter, (counters.get(counter) ?? 0) + by)
  }
}

/** Returns the items of each group. Leaves out the keys that are there twice, because each item has its own answer. */
function groupsOf<T extends Place>(items: readonly T[], groupOf: (item: T) => number | null): Iterable<T[]> {
  const seen = new Set<string>()
  const twice = new Set<string>()
  for (const { key } of items) {
    if (seen.has(key)) twice.add(key)
    seen.add(key)
  }
  const groups = new Map<number, T[]>()
  for (const item of items) {
    const group = twice.has(item.key) ? null : groupOf(item)
    if (group === null) continue
    const others = groups.get(group)
    if (others === undefined) groups.set(group, [item])
    else others.push(item)
  }
  return groups.values()
}

const cellOfPlace = ({ cell }: Place): number => cell

/** A number for the cell, the claim and the outcome. Null if the task is not done or obsolete. */
function groupOfSettlement({ cell, stamp, outcome: { kind } }: LedgerSettlement): number | null {
  if (kind !== 'done' && kind !== 'obsolete') return null
  return (stamp * CELLS + cell) * 2 + (kind === 'done' ? 0 : 1)
}

function freshHint({ key, cell, priority }: NewEntry, ringMs: number): Hint {
  return { key, cell, ringMs, failures: 0, priority, isSuspect: false }
}

/** The token of a claim. Both are null if the task is not claimed. */
type Token = Pick<LiveRow, 'session' | 'stamp'>
const NO_CLAIM: Token = { session: null, stamp: null }

const NO_KEYS: ReadonlySet<string> = new Set()

type UndeadState = Exclude<EndedState, 'dead'>
/** The time of a step, and whether its topic keeps ended tasks. */
type How = StepTime & { readonly keepsEnded: boolean }

const FULL: ClaimVerdict = { kind: 'full' }
const STALE: LedgerSettled = { answer: 'stale', hint: null }
const ENDED: LedgerSettled = { answer: 'settled', hint: null }

/** Returns how a task with an expired lease ends, or null if the task becomes pending again. */
function lapseOf({ marked, started }: LiveRow, lost: number): Lapse | null {
  if (marked === 1) return { kind: 'cancelled' }
  // A task is poison only if its start was recorded while it ran alone, and this is its third lost lease in a row. The
  // first condition is not enough: after a replay, an outdated hint may still call the task a suspect. Then the task is
  // claimed alone, although the replay has reset its lost leases to 0.
  if (started !== STARTED_ALONE || lost <= LOSSES_OF_A_SUSPECT) return null
  return { kind: 'poison', error: poisonText(lost) }
}

/** Id for a topic that does not exist because it never had a task. No row has this id. */
const NO_TOPIC = -1

/** Number of generations in a reserved block. */
const GENERATIONS = 1_000

function prepareAll(database: Database) {
  // safeIntegers(false): the connection may belong to the user, who may have set it to return BigInts.
  const prepare = (sql: string): Statement => database.prepare(sql).safeIntegers(false)
  const writes = Object.entries(WRITES).map(([name, sql]) => {
    const statement = prepare(sql)
    return [name, PLUCKED.has(name) ? statement.pluck() : statement]
  })
  const counts = COUNTERS.map((name) => [
    name,
    prepare(`UPDATE tocsin_topic SET ${name} = ${name} + ? WHERE id = ?`),
  ])
  return {
    ...(Object.fromEntries(writes) as Record<keyof typeof WRITES, Statement>),
    count: Object.fromEntries(counts) as Record<Counter, Statement>,
  }
}
