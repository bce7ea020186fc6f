/**
 * Sends the statements that write, on the ledger's own connections or in a caller's transaction. Parses their results.
 */
import { TocsinError } from '../../errors.ts'
import type {
  ExtendAnswer,
  LedgerReplayed,
  LedgerRescheduled,
  LedgerScheduled,
  LedgerSettled,
  LedgerSettlement,
} from '../../ledger.ts'
import { poisonText } from '../../values/rescue.ts'
import { ringMsAt } from '../../values/ring-time.ts'
import type { CancelAnswer, NewEntry, Place, Replayable } from '../../timetable.ts'
import type { RingTime } from '../../values/ring-time.ts'
import type { Hint } from '../../hint-table.ts'
import { hintOf, priorityNumber, priorityOf, tagsText } from '../rows.ts'
import { booleanArray, numberArray, placeArrays, textArray } from './arrays.ts'
import { noOpenTransaction } from './driver-errors.ts'
import type { ClaimedRows } from './claimed-rows.ts'
import { FinishWrites } from './finish-writes.ts'
import type { History } from './history.ts'
import type { StatementRunner } from './statement-runner.ts'
import { SEPARATOR } from './statements/fragments.ts'
import { WRITES } from './statements/writes.ts'

export interface TopicName {
  readonly id: number
  readonly name: string
}

export interface ExtendItem extends Place {
  readonly stamp: number
  readonly leaseMs: number
}

/** Value of the column `supersedes`: the replaced task was in flight. */
const IN_FLIGHT = 3

/** The number of batches for which the insert-only fast path is skipped after a key conflict. */
const SLOW_BATCHES = 16

/**
 * The maximum number of attempts to schedule a key with onConflict 'keep'. An attempt is repeated if the key has a live
 * task at the insert, but that task ends before it is read.
 */
const KEEP_TRIES = 10

export class Writes {
  readonly session: number
  readonly #history: History
  readonly #finishes: FinishWrites
  /** Null for the claims of another session. */
  readonly #rows: ClaimedRows | null
  /** The number of further batches for which the insert-only fast path is skipped. */
  #slowBatchesLeft = 0

  constructor(session: number, history: History, rows: ClaimedRows | null) {
    this.session = session
    this.#history = history
    this.#rows = rows
    this.#finishes = new FinishWrites(session, history, rows)
  }

