/**
 * Every transition of task.ts's drawing, on rows: one method each. They run inside a transaction that is not theirs,
 * the ledger's own or the caller's, and take effect with it or not at all.
 */
import type { Database, Statement } from 'better-sqlite3'
import { LAST_INSTANT_MS } from '../../instant.ts'
import type {
  ClaimVerdict,
  LedgerClaimRequest,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettlement,
  Retention,
} from '../../ledger.ts'
import { ringMsAt } from '../../ring-time.ts'
import type { DeadCause } from '../../task.ts'
import type { CancelAnswer, NewEntry, Place, RingTime } from '../../timetable.ts'
import type { Moment } from './moment.ts'
import {
  checksumOf,
  claimedTaskOf,
  DEAD,
  type EndedRow,
  type EndedState,
  ENDED_STATES,
  hintOf,
  type LiveRow,
  LOSSES_OF_A_SUSPECT,
  priorityNumber,
  tagsOf,
  tagsText,
} from './rows.ts'

/** What a killer took down with it comes back spread over up to this · 2^losses, not all in one batch again. */
const SPREAD_MS = 1_000
const SPREAD_DOUBLINGS_MAX = 6

/** In the column `started`: claimed alone, and its start recorded. */
const ALONE = 1
const STARTED_ALONE = 2

type Counter = EndedState | 'scheduled' | 'purged' | 'done_swept' | 'cancelled_swept' | 'obsolete_swept'

/** How a row is, before somebody takes it. */
type Lapse = { readonly kind: 'cancelled' } | { readonly kind: 'poison'; readonly error: string }

export class Transitions {
  readonly #session: number
  readonly #topicIds = new Map<string, number>()
  readonly #statements: ReturnType<typeof prepareAll>
  /** Of the transaction that runs: written once, at its end. */
  readonly #tally = new Map<number, Map<Counter, number>>()

  constructor(database: Database, session: number) {
    this.#session = session
    this.#statements = prepareAll(database)
  }

