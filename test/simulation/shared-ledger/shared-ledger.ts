/**
 * A ledger in memory that stands for PostgreSQL where several processes are simulated in one: they share one truth, as
 * sessions of one server. Whatever is asked of it has happened when the call returns; nothing in it waits, and nothing is
 * by chance.
 *
 * What differs from the real one: who meets a lock is refused at once, where PostgreSQL waits for a while first; and leases
 * go by a clock of the server that never steps, where PostgreSQL has only the one that may.
 */
import type { Place } from '../../../src/timetable.ts'
import { DEAD } from '../../../src/ledgers/rows.ts'
import { Engine, type ServerClock, TELL_WITHIN_MS } from './engine.ts'
import type { EndedRow, LiveRow } from './rows.ts'
import { SharedSession } from './shared-session.ts'
import { SharedTx } from './shared-tx.ts'
import { Transaction } from './transaction.ts'
import type { LostClaim } from './write-ahead-log.ts'

export { SharedSession } from './shared-session.ts'
export { SharedTx } from './shared-tx.ts'
export type { ServerClock } from './engine.ts'

export interface Snapshot {
  /** In the order of their rings. */
  readonly live: readonly LiveRow[]
  /** By their states, and in the order in which they ended. */
  readonly ended: readonly EndedRow[]
  readonly committed: readonly Place[]
}

/** The server: its data outlive sessions. */
export class SharedLedger {
  readonly #engine: Engine
  #sessions = 0

  constructor(clock: ServerClock) {
    this.#engine = new Engine(clock)
  }

  /**
   * A process opens it. Who listens is told of what it writes that rings within `tellWithinMs`; where all processes share
   * a timetable besides, no notification is needed, and it is 0.
   */
  connect({ tellWithinMs = TELL_WITHIN_MS } = {}): SharedSession {
    return new SharedSession(this.#engine, ++this.#sessions, tellWithinMs)
  }

  /** A caller's transaction, for `{ tx }`. */
  begin(): SharedTx {
    return new SharedTx(new Transaction(this.#engine))
  }

  /** It goes down and comes back: what was open is undone. Sessions and what they hold outlive it. */
  restart(): void {
    for (const transaction of this.#engine.open) transaction.rollback()
  }

  /**
   * It crashes and comes back: also lost is what was committed in the last `lostMs` without waiting for the disk. Returns the
   * claims that never happened.
   */
  crash(lostMs: number): LostClaim[] {
    this.restart()
    return this.#engine.log.crash(this.#engine.moment().steadyMs, lostMs)
  }

  /** What waits or is held, in the order of its rings. */
  live(topic: string): readonly LiveRow[] {
    const { byRing } = this.#engine.table(topic)
    return byRing.slice(0, byRing.size)
  }

  /** What is committed of a topic, for the checks. */
  snapshot(topic: string): Snapshot {
    const table = this.#engine.table(topic)
    const states = Array.from({ length: DEAD }, (_, n) => table.byEnd(n + 1))
    return {
      live: this.live(topic),
      ended: states.flatMap((rows) => rows.slice(0, rows.size)),
      committed: [...table.committed],
    }
  }

  /** Rows and keys that open transactions hold. */
  get lockCount(): number {
    return this.#engine.locks.names.length
  }
}
