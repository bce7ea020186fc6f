import { prefixOf } from '../../values/cell.ts'
import { BATCH_BYTES_MAX } from '../../lib/batch-max.ts'
import { byteSizeOf } from '../../lib/byte-size.ts'
import { Heap } from '../../lib/heap.ts'
import { PRIORITIES } from '../../task.ts'
import { type Entry, lastScoreAt, ringMsOf } from './entry.ts'

/** Entries with the scores that they had in their lanes, in the order in which they were taken. */
export interface Taken {
  readonly members: Entry[]
  readonly scores: number[]
  /** The size of the bodies. No more entries are taken when it has reached `BATCH_BYTES_MAX`. */
  bytes: number
}

/** The waiting tasks of a cell: one lane for each of the three priorities, and one lane for suspects. */
export class Lanes {
  readonly #lanes = { high: new Heap<Entry>(), normal: new Heap<Entry>(), low: new Heap<Entry>() }
  readonly #suspects = new Heap<Entry>()

  all(): Heap<Entry>[] {
    return [...Object.values(this.#lanes), this.#suspects]
  }

  add(entry: Entry, score: number): void {
    this.#of(entry).push(entry, score)
  }

  remove(entry: Entry): void {
    this.#of(entry).remove(entry)
  }

  scoreOf(entry: Entry): number {
    return this.#of(entry).scoreOf(entry)
  }

  /** Returns the next ring of the three priorities. Infinity if no task waits. */
  nextRingMs(): number {
    const { high, normal, low } = this.#lanes
    return ringMsOf(Math.min(high.headScore(), normal.headScore(), low.headScore()))
  }

  nextSuspectMs(): number {
    return ringMsOf(this.#suspects.headScore())
  }

  /**
   * Takes at most `limit` due tasks: first high, then normal, then low priority. With `wholePrefixes`, the limit does
   * not split tasks with the same prefix and ring time, unless no other task was taken.
   */
  take(limit: number, nowMs: number, wholePrefixes: boolean): Taken {
    const taken: Taken = { members: [], scores: [], bytes: 0 }
    for (const priority of PRIORITIES) {
      takeDue(this.#lanes[priority], limit, nowMs, taken)
      if (wholePrefixes && isFull(taken, limit)) uncut(this.#lanes[priority], taken)
    }
    return taken
  }

  /**
   * Takes at most one suspect, even if the limit is higher: a suspect may crash the process, and other tasks with it.
   */
  takeSuspect(limit: number, nowMs: number): Taken {
    const taken: Taken = { members: [], scores: [], bytes: 0 }
    takeDue(this.#suspects, Math.min(1, limit), nowMs, taken)
    return taken
  }

  #of(entry: Entry): Heap<Entry> {
    return entry.suspect ? this.#suspects : this.#lanes[entry.priority]
  }
}

function takeDue(lane: Heap<Entry>, limit: number, nowMs: number, taken: Taken): void {
  const lastDueScore = lastScoreAt(nowMs)
  while (!isFull(taken, limit)) {
    const score = lane.headScore()
    if (score > lastDueScore) return
    const entry = lane.pop() as Entry
    taken.members.push(entry)
    taken.scores.push(score)
    taken.bytes += byteSizeOf(entry.body)
  }
}

function isFull({ members, bytes }: Taken, limit: number): boolean {
  return members.length >= limit || bytes >= BATCH_BYTES_MAX
}

/**
 * If a limit splits tasks with the same prefix and ring time, puts these tasks back, unless no other task was taken.
 */
function uncut(lane: Heap<Entry>, taken: Taken): void {
  const { members, scores } = taken
  const next = lane.head()
  if (next === undefined) return
  const prefix = prefixOf(next.key)
  const ringMs = ringMsOf(lane.headScore())
  let keep = members.length
  while (keep > 0 && ringMsOf(scores[keep - 1] as number) === ringMs && isOf(prefix, members[keep - 1], next))
    keep--
  if (keep === 0) return
  for (let i = keep; i < members.length; i++) {
    const entry = members[i] as Entry
    lane.push(entry, scores[i] as number)
    taken.bytes -= byteSizeOf(entry.body)
  }
  members.length = keep
  scores.length = keep
}

function isOf(prefix: string, entry: Entry | undefined, next: Entry): boolean {
  return entry !== undefined && entry.priority === next.priority && prefixOf(entry.key) === prefix
}
