import { BATCH_MAX } from '../../lib/batch-max.ts'
import { ALL_CELLS, CELLS } from '../../values/cell.ts'
import { positionOf } from '../../values/list-position.ts'
import type { Random } from '../../random.ts'
import { finiteOrNull } from '../../values/ring-time.ts'
import type { OnConflict } from '../../task.ts'
import type {
  Books,
  CancelAnswer,
  CellAddress,
  Claim,
  ClaimRequest,
  Counts,
  EntryView,
  ListQuery,
  Look,
  NewEntry,
  Place,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../../timetable.ts'
import { NO_LEDGER, type TaskStore } from '../../store.ts'
import type { ListPosition } from '../../values/list-position.ts'
import type { RingTime } from '../../values/ring-time.ts'
import { packLists } from './packing.ts'
import { RedisBoard } from './board.ts'
import { createdText } from './body.ts'
import type { Caller } from './caller.ts'
import type { Keys } from './keys.ts'
import { type Candidate, type CandidatePage, listPage } from './listing.ts'
import type { RecordClock } from '../../lib/record-clock.ts'
import type { Replicas } from './replicas.ts'
import type { BatchKind, Batcher } from '../../lib/batcher.ts'
import { ScheduleBatch, type ScheduleReply } from './scheduling.ts'
import { scriptOf, settleAnswers, settleArgs, type SettlePiece, settleRounds } from './settling.ts'
import { claimedTask, type FoundTask, ringMsOf, viewOf } from './views.ts'
import type { Wakes } from './wakes.ts'

/** A look believes what it has heard of Redis's clock for so long. */
const CLOCK_AGE_MAX_MS = 1_000

/** What a Redis timetable is made of; open.ts puts it together. */
export interface RedisParts {
  /** For claims, settles and looks. */
  readonly caller: Caller
  /** For what users write; another connection where replicas have to confirm it, which makes one wait. */
  readonly writer: Caller
  readonly replicas: Replicas
  readonly batcher: Batcher
  readonly wakes: Wakes
  readonly keys: Keys
  readonly recordClock: RecordClock
  readonly random: Random
  readonly lookMs: number
  readonly close: () => Promise<void>
}

/** One timetable for many processes: every step is one script on one cell, decided by Redis's clock. */
export class RedisTimetable implements TaskStore {
  readonly features = NO_LEDGER
  readonly lookMs: number
  /** Where there is no ledger, it is here that processes tell each other who they are. It ends with this timetable. */
  readonly board: RedisBoard
  readonly #parts: RedisParts
  #asking: Promise<void> | null = null
  /** Made once per topic: single calls come by the hundred thousand. */
  readonly #scheduleKindsOf = new Map<string, ScheduleKinds>()
  readonly #cancelKindOf = new Map<string, (place: Place) => BatchKind<Place, CancelAnswer> | undefined>()

  constructor(parts: RedisParts) {
    this.#parts = parts
    this.board = new RedisBoard(parts)
    this.lookMs = parts.lookMs
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]> {
    const known = this.#scheduleKindsOf.get(topic)
    const { kindOf } = known?.mergeMs === mergeMs ? known : this.#scheduleKinds(topic, mergeMs)
    return this.#write(entries, kindOf)
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#write(places, this.#cancelKindOf.get(topic) ?? this.#cancelKind(topic))
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]> {
    const whenText = whenArg(when)
    const kinds = this.#kinds<Place & { whenText: string }, RescheduleAnswer>(
      topic,
      `reschedule/${mergeMs}`,
      async (cell, run, deadlineMs) => {
        const args = [this.#seed(), String(mergeMs), ...run.flatMap((item) => [item.key, item.whenText])]
        const [, dues] = await this.#writeScript<[number[]]>('reschedule', topic, cell, args, deadlineMs)
        return dues.map(rescheduleAnswer)
      },
    )
    const items = places.map((place) => ({ ...place, whenText }))
    return this.#write(items, ({ cell }) => kinds[cell])
  }

  replay(topic: string, places: readonly Place[]): Promise<('replayed' | 'live' | 'not-found')[]> {
    const kinds = this.#kinds<Place, ReplayAnswer>(topic, 'replay', async (cell, run, deadlineMs) => {
      const args = run.map(({ key }) => key)
      const [, row] = await this.#writeScript<[string]>('replay', topic, cell, args, deadlineMs)
      return run.map((_, i) => REPLAY_ANSWERS[row[i] ?? ''] ?? 'not-found')
    })
    return this.#write(places, ({ cell }) => kinds[cell])
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    const kinds = this.#kinds<Place, PurgeAnswer>(topic, 'purge', async (cell, run, deadlineMs) => {
      const args = run.map(({ key }) => key)
      const [, row] = await this.#writeScript<[string]>('purge', topic, cell, args, deadlineMs)
      return run.map((_, i) => (row[i] === 'p' ? 'purged' : 'not-found'))
    })
    return this.#write(places, ({ cell }) => kinds[cell])
  }

  async claim({ topic, cell }: CellAddress, request: ClaimRequest): Promise<Claim> {
    const { req, limit, leaseMs, from, wholePrefixes } = request
    const most = Math.min(limit, BATCH_MAX)
    const args = [req, String(most), String(leaseMs), from, wholePrefixes ? '1' : '0', this.#seed()]
    const [nowMs, stamp, nextRing, nextSuspect, leaseEndIn, rescued, poisoned, keys, scores, bodies, tries] =
      await this.#run<ClaimReply>('claim', topic, cell, args)
    return {
      stamp,
      tasks: keys.map((key, i) =>
        claimedTask(topic, key, stamp, scores[i] ?? '0', bodies[i] ?? null, tries[i]),
      ),
      nowMs,
      nextRingMs: orNull(nextRing),
      nextSuspectMs: orNull(nextSuspect),
      nextLeaseEndInMs: orNull(leaseEndIn),
      rescued,
      poisoned: poisoned === '' ? [] : poisoned.split('\n'),
    }
  }

  async #askClock(): Promise<void> {
    try {
      await this.nowMs()
    } finally {
      this.#asking = null
    }
  }

  /** One plain command: thousands of idle cells are looked at now and then. */
  async look({ topic, cell }: CellAddress): Promise<Look> {
    const { caller, keys, recordClock } = this.#parts
    const { meta } = keys.of(topic, cell)
    // Its clock may have stepped since it was last heard of; one question does for all that look now.
    if (recordClock.ageMs() > CLOCK_AGE_MAX_MS) this.#asking ??= this.#askClock()
    const [reply] = await Promise.all([
      caller.command(['HMGET', meta, 'next', 'suspect', 'lease'], 'look'),
      this.#asking,
    ])
    const [next, suspect, lease] = reply as (string | null)[]
    const nowMs = recordClock.now()
    const inMs = (at: string | null | undefined) =>
      at === null || at === undefined ? Number.POSITIVE_INFINITY : Math.max(0, Number(at) - nowMs)
    return {
      ringInMs: finiteOrNull(Math.min(inMs(next), inMs(suspect))),
      leaseEndInMs: finiteOrNull(inMs(lease)),
    }
  }

  async begin({ topic, cell }: CellAddress, key: string, stamp: number): Promise<boolean> {
    const [, recorded] = await this.#run<[number]>('begin', topic, cell, [key, String(stamp)])
    return recorded === 1
  }

  async extend({ topic, cell }: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    const [, extended] = await this.#run<[number]>('extend', topic, cell, [req, String(leaseMs)])
    return extended === 1 ? 'extended' : 'stale'
  }

  async settle({ topic, cell }: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]> {
    const answers = new Array<SettleAnswer>(settlements.length)
    const send = async (piece: SettlePiece) => {
      const [, row] = await this.#run<[string]>(scriptOf(piece), topic, cell, settleArgs(piece))
      settleAnswers(row, piece.indexes.length).forEach((answer, i) => {
        answers[piece.indexes[i] as number] = answer
      })
    }
    // One round after the other, not only sent in order: a script that Redis has lost runs later than its neighbours.
    for (const round of settleRounds(settlements)) await Promise.all(round.map(send))
    return answers
  }

  async get(topic: string, { key, cell }: Place): Promise<EntryView | null> {
    const [, [found]] = await this.#run<[FoundTask[]]>('get', topic, cell, ['0', key])
    return found === undefined ? null : viewOf(topic, key, found)
  }

  list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return listPage(
      {
        cells: ALL_CELLS,
        next: (cell, asked, from, limit) => this.#candidates(topic, cell, asked, from, limit),
        views: (candidates) => this.#views(topic, candidates, query.state === 'dead'),
      },
      query,
    )
  }

  async find(
    { topic, cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    const [kind, wanted] =
      'tag' in what ? ['tag', what.tag] : 'prefix' in what ? ['prefix', what.prefix] : ['all', '']
    const args = [among, kind, wanted, cursor ?? '']
    const [, next, keys] = await this.#run<[string, string[]]>('find', topic, cell, args)
    return { keys, cursor: next === '' ? null : next }
  }

  async counts(topic: string): Promise<Counts> {
    const [pending, due, claimed, dead] = await this.#sums(topic)
    return { pending, due, claimed, dead }
  }

  async books(topic: string): Promise<Books> {
    const [pending, , claimed, dead, scheduled, done, cancelled, obsolete, purged] = await this.#sums(topic)
    return { pending, claimed, dead, scheduled, done, cancelled, obsolete, purged }
  }

  async forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    const args = [fromMs, toMs, stepMs].map(String)
    const cells = await Promise.all(
      ALL_CELLS.map((cell) => this.#run<[number[]]>('forecast', topic, cell, args)),
    )
    const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
    for (const [, counts] of cells) for (const [i, due] of counts.entries()) steps[i] = (steps[i] ?? 0) + due
    return steps
  }

  async nowMs(): Promise<number> {
    const { caller, recordClock } = this.#parts
    const [seconds, micros] = (await caller.command(['TIME'], 'time')) as [string, string]
    const nowMs = Number(seconds) * 1000 + Math.floor(Number(micros) / 1000)
    recordClock.heard(nowMs)
    return nowMs
  }

  watch(topic: string, watcher: Watcher): () => void {
    return this.#parts.wakes.watch(topic, watcher)
  }

  close(): Promise<void> {
    return this.#parts.close()
  }

  /** Through the cells' queues, in order; confirmed by replicas where that was asked for. */
  #write<I extends Place, A>(
    items: readonly I[],
    kindOf: (item: I) => BatchKind<I, A> | undefined,
  ): Promise<A[]> {
    const { batcher, replicas } = this.#parts
    const answers = batcher.add(items, kindOf as (item: I) => BatchKind<I, A>)
    return replicas.confirmed(answers)
  }

  #cancelKind(topic: string): (place: Place) => BatchKind<Place, CancelAnswer> | undefined {
    const kinds = this.#kinds<Place, CancelAnswer>(topic, 'cancel', async (cell, run, deadlineMs) => {
      const args = [this.#seed(), packLists(run.map(({ key }) => key))]
      const [, row] = await this.#writeScript<[string]>('cancel', topic, cell, args, deadlineMs)
      return run.map((_, i) => (row === '' ? 'cancelled' : (CANCEL_ANSWERS[row[i] ?? ''] ?? 'not-found')))
    })
    const kindOf = ({ cell }: Place) => kinds[cell]
    this.#cancelKindOf.set(topic, kindOf)
    return kindOf
  }

  #scheduleKinds(topic: string, mergeMs: number): ScheduleKinds {
    const { batcher, recordClock } = this.#parts
    const queues = batcher.queuesOf(topic, 'cells', CELLS)
    const kinds = (onConflict: OnConflict) =>
      queues.map((queue, cell): BatchKind<NewEntry, ScheduleAnswer> => {
        const script = (args: (string | Buffer)[], deadlineMs: number): Promise<ScheduleReply> =>
          this.#writeScript('schedule', topic, cell, args, deadlineMs)
        return {
          queue,
          name: `${onConflict}/${mergeMs}`,
          begin: () => new ScheduleBatch(onConflict, mergeMs, createdText(recordClock.about()), script),
        }
      })
    const [replace, keep] = [kinds('replace'), kinds('keep')]
    const kindOf = ({ cell, onConflict }: NewEntry) => (onConflict === 'keep' ? keep : replace)[cell]
    const made = { mergeMs, kindOf }
    this.#scheduleKindsOf.set(topic, made)
    return made
  }

  /** Steps of one kind, for each cell of a topic. */
  #kinds<I, A>(
    topic: string,
    name: string,
    send: (cell: number, run: readonly I[], deadlineMs: number) => Promise<readonly A[]>,
  ): readonly BatchKind<I, A>[] {
    const { batcher } = this.#parts
    return batcher.kindsOf(batcher.queuesOf(topic, 'cells', CELLS), name, send)
  }

  #writeScript<A extends readonly unknown[]>(
    name: 'schedule' | 'cancel' | 'reschedule' | 'replay' | 'purge',
    topic: string,
    cell: number,
    args: readonly (string | Buffer)[],
    deadlineMs: number,
  ): Promise<[number, ...A]> {
    return this.#parts.writer.run<A>(name, this.#parts.keys.of(topic, cell), args, deadlineMs)
  }

  #run<A extends readonly unknown[]>(
    name: Parameters<Caller['run']>[0],
    topic: string,
    cell: number,
    args: readonly (string | Buffer)[],
  ): Promise<[number, ...A]> {
    return this.#parts.caller.run<A>(name, this.#parts.keys.of(topic, cell), args)
  }

  async #candidates(
    topic: string,
    cell: number,
    query: ListQuery,
    from: ListPosition | null,
    limit: number,
  ): Promise<CandidatePage> {
    const { state, tag, prefix, dueFromMs } = query
    if (tag !== null) return this.#candidatesOf(topic, cell, { tag }, query)
    if (prefix !== null) return this.#candidatesOf(topic, cell, { prefix }, query)
    // Nothing rings before it is due, so that what rings earlier need not be looked at.
    const start = from ?? { ringMs: state === 'dead' ? 0 : dueFromMs, failures: 0, key: '' }
    const args = [
      state === 'pending' || state === null ? '1' : '0',
      state === 'claimed' || state === null ? '1' : '0',
      state === 'dead' ? '1' : '0',
      String(limit),
      String(start.ringMs * 1000 + Math.min(start.failures, 999)),
      start.key,
    ]
    const [, pairs, endScore, endKey] = await this.#run<[string[], string, string]>('list', topic, cell, args)
    const candidates: Candidate[] = []
    for (let i = 0; i < pairs.length; i += 2) candidates.push(candidate(cell, pairs[i], pairs[i + 1]))
    return { candidates, completeTo: endScore === '' ? null : candidate(cell, endKey, endScore) }
  }

  /** By tag or prefix: all of them, since nothing has them in the order of a listing. */
  async #candidatesOf(
    topic: string,
    cell: number,
    what: Selection,
    { state }: ListQuery,
  ): Promise<CandidatePage> {
    const candidates: Candidate[] = []
    let cursor: string | null = null
    do {
      const page = await this.find({ topic, cell }, state === 'dead' ? 'dead' : 'live', what, cursor)
      const views = await this.#viewsOfCell(topic, cell, page.keys, state === 'dead')
      for (const view of views) if (view !== null) candidates.push({ ...positionOf(view), cell })
      cursor = page.cursor
    } while (cursor !== null)
    const distinct = new Map(candidates.map((one) => [one.key, one]))
    return { candidates: [...distinct.values()], completeTo: null }
  }

  async #views(
    topic: string,
    candidates: readonly Candidate[],
    areDead: boolean,
  ): Promise<(EntryView | null)[]> {
    const byCell = new Map<number, string[]>()
    for (const { cell, key } of candidates) byCell.set(cell, [...(byCell.get(cell) ?? []), key])
    const groups = [...byCell].map(([cell, keys]) => this.#viewsOfCell(topic, cell, keys, areDead))
    return (await Promise.all(groups)).flat()
  }

  async #viewsOfCell(
    topic: string,
    cell: number,
    keys: readonly string[],
    areDead: boolean,
  ): Promise<(EntryView | null)[]> {
    if (keys.length === 0) return []
    const [, found] = await this.#run<[FoundTask[]]>('get', topic, cell, [areDead ? '1' : '0', ...keys])
    return found.map((one, i) => viewOf(topic, keys[i] ?? '', one))
  }

  async #sums(topic: string): Promise<CellSums> {
    const cells = await Promise.all(ALL_CELLS.map((cell) => this.#run<CellSums>('counts', topic, cell, [])))
    const sums: CellSums = [0, 0, 0, 0, 0, 0, 0, 0, 0]
    for (const [, ...numbers] of cells)
      for (const [i, number] of numbers.entries()) sums[i] = (sums[i] ?? 0) + number
    return sums
  }

  /** Lua's own chance is the same at every call. */
  #seed(): string {
    return String(this.#parts.random.fraction())
  }
}

