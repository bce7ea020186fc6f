import Database from 'better-sqlite3'
import type { Board } from '../../src/board.ts'
import type { Clock } from '../../src/clock.ts'
import { MemoryBoard } from '../../src/boards/memory-board.ts'
import { TocsinError } from '../../src/errors.ts'
import type { RecordClock } from '../../src/lib/record-clock.ts'
import type { Ledger, LedgerSettings, TransactHandler } from '../../src/ledger.ts'
import { Committer } from '../../src/ledgers/sqlite/committer.ts'
import { SqliteLedger } from '../../src/ledgers/sqlite/ledger.ts'
import { beginSession } from '../../src/ledgers/sqlite/open.ts'
import { Readings } from '../../src/ledgers/sqlite/readings.ts'
import { CallerTransactions } from '../../src/ledgers/sqlite/caller-transactions.ts'
import { Transitions } from '../../src/ledgers/sqlite/transitions.ts'
import type { TaskStore } from '../../src/store.ts'
import type { Watcher } from '../../src/timetable.ts'
import type { HintTable } from '../../src/hint-table.ts'
import type { Tx } from '../../src/values/tx.ts'
import type { Chance } from './chance.ts'
import { ClaimHolders } from './claim-holders.ts'
import type { Link } from './link.ts'
import {
  BOARD_METHODS,
  HINT_METHODS,
  LEDGER_METHODS,
  TIMETABLE_METHODS,
  TRANSACTION_METHODS,
} from './methods.ts'
import type { Plan } from './plan.ts'
import { ProcessClock } from './process-clock.ts'
import { type Beatings, type Looks, recordedBoard } from './recorded-board.ts'
import { type OpenTransaction, recordedLedger } from './recorded-ledger.ts'
import { recordedTimetable, type Witness } from './recorded-timetable.ts'
import type { Recorder } from './recorder.ts'
import { type Methods, remote } from './remote.ts'
import { SharedLedger, type SharedTx } from './shared-ledger/shared-ledger.ts'
import { SharedTable } from './shared-table.ts'
import type { WorldClock } from './world-clock.ts'

/** A process that calls, as the servers see it. */
export interface Client {
  readonly life: string
  readonly clock: ProcessClock
  readonly tableLink: Link
  readonly ledgerLink: Link
  /** Which moment the ledger's clock was last heard to have reached. */
  readonly ledgerClock: RecordClock
  /** When the process dies, this goes with it. */
  readonly onDeath: (undo: () => void) => void
  /** The line was bad, and is good again: what was said meanwhile is lost. */
  readonly onReturn: (server: 'timetable' | 'ledger', hear: () => void) => void
}

const CALL_TIMEOUT_MS = 1_000

export const TOPIC = 'orders'

/** Everything that outlives the processes of a run. */
export class Servers {
  readonly tableClock: ProcessClock
  readonly ledgerClock: ProcessClock
  readonly table: SharedTable
  readonly ledger: SharedLedger
  /** Where the truth lies: it is not lost, and cannot be rolled back. */
  readonly board: MemoryBoard
  readonly #world: WorldClock
  readonly #recorder: Recorder
  readonly #claimHolders = new ClaimHolders()
  readonly #beatings: Beatings = new Map()
  readonly #looks: Looks = new Map()
  readonly #transactions = new WeakMap<object, OpenTransaction>()
  readonly #file: Database.Database | null
  #transactionCount = 0

  constructor(plan: Plan, world: WorldClock, recorder: Recorder, chance: Chance) {
    this.#world = world
    this.#recorder = recorder
    this.tableClock = new ProcessClock(world, plan.serverSkewMs.timetable)
    this.ledgerClock = new ProcessClock(world, plan.serverSkewMs.ledger)
    const remembers = plan.faults.some(({ kind }) => kind === 'rollback')
    this.table = new SharedTable(this.tableClock, chance.fork('timetable'), remembers, plan.lookMs)
    this.ledger = new SharedLedger(this.ledgerClock)
    const boardClock = plan.composition === 'redis' ? this.tableClock : this.ledgerClock
    this.board = new MemoryBoard(byWallClock(boardClock), true)
    this.#file = plan.composition === 'embedded' ? new Database(':memory:') : null
  }