  /** The books, before the transaction commits. */
  writeBooks(): void {
    for (const [topic, counters] of this.#tally)
      for (const [counter, by] of counters) if (by !== 0) this.#statements.count[counter].run(by, topic)
    this.#tally.clear()
  }

  /** The transaction is undone. Topics that it made are not there. */
  undone(): void {
    this.#tally.clear()
    this.#topicIds.clear()
  }

  schedule(
    topicName: string,
    entries: readonly NewEntry[],
    quantumMs: number,
    { nowMs }: Moment,
  ): LedgerScheduled[] {
    const topic = this.#topicId(topicName)
    let created = 0
    const answers = entries.map((entry): LedgerScheduled => {
      const dueMs = ringMsAt(entry.when, nowMs, nowMs, quantumMs)
      const fresh = this.#insert(topic, entry, dueMs, nowMs)
      if (fresh !== null) {
        created++
        return { outcome: 'created', dueMs, inFlight: false, hint: this.#freshHint(entry, dueMs, fresh) }
      }
      const old = this.#row(topic, entry.key) as LiveRow
      const inFlight = old.session === this.#session
      // A task that was cancelled in flight has no further attempt: there is nothing left to keep.
      if (entry.onConflict === 'keep' && old.marked === 0)
        return { outcome: 'kept', dueMs: old.due_ms, inFlight, hint: null }
      this.#remove(topic, old)
      const generation = this.#insert(topic, entry, dueMs, nowMs) as number
      return { outcome: 'replaced', dueMs, inFlight, hint: this.#freshHint(entry, dueMs, generation) }
    })
    this.#count(topic, 'scheduled', created)
    return answers
  }

  cancel(topicName: string, places: readonly Place[], moment: Moment): CancelAnswer[] {
    const topic = this.#topicId(topicName)
    return places.map(({ key }) => {
      const row = this.#row(topic, key)
      if (row === undefined) return 'not-found'
      if (this.#isHeld(row, moment)) {
        this.#statements.mark.run(row.generation)
        return 'in-flight'
      }
      this.#end(topic, row, 'cancelled', moment)
      return 'cancelled'
    })
  }

  reschedule(
    topicName: string,
    places: readonly Place[],
    when: RingTime,
    quantumMs: number,
    moment: Moment,
  ): LedgerRescheduled[] {
    const topic = this.#topicId(topicName)
    return places.map(({ key }): LedgerRescheduled => {
      const row = this.#row(topic, key)
      if (row !== undefined && this.#isHeld(row, moment))
        return { outcome: 'in-flight', dueMs: null, hint: null }
      if (row === undefined || row.marked === 1) {
        if (row !== undefined) this.#end(topic, row, 'cancelled', moment)
        return { outcome: 'not-found', dueMs: null, hint: null }
      }
      const dueMs = ringMsAt(when, moment.nowMs, row.ring_ms, quantumMs)
      this.#statements.move.run(dueMs, dueMs, moment.nowMs, row.generation)
      const hint = hintOf({ ...row, failures: 0, lost: 0 }, dueMs)
      return { outcome: 'rescheduled', dueMs, hint }
    })
  }

  claim(
    topicName: string,
    request: LedgerClaimRequest,
    places: readonly Place[],
    moment: Moment,
  ): ClaimVerdict[] {
    const topic = this.#topicId(topicName)
    return places.map(({ key }) => this.#claimOne(topicName, topic, key, request, moment))
  }

  begin(topicName: string, { key }: Place, stamp: number, _moment: Moment): boolean {
    const row = this.#heldUnder(this.#topicId(topicName), key, stamp)
    if (row === null) return false
    this.#statements.begin.run(row.generation)
    return true
  }

  extend(
    topicName: string,
    places: readonly Place[],
    stamp: number,
    leaseMs: number,
    { steadyMs }: Moment,
  ): number {
    const topic = this.#topicId(topicName)
    let extended = 0
    for (const { key } of places) {
      const row = this.#heldUnder(topic, key, stamp)
      if (row === null) continue
      this.#statements.extend.run(steadyMs + leaseMs, row.generation)
      extended++
    }
    return extended
  }

  settle(topicName: string, settlements: readonly LedgerSettlement[], moment: Moment): LedgerSettled[] {
    const topic = this.#topicId(topicName)
    return settlements.map((settlement) => this.#settleOne(topic, settlement, moment))
  }

  replay(topicName: string, places: readonly Place[], { nowMs }: Moment): LedgerReplayed[] {
    const topic = this.#topicId(topicName)
    return places.map(({ key, cell }): LedgerReplayed => {
      const grave = this.#statements.grave.get(topic, cell, key) as EndedRow | undefined
      if (grave === undefined) return { outcome: 'not-found', hint: null }
      if (this.#row(topic, key) !== undefined) return { outcome: 'live', hint: null }
      this.#statements.revive.run(nowMs, nowMs, nowMs, grave.generation)
      this.#statements.forget.run(grave.generation)
      for (const tag of tagsOf(grave.tags)) this.#statements.tag.run(topic, tag, cell, grave.generation)
      this.#count(topic, 'dead', -1)
      return { outcome: 'replayed', hint: hintOf(this.#row(topic, key) as LiveRow) }
    })
  }

  purge(topicName: string, places: readonly Place[], _moment: Moment): ('purged' | 'not-found')[] {
    const topic = this.#topicId(topicName)
    return places.map(({ key, cell }) => (this.#purgeOne(topic, cell, key) ? 'purged' : 'not-found'))
  }

  forget(
    topicName: string,
    { endedBeforeMs, deadBeforeMs, deadMax, limit }: Retention,
    _moment: Moment,
  ): { ended: number; dead: number } {
    const topic = this.#topicId(topicName)
    const { sweep, oldDead, deadCount, forget } = this.#statements
    let ended = 0
    for (const state of ['done', 'cancelled', 'obsolete'] as const) {
      const swept = sweep.run(topic, ENDED_STATES.indexOf(state), endedBeforeMs, limit - ended).changes
      this.#count(topic, `${state}_swept`, swept)
      ended += swept
    }
    const tooMany = Math.max(0, (deadCount.get(topic) as number) - deadMax)
    const old = oldDead.all(topic, limit) as { generation: number; ended_ms: number }[]
    const gone = old.filter(({ ended_ms }, i) => i < tooMany || ended_ms < deadBeforeMs)
    for (const { generation } of gone) forget.run(generation)
    this.#count(topic, 'dead', -gone.length)
    this.#count(topic, 'purged', gone.length)
    return { ended, dead: gone.length }
  }

  /** The one condition that decides every claim (ledger.ts). */
  #claimOne(
    topicName: string,
    topic: number,
    key: string,
    { stamp, leaseMs, nowMs, alone }: LedgerClaimRequest,
    moment: Moment,
  ): ClaimVerdict {
    const row = this.#row(topic, key)
    if (row === undefined) return { kind: 'gone' }
    const isOurs = row.session === this.#session && row.stamp === stamp
    // The answer was lost, and the call is repeated.
    if (isOurs) return { kind: 'ours', task: claimedTaskOf(topicName, row, row.deliveries) }
    if (this.#isHeld(row, moment))
      return { kind: 'held', leaseEndInMs: (row.lease_ms as number) - moment.steadyMs }
    const lapsed = row.session !== null
    if (!lapsed && row.ring_ms > nowMs) return { kind: 'later', hint: hintOf(row) }
    const lost = row.lost + (lapsed ? 1 : 0)
    if (lapsed) {
      const lapse = lapseOf(row, lost)
      if (lapse?.kind === 'poison') this.#bury(topic, row, 'poison', lapse.error, false, moment)
      if (lapse?.kind === 'cancelled') this.#end(topic, row, 'cancelled', moment)
      if (lapse !== null) return lapse.kind === 'poison' ? lapse : { kind: 'gone' }
    }
    if (lost >= LOSSES_OF_A_SUSPECT && !alone) {
      if (lapsed) this.#statements.release.run(row.ring_ms, lost, row.updated_ms, row.generation)
      return { kind: 'suspect', hint: hintOf({ ...row, lost }) }
    }
    const deliveries = row.deliveries + 1
    const leaseEndMs = moment.steadyMs + leaseMs
    this.#statements.claim.run(
      this.#session,
      stamp,
      leaseEndMs,
      lost,
      deliveries,
      alone ? ALONE : 0,
      row.generation,
    )
    return { kind: 'ours', task: claimedTaskOf(topicName, row, deliveries) }
  }

  #settleOne(topic: number, { key, stamp, outcome }: LedgerSettlement, moment: Moment): LedgerSettled {
    const row = this.#heldUnder(topic, key, stamp)
    // Settled before, lost, replaced: whatever it was, the task is not this holder's. Nothing changes.
    if (row === null) return STALE
    switch (outcome.kind) {
      case 'done':
      case 'obsolete':
        return this.#end(topic, row, outcome.kind, moment)
      case 'dead':
        return this.#bury(topic, row, outcome.cause, outcome.error, outcome.failed, moment)
      case 'lost':
        return this.#isHeld(row, moment) ? STALE : this.#lose(topic, row, outcome.spread, moment)
      case 'return':
      case 'snooze':
      case 'retry':
        if (row.marked === 1) return this.#end(topic, row, 'cancelled', moment)
        if (outcome.kind === 'return') return this.#giveBack(row)
        return this.#again(row, outcome.delayMs, outcome.kind === 'retry' ? outcome.error : null, moment)
    }
  }

  /** Never started: to the place it had, as if it had not been claimed. */
  #giveBack(row: LiveRow): LedgerSettled {
    this.#statements.giveBack.run(row.generation)
    return { answer: 'settled', hint: hintOf(row) }
  }

  /** A retry says what went wrong and counts a failure; a snooze does not. Both end a row of lost leases. */
  #again(row: LiveRow, delayMs: number, error: string | null, { nowMs }: Moment): LedgerSettled {
    const ringMs = Math.min(nowMs + delayMs, LAST_INSTANT_MS)
    const failures = row.failures + (error === null ? 0 : 1)
    this.#statements.again.run(ringMs, failures, error ?? row.error, nowMs, row.generation)
    return { answer: 'settled', hint: hintOf({ ...row, failures, lost: 0 }, ringMs) }
  }

  /** Its lease ran out: counted apart from failures. */
  #lose(topic: number, row: LiveRow, spread: number, moment: Moment): LedgerSettled {
    const lost = row.lost + 1
    const lapse = lapseOf(row, lost)
    if (lapse?.kind === 'cancelled') return this.#end(topic, row, 'cancelled', moment)
    if (lapse?.kind === 'poison') {
      this.#bury(topic, row, 'poison', lapse.error, false, moment)
      return { answer: 'settled', hint: null, poison: lapse.error }
    }
    const spreadMs = Math.ceil(spread * SPREAD_MS * 2 ** Math.min(lost, SPREAD_DOUBLINGS_MAX))
    const ringMs = moment.nowMs + spreadMs
    this.#statements.release.run(ringMs, lost, moment.nowMs, row.generation)
    return { answer: 'settled', hint: hintOf({ ...row, lost }, ringMs) }
  }

  #bury(
    topic: number,
    row: LiveRow,
    cause: DeadCause,
    error: string,
    failed: boolean,
    moment: Moment,
  ): LedgerSettled {
    // A second death of a key takes the place of the first.
    this.#purgeOne(topic, row.cell, row.key)
    const failures = row.failures + (failed ? 1 : 0)
    this.#statements.bury.run(DEAD, moment.nowMs, failures, error, cause, row.generation)
    this.#remove(topic, row)
    this.#count(topic, 'dead', 1)
    return ENDED
  }

  #end(topic: number, row: LiveRow, state: Exclude<EndedState, 'dead'>, { nowMs }: Moment): LedgerSettled {
    this.#statements.end.run(ENDED_STATES.indexOf(state), nowMs, row.generation)
    this.#remove(topic, row)
    this.#count(topic, state, 1)
    return ENDED
  }

  #purgeOne(topic: number, cell: number, key: string): boolean {
    if (this.#statements.purge.run(topic, cell, key).changes === 0) return false
    this.#count(topic, 'dead', -1)
    this.#count(topic, 'purged', 1)
    return true
  }

  #remove(topic: number, { generation, cell, tags }: LiveRow): void {
    this.#statements.remove.run(generation)
    for (const tag of tagsOf(tags)) this.#statements.untag.run(topic, tag, cell, generation)
  }

  /** The generation of the new row; null when the key has a live task. */
  #insert(topic: number, entry: NewEntry, dueMs: number, nowMs: number): number | null {
    const { key, cell, priority, tags, body } = entry
    const { changes, lastInsertRowid } = this.#statements.insert.run(
      topic,
      cell,
      key,
      dueMs,
      dueMs,
      priorityNumber(priority),
      nowMs,
      nowMs,
      tagsText(tags),
      checksumOf(key, body),
      body,
    )
    if (changes === 0) return null
    const generation = Number(lastInsertRowid)
    if (tags !== null) for (const tag of tags) this.#statements.tag.run(topic, tag, cell, generation)
    return generation
  }

  #freshHint({ key, cell, priority }: NewEntry, ringMs: number, generation: number) {
    return { key, cell, ringMs, failures: 0, priority, isSuspect: false, generation }
  }