interface ScheduleKinds {
  readonly mergeMs: number
  readonly kindOf: (entry: NewEntry) => BatchKind<NewEntry, ScheduleAnswer> | undefined
}

type CellSums = [number, number, number, number, number, number, number, number, number]

type ClaimReply = [
  stamp: number,
  nextRing: number,
  nextSuspect: number,
  leaseEndIn: number,
  rescued: number,
  poisoned: string,
  keys: string[],
  scores: string[],
  bodies: (string | null)[],
  tries: (string | null)[],
]

const CANCEL_ANSWERS: Record<string, CancelAnswer> = { c: 'cancelled', f: 'in-flight', n: 'not-found' }
type ReplayAnswer = 'replayed' | 'live' | 'not-found'
type PurgeAnswer = 'purged' | 'not-found'

const REPLAY_ANSWERS: Record<string, ReplayAnswer> = {
  r: 'replayed',
  l: 'live',
  n: 'not-found',
}

function rescheduleAnswer(due: number): RescheduleAnswer {
  if (due === -1) return { outcome: 'in-flight', dueMs: null }
  if (due === -2) return { outcome: 'not-found', dueMs: null }
  return { outcome: 'rescheduled', dueMs: due }
}

function whenArg({ kind, ms }: RingTime): string {
  return kind === 'at' ? String(ms) : kind === 'delay' ? `+${ms}` : `~${ms}`
}

function candidate(cell: number, key = '', score = '0'): Candidate {
  const ring = ringMsOf(score)
  return { cell, key, ringMs: ring, failures: Number(score) - ring * 1000 }
}

function orNull(value: number): number | null {
  return value < 0 ? null : value
}