  close(): void {
    this.#file?.close()
  }

  /** A caller's transaction. What it writes is history when it commits. */
  begin(): { readonly tx: SharedTx; readonly number: number; commit(): void } {
    const tx = this.ledger.begin()
    const open = this.#transactionOf(tx)
    const commit = () => {
      tx.commit()
      for (const tell of open.told) tell()
    }
    return { tx, number: open.number, commit }
  }

  /** The ledger crashes, and loses what it wrote in the last `lostMs` without waiting for the disk. */
  crashLedger(lostMs: number): void {
    for (const { key, cell, session, stamp } of this.ledger.crash(lostMs)) {
      this.#claimHolders.freed(key)
      this.#recorder.tell({ kind: 'forgotten', key, token: `s${session}/${cell}/${stamp}` })
    }
  }

  /** The timetable alone: it is the truth. */
  timetableFor(client: Client): TaskStore {
    const recorded = recordedTimetable(this.table.face, this.#witness(client.life))
    return remote(recorded, client.tableLink, TIMETABLE_METHODS, {
      watch: (topic, watcher) => this.#watch(client, topic, watcher),
      close: async () => {},
    })
  }

  hintsFor(client: Client): HintTable {
    return remote<HintTable>(this.table.face, client.tableLink, HINT_METHODS, {
      watch: (topic, watcher) => this.#watch(client, topic, watcher),
      close: async () => {},
    })
  }

  /** `isAlone`: no timetable tells the processes of what is written. */
  ledgerFor(client: Client, isAlone: boolean): Ledger {
    const { ledgerLink: link, ledgerClock } = client
    const session = this.ledger.connect(isAlone ? {} : { tellWithinMs: 0 })
    client.onDeath(() => session.abandon())
    const recorded = recordedLedger(session, `s${session.session}`, this.#witness(client.life), (tx) =>
      this.#transactionOf(tx),
    )
    ledgerClock.heard(this.ledgerClock.now())
    const here: Partial<Ledger> = {
      clockMs: () => ledgerClock.now(),
      sessionOf: () => session.session,
      within: (tx) => remote(recorded.within(tx), link, TRANSACTION_METHODS, {}),
      listen: (onNear) => {
        const unlisten = session.listen((topic) => link.tell(() => onNear(topic)))
        client.onReturn('ledger', () => onNear(null))
        client.onDeath(() => unlisten())
        return () => unlisten()
      },
      transact: async (work, signal) => {
        await link.call(
          'begin',
          'repeatable',
          () => [],
          async () => {},
        )
        const isCommitted = await (recorded.transact as TransactHandler)(
          async ({ tx, settle, hold }) =>
            work({
              tx,
              settle: (...args) =>
                link.call(
                  'settle',
                  'repeatable',
                  () => [],
                  () => settle(...args),
                ),
              hold: (...args) =>
                link.call(
                  'hold',
                  'repeatable',
                  () => [],
                  () => hold(...args),
                ),
            }),
          signal,
        )
        // Committed or not, its answer has to come back.
        await link.call(
          'commit',
          'repeatable',
          () => [],
          async () => {},
        )
        return isCommitted
      },
      close: async () => session.abandon(),
    }
    return remote(recorded, link, LEDGER_METHODS, here)
  }

  /** The board of all processes, on the line to the server that has the truth. */
  boardFor(client: Client, server: 'timetable' | 'ledger'): Board {
    const link = server === 'ledger' ? client.ledgerLink : client.tableLink
    return remote<Board>(this.#recordedBoard(this.board, client), link, BOARD_METHODS, {
      listen: (onChange) => {
        const unlisten = this.board.listen(() => link.tell(onChange))
        client.onReturn(server, onChange)
        client.onDeath(unlisten)
        return unlisten
      },
      close: async () => {},
    })
  }

