import { BATCH_BYTES_MAX, BATCH_MAX, BULK_MAX } from '../../lib/batch-max.ts'
import { finiteOrNull } from '../../values/ring-time.ts'
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
  Replayable,
  ReplayAnswer,
  RescheduleAnswer,
  ScheduleAnswer,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../../timetable.ts'
import { NO_LEDGER, type TaskStore } from '../../store.ts'
import type { RingTime } from '../../values/ring-time.ts'
import { RedisBoard } from './board.ts'
import type { RedisParts } from './parts.ts'
import type { ScriptName } from './scripts.ts'
import type { Server } from './servers.ts'
import { scriptOf, settleAnswers, settleArgs, type SettlePiece, settleRounds } from './settling.ts'
import { TaskReads } from './task-reads.ts'
import { UserWrites } from './user-writes.ts'
import { claimedTasks } from './views.ts'

/** `look` reads Redis's clock again if the last reading is older than this. */
const CLOCK_AGE_MAX_MS = 1_000

/**
 * A timetable that many processes share. Every change of a cell is one script, which Redis runs atomically and by its
 * own clock. This file has the calls that concern claims. The writes of users are in user-writes.ts, the reads in
 * task-reads.ts.
 */
export class RedisTimetable implements TaskStore {
  readonly features = NO_LEDGER
  readonly lookMs: number
  readonly isSettleCostly = true
  readonly bulkMax = BULK_MAX
  /** The board for processes that have no ledger. It uses the connections of this timetable. */
  readonly board: RedisBoard
  readonly #parts: RedisParts
  readonly #writes: UserWrites
  readonly #reads: TaskReads
  /** The readings of servers' clocks that are under way. */
  readonly #clockReadings = new Map<Server, Promise<unknown>>()

  constructor(parts: RedisParts) {
    this.#parts = parts
    this.#writes = new UserWrites(parts)
    this.#reads = new TaskReads(parts)
    this.board = new RedisBoard(parts)
    this.lookMs = parts.lookMs
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]> {
    return this.#writes.schedule(topic, entries, mergeMs)
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    return this.#writes.cancel(topic, places)
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]> {
    return this.#writes.reschedule(topic, places, when, mergeMs)
  }

  replay(topic: string, places: readonly Place[], which: Replayable = 'any'): Promise<ReplayAnswer[]> {
    return this.#writes.replay(topic, places, which)
  }

  purge(topic: string, places: readonly Place[]): Promise<('purged' | 'not-found')[]> {
    return this.#writes.purge(topic, places)
  }

  async claim({ topic, cell }: CellAddress, request: ClaimRequest): Promise<Claim> {
    const { req, limit, leaseMs, from, wholePrefixes } = request
    const most = Math.min(limit, BATCH_MAX)
    const seed = String(this.#parts.random.fraction())
    const bytesMax = String(BATCH_BYTES_MAX)
    const shape = this.#parts.claimShape()
    const args = [req, String(most), String(leaseMs), from, wholePrefixes ? '1' : '0', seed, bytesMax, shape]
    const [nowMs, stamp, nextRing, nextSuspect, leaseEndIn, rescued, poisoned, keys, scores, bodies, tries] =
      await this.#run<ClaimReply>('claim', topic, cell, args)
    return {
      stamp,
      tasks: claimedTasks(topic, stamp, keys, scores, bodies, tries),
      nowMs,
      nextRingMs: orNull(nextRing),
      nextSuspectMs: orNull(nextSuspect),
      nextLeaseEndInMs: orNull(leaseEndIn),
      rescued,
      poisoned: poisoned === '' ? [] : poisoned.split('\n'),
    }
  }

  /**
   * Reads the next ring and the next lease end. Uses a plain command instead of a script, because thousands of idle
   * cells are polled regularly.
   */
  async look({ topic, cell }: CellAddress): Promise<Look> {
    const { caller, servers, keys } = this.#parts
    const ofCell = keys.of(topic, cell)
    const server = servers.of(ofCell)
    const [reply] = await Promise.all([
      caller.command(ofCell, ['HMGET', ofCell.meta, 'next', 'suspect', 'lease'], 'look'),
      this.#freshClock(server),
    ])
    const [next, suspect, lease] = reply as (string | null)[]
    const nowMs = server.clock.now()
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
    const answers = new Array<SettleAnswer>(settlements.length).fill('stale')
    const send = async (piece: SettlePiece) => {
      const [, row] = await this.#run<[string]>(scriptOf(piece), topic, cell, settleArgs(piece))
      settleAnswers(row, piece.indexes.length).forEach((answer, i) => {
        answers[piece.indexes[i] as number] = answer
      })
    }
    // Each round waits for the previous round. Sending the rounds in order is not enough: if Redis does not have a
    // script, the call is sent again with the source, and then runs after calls that were sent later.
    for (const round of settleRounds(settlements)) await Promise.all(round.map(send))
    return answers
  }

  get(topic: string, place: Place): Promise<EntryView | null> {
    return this.#reads.get(topic, place)
  }

  list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return this.#reads.list(topic, query)
  }

  find(
    at: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    return this.#reads.find(at, among, what, cursor)
  }

  counts(topic: string): Promise<Counts> {
    return this.#reads.counts(topic)
  }

  books(topic: string): Promise<Books> {
    return this.#reads.books(topic)
  }

  forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    return this.#reads.forecast(topic, fromMs, toMs, stepMs)
  }

  /** Returns the time of one server. In a cluster, the other masters' clocks may differ. */
  nowMs(): Promise<number> {
    const { caller, servers } = this.#parts
    const server = servers.all.find(({ connection }) => connection.isReady) ?? (servers.all[0] as Server)
    return caller.timeOf(server)
  }

  watch(topic: string, watcher: Watcher): () => void {
    return this.#parts.wakes.watch(topic, watcher)
  }

  close(): Promise<void> {
    return this.#parts.close()
  }

  /**
   * Reads a server's clock again if the last reading is old, because the clock may have stepped. Concurrent looks share
   * one reading.
   */
  #freshClock(server: Server): Promise<unknown> | undefined {
    const known = this.#clockReadings.get(server)
    if (known !== undefined || server.clock.ageMs() <= CLOCK_AGE_MAX_MS) return known
    const reading = this.#parts.caller.timeOf(server).finally(() => this.#clockReadings.delete(server))
    this.#clockReadings.set(server, reading)
    return reading
  }

  #run<A extends readonly unknown[]>(
    name: ScriptName,
    topic: string,
    cell: number,
    args: readonly (string | Buffer)[],
  ): Promise<[number, ...A]> {
    const { caller, keys } = this.#parts
    return caller.run<A>(name, keys.of(topic, cell), args)
  }
}

type ClaimReply = [
  stamp: number,
  nextRing: number,
  nextSuspect: number,
  leaseEndIn: number,
  rescued: number,
  poisoned: string,
  keys: string,
  scores: string,
  bodies: string,
  tries: (string | null)[],
]

function orNull(value: number): number | null {
  return value < 0 ? null : value
}
