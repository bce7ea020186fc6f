import type { Ledger, LedgerSettled } from '../ledger.ts'
import { isNear } from './loader.ts'
import type { CellAddress, Place, Settlement } from '../timetable.ts'
import type { Hint, HintTable } from '../hint-table.ts'
import type { TopicFillers } from './topic-fillers.ts'

const DONE = { kind: 'done' } as const
const RETURN = { kind: 'return' } as const

/** If more than this number of hints are being written to a shared table, callers wait for their writes. */
const UNDER_WAY_MAX = 50_000

interface Written {
  readonly hint: Hint | null
  readonly outcome?: string
}

export interface HintWriterParts {
  readonly ledger: Ledger
  readonly table: HintTable
  readonly topicFillers: TopicFillers
  readonly residentMs: (topic: string) => number
  readonly onError: (error: unknown) => void
}

/**
 * Writes hints to the table after the ledger has committed. If a write to the table fails, the error is logged, and the
 * caller's call still succeeds: the task is in the ledger, and the sweeper or the loader adds its hint later.
 */
export class HintWriter {
  readonly #parts: HintWriterParts
  readonly #underWay = new Set<Promise<void>>()
  #underWayCount = 0

  constructor(parts: HintWriterParts) {
    this.#parts = parts
  }

  /** Resolves when all writes that `onTheWay` took over have ended. */
  async drained(): Promise<void> {
    await Promise.all(this.#underWay)
  }

  /** Puts hints that ring soon into the table, and drops hints that ring later from the table. */
  async place(topic: string, written: readonly Written[]): Promise<void> {
    if (!this.isRungHere(topic)) return
    const near: Hint[] = []
    const far: Hint[] = []
    for (const { hint, outcome } of written) {
      if (hint === null) continue
      if (this.isNear(topic, hint)) near.push(hint)
      // For a new task, there is nothing to drop: the table has no hint of it.
      else if (outcome !== 'created') far.push(hint)
    }
    if (near.length === 0 || far.length === 0)
      return this.onTheWay(near.length + far.length, this.#putOrDrop(topic, near, far))
    // If a call has written a key twice, only its last hint counts: puts and drops are separate calls to the table.
    const last = new Map(written.map(({ hint }) => [hint?.key, hint]))
    const isLast = (hint: Hint) => last.get(hint.key) === hint
    await this.onTheWay(
      near.length + far.length,
      this.#putOrDrop(topic, near.filter(isLast), far.filter(isLast)),
    )
  }

  /** Starts to put hints that ring soon into the table, and to drop hints that ring later. Returns these writes. */
  putting(topic: string, hints: readonly Hint[]): Promise<unknown>[] {
    const near = hints.filter((hint) => this.isNear(topic, hint))
    const isNear = new Set(near)
    return this.#putOrDrop(
      topic,
      near,
      hints.filter((hint) => !isNear.has(hint)),
    )
  }

  /**
   * Takes over writes that the caller has started: `tellings`, with `count` hints. If the table is in this process,
   * waits for the writes. If the table is shared, returns at once, unless more than `UNDER_WAY_MAX` hints are being
   * written. `drained` waits for the writes that go on after the return.
   */
  async onTheWay(count: number, tellings: readonly Promise<unknown>[]): Promise<void> {
    if (tellings.length === 0) return
    const told = this.all(tellings)
    if (!this.#parts.table.isShared) return told
    this.#underWayCount += count
    const done = told.finally(() => {
      this.#underWayCount -= count
      this.#underWay.delete(done)
    })
    this.#underWay.add(done)
    if (this.#underWayCount > UNDER_WAY_MAX) await done
  }

  /** Returns true if the table needs hints of the topic: the table is shared, or this process consumes the topic. */
  isRungHere(topic: string): boolean {
    return this.#parts.table.isShared || this.#parts.topicFillers.has(topic)
  }

  /** Returns true if the hint rings soon enough to be in the table. */
  isNear(topic: string, hint: Hint): boolean {
    const filler = this.#parts.topicFillers.fillerOf(topic)
    if (filler !== undefined) return filler.includes(hint)
    const { ledger, table, residentMs } = this.#parts
    return !table.isShared || isNear(hint, ledger.clockMs(), residentMs(topic))
  }

  /** Updates the hints of places that a caller's transaction may have written. Called after the transaction ended. */
  async catchUp(topic: string, places: readonly Place[]): Promise<void> {
    if (!this.isRungHere(topic)) return
    const hints = await this.#parts.ledger.hints(topic, places)
    const gone = places.filter((_, i) => hints[i] === null)
    const near = hints.filter((hint) => hint !== null && this.isNear(topic, hint)) as Hint[]
    await this.told(this.#parts.table.cancel(topic, gone))
    await this.told(this.#parts.table.put(topic, near, 'lower'))
  }

  /** Waits for one write. Reports an error to `onError`, and never rejects. */
  async told(telling: Promise<unknown>): Promise<void> {
    await telling.catch((error: unknown) => this.#parts.onError(error))
  }

  /**
   * Waits for several writes. The caller starts all writes before it awaits any: between two writes of one commit, no
   * other write must be sent.
   */
  async all(tellings: readonly Promise<unknown>[]): Promise<void> {
    await Promise.all(tellings.map((telling) => this.told(telling)))
  }

  /** Updates the table after claims of a cell were settled in the ledger. */
  async settled(
    at: CellAddress,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ): Promise<void> {
    const told = settlements.map((one, i) => afterwards(one, answers[i]))
    const again: Hint[] = []
    for (let i = 0; i < answers.length; i++) {
      const hint = answers[i]?.hint ?? null
      if (hint !== null && settlements[i]?.outcome.kind !== 'return') again.push(hint)
    }
    await this.all([this.#parts.table.settle(at, told), ...this.putting(at.topic, again)])
  }

  /**
   * Makes tasks that a client returned ring again at once. `settled` does this only for hints that are claimed in the
   * table. But if the client extended single keys, the table's lease may have ended earlier than the ledger's. Then the
   * hint waits in the table, and would ring only at the end of the extended lease.
   */
  async returned(
    topic: string,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ): Promise<void> {
    if (!this.isRungHere(topic)) return
    const hints = answers.flatMap(({ hint }, i) =>
      hint !== null && settlements[i]?.outcome.kind === 'return' && this.isNear(topic, hint) ? [hint] : [],
    )
    if (hints.length > 0) await this.told(this.#parts.table.put(topic, hints, 'lower'))
  }

  #putOrDrop(topic: string, near: readonly Hint[], far: readonly Hint[]): Promise<unknown>[] {
    const tellings: Promise<unknown>[] = []
    if (near.length > 0) tellings.push(this.#parts.table.put(topic, near, 'set'))
    if (far.length > 0) tellings.push(this.#parts.table.drop(topic, far))
    return tellings
  }
}

/** Returns the settlement for the hint table, after the ledger has answered the caller's settlement of a key. */
function afterwards({ key, stamp, outcome }: Settlement, settled: LedgerSettled | undefined): Settlement {
  // Normally the hint is removed (DONE). It rings again (RETURN) if the caller returned the task. It also rings again
  // if the ledger answered 'stale': the task may have changed, so the ledger has to decide on a new claim.
  const isBack = settled?.answer !== 'settled' || (outcome.kind === 'return' && settled.hint !== null)
  return { key, stamp, outcome: isBack ? RETURN : DONE }
}