  #row(topic: number, key: string): LiveRow | undefined {
    return this.#statements.row.get(topic, key) as LiveRow | undefined
  }

  #heldUnder(topic: number, key: string, stamp: number): LiveRow | null {
    const row = this.#row(topic, key)
    return row !== undefined && row.session === this.#session && row.stamp === stamp ? row : null
  }

  /** A live claim is a lease that has not ended, of this session: who held it in an earlier one is gone. */
  #isHeld(row: LiveRow, { steadyMs }: Moment): boolean {
    return row.session === this.#session && (row.lease_ms as number) > steadyMs
  }

  #topicId(name: string): number {
    const known = this.#topicIds.get(name)
    if (known !== undefined) return known
    this.#statements.newTopic.run(name)
    const id = this.#statements.topic.get(name) as number
    this.#topicIds.set(name, id)
    return id
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

const STALE: LedgerSettled = { answer: 'stale', hint: null }
const ENDED: LedgerSettled = { answer: 'settled', hint: null }

/** What a lease that ran out makes of a task, if it does not simply wait again. */
function lapseOf({ marked, started }: LiveRow, lost: number): Lapse | null {
  if (marked === 1) return { kind: 'cancelled' }
  // Only a start that was recorded, with nothing else running beside it, can convict.
  if (started !== STARTED_ALONE) return null
  return {
    kind: 'poison',
    error: `its lease ran out ${lost} times in a row, the last time running alone`,
  }
}