  /** A file, of which the process has the only connection; what was held before is free now. */
  embeddedFor(client: Client): { readonly ledger: Ledger; readonly board: Board; readonly truth: Board } {
    const file = this.#file as Database.Database
    const { clock } = client
    const where = 'the ledger'
    const session = beginSession(file, where, true)
    const committer = new Committer(file, new Transitions(file, session), clock, CALL_TIMEOUT_MS, where)
    const topics = new Map<string, () => LedgerSettings>()
    const ledger = new SqliteLedger({
      clock,
      readings: new Readings(file, session),
      writer: committer,
      session,
      transactions: new CallerTransactions(file, ':memory:', session, topics, clock, where),
      topics,
      where,
      close: () => committer.drained(),
    })
    const recorded = recordedLedger(ledger, `s${session}`, this.#witness(client.life), (tx) =>
      this.#transactionOf(tx),
    )
    // A file has no other side: it stands still with its process, and what is under way when that ends has not happened.
    const isThere = new AbortController()
    client.onDeath(() => isThere.abort())
    const close = async () => {
      await recorded.close()
      isThere.abort()
    }
    const { signal } = isThere
    const { ledgerLink } = client
    const board = within(this.#recordedBoard(ledger.board, client), BOARD_METHODS, clock, signal)
    return {
      ledger: remote(within(recorded, LEDGER_METHODS, clock, signal), ledgerLink, LEDGER_METHODS, { close }),
      board: remote(board, ledgerLink, BOARD_METHODS, {}),
      truth: ledger.board,
    }
  }

  /** The storage itself, for the checks at the end. */
  truth(plan: Plan, embedded: Ledger | null): Pick<Ledger, 'get' | 'books'> {
    if (plan.composition === 'redis') return this.table.face
    return embedded ?? this.ledger.connect()
  }

  #witness(life: string): Witness {
    return { recorder: this.#recorder, world: this.#world, claimHolders: this.#claimHolders, life }
  }

  #recordedBoard(board: Board, { life }: Client): Board {
    const beatings = this.#beatings
    return recordedBoard(board, {
      recorder: this.#recorder,
      world: this.#world,
      beatings,
      looks: this.#looks,
      topic: TOPIC,
      life,
    })
  }

  /** How the history calls a transaction. */
  numberOf(tx: Tx): number {
    return this.#transactionOf(tx).number
  }

  #transactionOf(tx: unknown): OpenTransaction {
    const known = this.#transactions.get(tx as Tx)
    if (known !== undefined) return known
    const open = { number: ++this.#transactionCount, told: [] }
    this.#transactions.set(tx as Tx, open)
    return open
  }

  /** What the server says unasked goes through the line, too. */
  #watch({ tableLink, onDeath, onReturn }: Client, topic: string, watcher: Watcher): () => void {
    const unwatch = this.table.watch(topic, {
      wake: (...args) => tableLink.tell(() => watcher.wake(...args)),
      fence: (...args) => tableLink.tell(() => watcher.fence(...args)),
      limit: (...args) => tableLink.tell(() => watcher.limit(...args)),
      missed: () => tableLink.tell(() => watcher.missed()),
    })
    onDeath(unwatch)
    // As the real adapter does when it is connected again.
    onReturn('timetable', () => {
      watcher.missed()
      for (let cell = 0; cell < 64; cell++) watcher.wake(cell, 0, 0)
    })
    return unwatch
  }
}

/** Inside a process: carried out while it runs, or when it goes on, and never once it is gone. */
function within<T extends object>(server: T, methods: Methods, clock: ProcessClock, gone: AbortSignal): T {
  return new Proxy(server, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      const method = value as (...args: unknown[]) => unknown
      if (methods[String(name)] === undefined) return method.bind(target)
      const closed = () => new TocsinError('ledger-unavailable', 'the ledger was closed')
      return (...args: unknown[]) =>
        new Promise((resolve, reject) =>
          clock.reach(() => {
            if (gone.aborted) reject(closed())
            else Promise.resolve(method.apply(target, args)).then(resolve, reject)
          }),
        )
    },
  })
}

/** Servers say how old something is by a clock that can be set. */
function byWallClock(clock: ProcessClock): Clock {
  return {
    now: () => clock.now(),
    monotonicNow: () => clock.now(),
    after: (delayMs, ring) => clock.after(delayMs, ring),
    turn: () => clock.turn(),
  }
}
