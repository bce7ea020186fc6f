import type { Ledger, LedgerSettled } from '../ledger.ts'
import { isNear } from './loader.ts'
import type { CellAddress, Place, Settlement } from '../timetable.ts'
import type { Hint, HintTable } from '../hint-table.ts'
import type { TopicFillers } from './topic-fillers.ts'

const DONE = { kind: 'done' } as const
const RETURN = { kind: 'return' } as const

/** So much may be on its way to a shared timetable before a caller has to wait for it. */
const UNTOLD_MAX = 50_000

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
 * Tells the timetable what the ledger has decided. The ledger has it: a timetable that was not told is mended by the
 * sweeper, and nobody's call fails for it.
 */
export class HintWriter {
  readonly #parts: HintWriterParts
  readonly #tellings = new Set<Promise<void>>()
  #untold = 0

  constructor(parts: HintWriterParts) {
    this.#parts = parts
  }

  /** Resolves when all that is on its way has arrived. */
  async arrived(): Promise<void> {
    await Promise.all(this.#tellings)
  }

  /** After a write: what rings soon goes into the timetable, what rings later must not be there any more. */
  async place(topic: string, written: readonly Written[]): Promise<void> {
    if (!this.isRungHere(topic)) return
    const near: Hint[] = []
    const far: Hint[] = []
    for (const { hint, outcome } of written) {
      if (hint === null) continue
      if (this.isNear(topic, hint)) near.push(hint)
      // What is new cannot be there.
      else if (outcome !== 'created') far.push(hint)
    }
    await this.onTheWay(near.length + far.length, this.#putOrDrop(topic, near, far))
  }

  /** Under way: what rings soon, and what must not be there any more. */
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
   * A caller is answered when the ledger has it: a shared timetable hears of it on the way. Only when too much is on the
   * way is it waited for.
   */
  async onTheWay(count: number, tellings: readonly Promise<unknown>[]): Promise<void> {
    if (tellings.length === 0) return
    const told = this.all(tellings)
    if (!this.#parts.table.isShared) return told
    this.#untold += count
    const done = told.finally(() => {
      this.#untold -= count
      this.#tellings.delete(done)
    })
    this.#tellings.add(done)
    if (this.#untold > UNTOLD_MAX) await done
  }

  /** The timetable of this process has what others' timetables have, or it is rung by here. */
  isRungHere(topic: string): boolean {
    return this.#parts.table.isShared || this.#parts.topicFillers.has(topic)
  }

  /** It belongs into the timetable now. */
  isNear(topic: string, hint: Hint): boolean {
    const filler = this.#parts.topicFillers.fillerOf(topic)
    if (filler !== undefined) return filler.includes(hint)
    const { ledger, table, residentMs } = this.#parts
    return !table.isShared || isNear(hint, ledger.clockMs(), residentMs(topic))
  }

  /** A caller's transaction is over: what it wrote, if it did, is told to the timetable. */
  async catchUp(topic: string, places: readonly Place[]): Promise<void> {
    if (!this.isRungHere(topic)) return
    const hints = await this.#parts.ledger.hints(topic, places)
    const gone = places.filter((_, i) => hints[i] === null)
    const near = hints.filter((hint) => hint !== null && this.isNear(topic, hint)) as Hint[]
    await this.told(this.#parts.table.cancel(topic, gone))
    await this.told(this.#parts.table.put(topic, near, 'lower'))
  }

  /** Never rejects. */
  async told(telling: Promise<unknown>): Promise<void> {
    await telling.catch((error: unknown) => this.#parts.onError(error))
  }

  /** All called before any is waited for: a later write of the same commit must not get in between. */
  async all(tellings: readonly Promise<unknown>[]): Promise<void> {
    await Promise.all(tellings.map((telling) => this.told(telling)))
  }

  /** Claims of a cell have ended as the ledger says; what is to ring again, rings again. */
  async settled(
    at: CellAddress,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ): Promise<void> {
    const told = settlements.map((one, i) => afterwards(one, answers[i]))
    const again = answers.flatMap(({ hint }, i) =>
      hint === null || settlements[i]?.outcome.kind === 'return' ? [] : [hint],
    )
    await this.all([this.#parts.table.settle(at, told), ...this.putting(at.topic, again)])
  }

  /**
   * Puts back what a client returned. If its lease was extended by key, its hint waits for the end of that lease and no
   * claim of the table holds it, so `settled` alone would leave it there.
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

/** What the timetable is told of an outcome. By the ledger's word, not by the holder's. */
function afterwards({ key, stamp, outcome }: Settlement, settled: LedgerSettled | undefined): Settlement {
  // Stale: whatever the task is now, let it ring, and the ledger will say.
  const isBack = settled?.answer !== 'settled' || (outcome.kind === 'return' && settled.hint !== null)
  return { key, stamp, outcome: isBack ? RETURN : DONE }
}