  /**
   * Returns an object that extends and settles the claims of another session. The claim token of one process may be
   * used in any process.
   */
  as(session: number): Writes {
    return session === this.session ? this : new Writes(session, this.#history, null)
  }

  async schedule(
    runner: StatementRunner,
    topic: TopicName,
    entries: readonly NewEntry[],
    mergeMs: number,
  ): Promise<LedgerScheduled[]> {
    const keep = entries.filter(({ onConflict }) => onConflict === 'keep')
    if (keep.length === 0) return this.#scheduleReplacing(runner, topic, entries, mergeMs)
    const answers = new Map<string, LedgerScheduled>()
    const replace = entries.filter(({ onConflict }) => onConflict !== 'keep')
    if (replace.length > 0)
      for (const [i, answer] of (await this.#scheduleReplacing(runner, topic, replace, mergeMs)).entries())
        answers.set(replace[i]?.key ?? '', answer)
    let left = keep
    for (let tries = 0; left.length > 0; tries++) {
      if (tries === KEEP_TRIES)
        throw new TocsinError(
          'ledger-unavailable',
          'keys are created and removed faster than they can be read; try again',
        )
      // The remaining keys existed at the insert, but no longer existed when they were read. So these keys can be
      // inserted now.
      left = await this.#scheduleKeeping(runner, topic, left, mergeMs, answers)
    }
    return entries.map(({ key }) => answers.get(key) as LedgerScheduled)
  }

  async #scheduleReplacing(
    runner: StatementRunner,
    topic: TopicName,
    entries: readonly NewEntry[],
    mergeMs: number,
  ): Promise<LedgerScheduled[]> {
    const [row] = await runner.query(WRITES.schedule.text, this.#entries(runner, topic, entries, mergeMs))
    if (row === undefined) throw noOpenTransaction()
    const [nowMs, superseded] = row as [number, string | null]
    if (superseded !== null) this.#slowBatchesLeft = SLOW_BATCHES
    else if (this.#slowBatchesLeft > 0) this.#slowBatchesLeft--
    const how = new Map(listIn<[string, number]>(superseded))
    return entries.map((entry) => written(entry, nowMs, mergeMs, how.get(entry.key) ?? 0))
  }

  /** Schedules the entries, and puts their answers into `answers`. Returns the entries that must be tried again. */
  async #scheduleKeeping(
    runner: StatementRunner,
    topic: TopicName,
    entries: readonly NewEntry[],
    mergeMs: number,
    answers: Map<string, LedgerScheduled>,
  ): Promise<NewEntry[]> {
    const values = this.#entries(runner, topic, entries, mergeMs)
    const [row] = await runner.query(WRITES.scheduleKeeping.text, values)
    if (row === undefined) throw noOpenTransaction()
    const [nowMs, superseded, in_, kept] = row as [number, ...(string | null)[]]
    const how = new Map(listIn<[string, number]>(superseded))
    const isIn = new Set(listIn<string>(in_))
    for (const [key, dueMs, inFlight] of listIn<[string, number, boolean]>(kept))
      answers.set(key, { outcome: 'kept', dueMs, inFlight, hint: null })
    for (const entry of entries)
      if (isIn.has(entry.key)) answers.set(entry.key, written(entry, nowMs, mergeMs, how.get(entry.key) ?? 0))
    return entries.filter(({ key }) => !answers.has(key))
  }

  async cancel(runner: StatementRunner, topic: TopicName, places: readonly Place[]): Promise<CancelAnswer[]> {
    // In a caller's transaction the task is kept, whatever the retention: its role may only insert into tocsin.ended. The
    // janitor deletes the row.
    const isKept = runner.transactionId !== null || this.#history.keepsEnded(topic.name)
    const rows = await runner.query((isKept ? WRITES.cancel : WRITES.cancelUnkept).text, [
      topic.id,
      ...placeArrays(places),
      runner.lockTimeoutMs,
      runner.transactionId,
      runner.notAfterMs,
    ])
    const found = new Map(rows as [string, boolean][])
    return places.map(({ key }) => {
      const isHeld = found.get(key)
      return isHeld === undefined ? 'not-found' : isHeld ? 'in-flight' : 'cancelled'
    })
  }

  async reschedule(
    runner: StatementRunner,
    topic: TopicName,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<LedgerRescheduled[]> {
    const values = [topic.id, ...placeArrays(places), when.kind, when.ms, mergeMs]
    const rows = await runner.query(WRITES.reschedule.text, [
      ...values,
      runner.lockTimeoutMs,
      runner.transactionId,
      runner.notifyWithinMs,
      topic.name,
      runner.notAfterMs,
    ])
    type Row = [key: string, outcome: LedgerRescheduled['outcome'], dueMs: number, priority: number]
    const found = new Map((rows as Row[]).map((row) => [row[0], row]))
    return places.map(({ key, cell }): LedgerRescheduled => {
      const [, outcome = 'not-found', dueMs = 0, priority = 0] = found.get(key) ?? []
      if (outcome !== 'rescheduled') return { outcome, dueMs: null, hint: null }
      return { outcome, dueMs, hint: fresh(key, cell, dueMs, priority) }
    })
  }

  async begin(
    runner: StatementRunner,
    topic: TopicName,
    { key, cell }: Place,
    stamp: number,
  ): Promise<'begun' | 'locked' | 'stale'> {
    const rows = await runner.query(WRITES.begin.text, [topic.id, cell, key, stamp, this.session])
    return (rows as ['begun' | 'locked'][])[0]?.[0] ?? 'stale'
  }

  async extend(
    runner: StatementRunner,
    topic: TopicName,
    items: readonly ExtendItem[],
  ): Promise<ExtendAnswer[]> {
    const rows = await runner.query(WRITES.extend.text, [
      topic.id,
      ...placeArrays(items),
      numberArray(items.map(({ stamp }) => stamp)),
      numberArray(items.map(({ leaseMs }) => leaseMs)),
      this.session,
    ])
    for (const { cell, stamp } of items) this.#rows?.forget(topic.id, cell, stamp)
    const found = new Map(rows as [string, ExtendAnswer][])
    return items.map(({ key }) => found.get(key) ?? 'stale')
  }

  /** Settles the tasks. An answer is null if another transaction has locked the row. Then the caller tries again. */
  async settle(
    runner: StatementRunner,
    topic: TopicName,
    settlements: readonly LedgerSettlement[],
  ): Promise<(LedgerSettled | null)[]> {
    const answers = new Array<LedgerSettled | null>(settlements.length)
    const ending: number[] = []
    const others: number[] = []
    for (const [i, { outcome }] of settlements.entries())
      (outcome.kind === 'done' || outcome.kind === 'obsolete' ? ending : others).push(i)
    const pick = (indexes: readonly number[]) => indexes.map((i) => settlements[i] as LedgerSettlement)
    if (ending.length > 0) {
      const left = await this.#finishes.finish(runner, topic, settlements, ending)
      for (const i of ending) answers[i] = ENDED
      // The statement `settle` finds out why these did not end, and replaces their answers.
      others.push(...left)
    }
    if (others.length > 0) await this.#settle(runner, topic, pick(others), others, answers)
    return answers
  }

  /**
   * Like `settle`, with the general statement for all tasks. It waits for no row: its answer is null for a task whose row
   * another transaction has locked.
   */
  async settleUnlocked(
    runner: StatementRunner,
    topic: TopicName,
    settlements: readonly LedgerSettlement[],
  ): Promise<(LedgerSettled | null)[]> {
    const answers = new Array<LedgerSettled | null>(settlements.length)
    await this.#settle(runner, topic, settlements, [...settlements.keys()], answers)
    return answers
  }

  async #settle(
    runner: StatementRunner,
    topic: TopicName,
    settlements: readonly LedgerSettlement[],
    indexes: readonly number[],
    answers: (LedgerSettled | null)[],
  ): Promise<void> {
    const outcomes = settlements.map(({ outcome }) => outcomeColumns(outcome))
    const rows = await runner.query(WRITES.settle.text, [
      topic.id,
      ...placeArrays(settlements),
      numberArray(settlements.map(({ stamp }) => stamp)),
      textArray(settlements.map(({ outcome }) => outcome.kind)),
      numberArray(outcomes.map(({ delay }) => delay)),
      textArray(outcomes.map(({ error }) => error)),
      textArray(outcomes.map(({ cause }) => cause)),
      booleanArray(outcomes.map(({ failed }) => failed)),
      this.session,
      poisonText('%s'),
    ])
    for (const row of rows as SettleRow[])
      answers[indexes[row[0] - 1] as number] = settledOf(settlements[row[0] - 1] as LedgerSettlement, row)
  }

  async replay(
    runner: StatementRunner,
    topic: TopicName,
    places: readonly Place[],
    which: Replayable,
  ): Promise<LedgerReplayed[]> {
    const rows = await runner.query(WRITES.replay.text, [
      topic.id,
      ...placeArrays(places),
      runner.lockTimeoutMs,
      runner.notifyWithinMs,
      topic.name,
      runner.notAfterMs,
      which === 'newest',
    ])
    type Row = [key: string, lives: boolean, ringMs: number, priority: number, hasLive: boolean]
    const found = new Map((rows as Row[]).map((row) => [row[0], row]))
    return places.map(({ key, cell }): LedgerReplayed => {
      const row = found.get(key)
      if (row === undefined) return { outcome: 'not-found', hint: null }
      const [, lives, ringMs, priority, hasLive] = row
      if (!lives) return { outcome: hasLive ? 'live' : 'superseded', hint: null }
      return { outcome: 'replayed', hint: fresh(key, cell, ringMs, priority) }
    })
  }

  async purge(
    runner: StatementRunner,
    topic: TopicName,
    places: readonly Place[],
  ): Promise<('purged' | 'not-found')[]> {
    const rows = await runner.query(WRITES.purge.text, [
      topic.id,
      ...placeArrays(places),
      runner.lockTimeoutMs,
      runner.notAfterMs,
    ])
    const purged = new Set((rows as [string][]).map(([key]) => key))
    return places.map(({ key }) => (purged.has(key) ? 'purged' : 'not-found'))
  }

  #entries(
    runner: StatementRunner,
    topic: TopicName,
    entries: readonly NewEntry[],
    mergeMs: number,
  ): unknown[] {
    return [
      topic.id,
      ...placeArrays(entries),
      numberArray(entries.map(({ when }) => when.ms)),
      booleanArray(entries.map(({ when }) => when.kind === 'delay')),
      numberArray(entries.map(({ priority }) => priorityNumber(priority))),
      textArray(entries.map(({ tags }) => tagsText(tags))),
      // Joined, because an array literal would have to escape each quotation mark of the JSON.
      entries.map(({ body }) => body).join(SEPARATOR),
      mergeMs,
      runner.lockTimeoutMs,
      runner.transactionId,
      runner.notifyWithinMs,
      topic.name,
      // The fast path is not used in a caller's transaction. Each attempt would be a subtransaction, and many
      // subtransactions slow PostgreSQL down.
      this.#slowBatchesLeft === 0 && runner.transactionId === null,
      runner.notAfterMs,
    ]
  }
}

type SettleRow = [
  n: number,
  answer: 'settled' | 'stale' | 'locked',
  fate: string,
  ringMs: number,
  failures: number,
  priority: number,
  lost: number,
]

const STALE: LedgerSettled = { answer: 'stale', hint: null }
const ENDED: LedgerSettled = { answer: 'settled', hint: null }
const GOES_ON = new Set(['retry', 'snooze', 'return', 'lost'])

function fresh(key: string, cell: number, ringMs: number, priority: number): Hint {
  return { key, cell, ringMs, failures: 0, priority: priorityOf(priority), isSuspect: false }
}

function listIn<T>(json: string | null | undefined): T[] {
  return typeof json === 'string' ? (JSON.parse(json) as T[]) : []
}

/**
 * Returns the answer for a scheduled task. Computes the due time in the same way as the statement, so that the
 * statement need not return the due time of each task.
 */
function written(
  { key, cell, when, priority }: NewEntry,
  nowMs: number,
  mergeMs: number,
  supersedes: number,
): LedgerScheduled {
  const dueMs = ringMsAt(when, nowMs, nowMs, mergeMs)
  return {
    outcome: supersedes === 0 ? 'created' : 'replaced',
    dueMs,
    inFlight: supersedes === IN_FLIGHT,
    hint: { key, cell, ringMs: dueMs, failures: 0, priority, isSuspect: false },
  }
}

/**
 * Returns the parameters of the statement `settle` for an outcome. `delay` is in milliseconds. For the outcome 'lost',
 * `delay` is the spread instead, a fraction from 0 to 1.
 */
function outcomeColumns(outcome: LedgerSettlement['outcome']): {
  delay: number
  error: string | null
  cause: string | null
  failed: boolean
} {
  const { kind } = outcome
  if (kind === 'lost') return { delay: outcome.spread, error: null, cause: null, failed: false }
  const delay = kind === 'retry' || kind === 'snooze' ? outcome.delayMs : 0
  if (kind === 'dead')
    return { delay, error: storable(outcome.error), cause: outcome.cause, failed: outcome.failed }
  return { delay, error: kind === 'retry' ? storable(outcome.error) : null, cause: null, failed: false }
}

/** Returns the text without NUL characters, which a text of PostgreSQL cannot contain. */
function storable(text: string): string {
  return text.replaceAll('\0', '')
}

/** Returns the answer to a settlement, or null if another transaction has locked the row. */
function settledOf({ key, cell }: LedgerSettlement, row: SettleRow): LedgerSettled | null {
  const [, answer, fate, ringMs, failures, priority, lost] = row
  if (answer === 'locked') return null
  if (answer === 'stale') return STALE
  if (fate === 'poison') return { ...ENDED, poison: poisonText(lost) }
  if (!GOES_ON.has(fate)) return ENDED
  return { answer, hint: hintOf({ key, cell, ring_ms: ringMs, failures, priority, lost }) }
}