const COUNTERS = [
  'scheduled',
  'done',
  'cancelled',
  'obsolete',
  'dead',
  'purged',
  'done_swept',
  'cancelled_swept',
  'obsolete_swept',
] as const

const CARRIED = 'topic, cell, key, due_ms, priority, deliveries, created_ms, tags, checksum, body'

function prepareAll(database: Database) {
  const prepare = (sql: string): Statement => database.prepare(sql)
  return {
    newTopic: prepare('INSERT INTO tocsin_topic (name) VALUES (?) ON CONFLICT DO NOTHING'),
    topic: prepare('SELECT id FROM tocsin_topic WHERE name = ?').pluck(),
    count: Object.fromEntries(
      COUNTERS.map((name) => [name, prepare(`UPDATE tocsin_topic SET ${name} = ${name} + ? WHERE id = ?`)]),
    ) as Record<Counter, Statement>,
    row: prepare('SELECT * FROM tocsin_live WHERE topic = ? AND key = ?'),
    insert: prepare(`INSERT INTO tocsin_live
      (topic, cell, key, due_ms, ring_ms, priority, created_ms, updated_ms, tags, checksum, body)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (topic, key) DO NOTHING`),
    remove: prepare('DELETE FROM tocsin_live WHERE generation = ?'),
    tag: prepare('INSERT INTO tocsin_tag (topic, tag, cell, generation) VALUES (?, ?, ?, ?)'),
    untag: prepare('DELETE FROM tocsin_tag WHERE topic = ? AND tag = ? AND cell = ? AND generation = ?'),
    mark: prepare('UPDATE tocsin_live SET marked = 1 WHERE generation = ?'),
    move: prepare(`UPDATE tocsin_live SET due_ms = ?, ring_ms = ?, updated_ms = ?, failures = 0, lost = 0,
      session = NULL, stamp = NULL, lease_ms = NULL, started = 0 WHERE generation = ?`),
    claim: prepare(`UPDATE tocsin_live SET session = ?, stamp = ?, lease_ms = ?, lost = ?, deliveries = ?,
      started = ? WHERE generation = ?`),
    begin: prepare(
      `UPDATE tocsin_live SET started = ${STARTED_ALONE} WHERE generation = ? AND started = ${ALONE}`,
    ),
    extend: prepare('UPDATE tocsin_live SET lease_ms = ? WHERE generation = ?'),
    again: prepare(`UPDATE tocsin_live SET ring_ms = ?, failures = ?, error = ?, updated_ms = ?, lost = 0,
      session = NULL, stamp = NULL, lease_ms = NULL, started = 0 WHERE generation = ?`),
    release:
      prepare(`UPDATE tocsin_live SET ring_ms = ?, lost = ?, updated_ms = ?, session = NULL, stamp = NULL,
      lease_ms = NULL, started = 0 WHERE generation = ?`),
    giveBack: prepare(`UPDATE tocsin_live SET session = NULL, stamp = NULL, lease_ms = NULL, started = 0,
      deliveries = deliveries - 1 WHERE generation = ?`),
    end: prepare(`INSERT INTO tocsin_ended (generation, state, ended_ms, failures, error, ${CARRIED})
      SELECT generation, ?, ?, failures, error, ${CARRIED} FROM tocsin_live WHERE generation = ?`),
    bury: prepare(`INSERT INTO tocsin_ended (generation, state, ended_ms, failures, error, cause, ${CARRIED})
      SELECT generation, ?, ?, ?, ?, ?, ${CARRIED} FROM tocsin_live WHERE generation = ?`),
    grave: prepare(`SELECT * FROM tocsin_ended WHERE topic = ? AND cell = ? AND key = ? AND state = ${DEAD}`),
    revive:
      prepare(`INSERT INTO tocsin_live (generation, topic, cell, key, due_ms, ring_ms, updated_ms, priority,
      deliveries, created_ms, tags, checksum, body)
      SELECT generation, topic, cell, key, ?, ?, ?, priority, deliveries, created_ms, tags, checksum, body
      FROM tocsin_ended WHERE generation = ?`),
    forget: prepare('DELETE FROM tocsin_ended WHERE generation = ?'),
    purge: prepare(`DELETE FROM tocsin_ended WHERE topic = ? AND cell = ? AND key = ? AND state = ${DEAD}`),
    sweep: prepare(`DELETE FROM tocsin_ended WHERE generation IN (
      SELECT generation FROM tocsin_ended WHERE topic = ? AND state = ? AND ended_ms < ? LIMIT ?)`),
    deadCount: prepare('SELECT dead FROM tocsin_topic WHERE id = ?').pluck(),
    oldDead: prepare(`SELECT generation, ended_ms FROM tocsin_ended
      WHERE topic = ? AND state = ${DEAD} ORDER BY ended_ms LIMIT ?`),
  }
}
