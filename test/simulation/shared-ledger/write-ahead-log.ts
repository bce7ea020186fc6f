import type { Place } from '../../../src/timetable.ts'

/** A claim of one task that a crash has undone. */
export interface LostClaim extends Place {
  readonly topic: string
  readonly session: number
  readonly stamp: number
}

interface Unwritten {
  readonly atMs: number
  readonly undo: () => void
  readonly claims: readonly LostClaim[]
}

/** What did not wait for the disk is on it after this time: three times PostgreSQL's wal_writer_delay. */
const WRITTEN_AFTER_MS = 600

/**
 * What is committed and not yet on disk. As in PostgreSQL, the log is written in the order of the commits: a commit that
 * waits for the disk takes all before it along, so a crash loses the last ones only.
 */
export class WriteAheadLog {
  #unwritten: Unwritten[] = []

  /** A commit that waited for the disk. */
  written(): void {
    this.#unwritten = []
  }

  /** A commit that did not wait. */
  unwritten(atMs: number, undo: () => void, claims: readonly LostClaim[]): void {
    this.#unwritten.push({ atMs, undo, claims })
  }

  /** The server crashed, and what it wrote to the log in the last `lostMs` is not on disk. Returns the claims among it. */
  crash(nowMs: number, lostMs: number): LostClaim[] {
    const lost = this.#unwritten.filter(({ atMs }) => nowMs - atMs <= Math.min(lostMs, WRITTEN_AFTER_MS))
    this.#unwritten = []
    for (const { undo } of lost.toReversed()) undo()
    return lost.flatMap(({ claims }) => claims)
  }
}
