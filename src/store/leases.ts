import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { HintTable } from '../hint-table.ts'
import type { ExtendAnswer, Ledger, LedgerSettled } from '../ledger.ts'
import type { ClaimToken } from '../store.ts'
import type { CellAddress, SettleAnswer, Settlement } from '../timetable.ts'
import { type HeldClaims, placesOfClaim } from './held-claims.ts'
import type { HintWriter } from './hint-writer.ts'
import { TABLE_LEASE_EXTRA_MS } from './ledger-claims.ts'
import type { TopicFillers } from './topic-fillers.ts'

const DONE = { kind: 'done' } as const

export interface LeasesParts {
  readonly ledger: Ledger
  readonly table: HintTable
  readonly held: HeldClaims
  readonly hintWriter: HintWriter
  readonly topicFillers: TopicFillers
  readonly clock: Clock
}

/**
 * What happens to a claim after it was made: it is extended, handed out to a client, settled. The ledger is written first,
 * because only its answer counts; then the hint table is updated.
 */
export class Leases {
  readonly #parts: LeasesParts

  constructor(parts: LeasesParts) {
    this.#parts = parts
  }

  /** Extends all tasks of a claim of this process. */
  async extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    const { ledger, clock, held, table, hintWriter } = this.#parts
    const claim = held.of(at, req)
    if (claim === undefined) return 'stale'
    const askedMs = clock.monotonicNow()
    const places = placesOfClaim(claim)
    // If the new lease is shorter, it may be in force in the ledger although the answer is lost.
    claim.sureUntilMs = Math.min(claim.sureUntilMs, askedMs + leaseMs)
    claim.extending++
    const extension = ledger.extend(at.topic, places, claim.stamp, leaseMs)
    const answers = await extension.finally(() => claim.extending--)
    if (answers.every((answer) => answer === 'stale')) return 'stale'
    const keys = places.map(({ key }) => key)
    held.extended(claim, keys, answers, askedMs, leaseMs)
    // The claim is not lost: the caller retries while it trusts the lease.
    if (!answers.includes('extended'))
      throw new TocsinError(
        'ledger-unavailable',
        'extend: another transaction has locked this task; its lease could not be extended yet',
      )
    if (!claim.isParted) await hintWriter.told(table.extend(at, req, leaseMs + TABLE_LEASE_EXTRA_MS))
    return 'extended'
  }

  /**
   * Extends some keys of a claim, whichever process made it. The table has one lease for the whole claim and is updated
   * only if all of its keys were extended: otherwise a key that its client has given up would be held there for as long
   * as another one is extended. So the table's lease ends; the keys still leased ring, are refused by the ledger, and
   * ring again at the end of their own leases.
   */
  async extendKeys(
    { session, req, stamp }: ClaimToken,
    at: CellAddress,
    keys: readonly string[],
    leaseMs: number,
  ): Promise<ExtendAnswer[]> {
    const { ledger, held, table, hintWriter } = this.#parts
    const places = keys.map((key) => ({ key, cell: at.cell }))
    const asking = () => ledger.extend(at.topic, places, stamp, leaseMs, session)
    const claim = session === ledger.sessionOf(at.cell) ? held.of(at, req) : undefined
    // Claimed by another process, or lost here and extended through another one: this process tracks no lease of it.
    if (claim?.stamp !== stamp) return asking()
    claim.extending++
    const answers = await asking().finally(() => claim.extending--)
    if (held.extendedKeys(claim, keys, answers, leaseMs))
      await hintWriter.told(table.extend(at, req, leaseMs + TABLE_LEASE_EXTRA_MS))
    return answers
  }

  /**
   * A table of this process is not updated when a task is settled through another process: it would keep the task as
   * claimed until its lease ends, although the task waits again. So the table forgets the task, and polling the ledger
   * brings it back.
   */
  async handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void> {
    const { held, topicFillers, table, hintWriter } = this.#parts
    held.handedOut(at, stamp)
    if (!topicFillers.isPolling) return
    const settlements = keys.map((key) => ({ key, stamp, outcome: DONE }))
    await hintWriter.told(table.settle(at, settlements))
  }

  /** If the process dies before the table is updated, the key rings once more and is refused. */
  async settle(
    at: CellAddress,
    settlements: readonly Settlement[],
    session: number | null,
  ): Promise<SettleAnswer[]> {
    const { ledger, hintWriter } = this.#parts
    const { topic, cell } = at
    const own = ledger.sessionOf(cell)
    const answers = await ledger.settle(
      topic,
      settlements.map((one) => ({ ...one, cell })),
      session ?? own,
    )
    // A claim of another process may have the same stamp as one of ours, which must not be taken for settled.
    if (session === null || session === own) await this.settled(at, settlements, answers)
    else if (hintWriter.isRungHere(topic)) await hintWriter.settled(at, settlements, answers)
    if (session !== null) await hintWriter.returned(topic, settlements, answers)
    return answers.map(({ answer }) => answer)
  }

  /** Updates the table, and what this process holds, after claims of its own were settled in the ledger. */
  async settled(
    at: CellAddress,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ): Promise<void> {
    await this.#parts.hintWriter.settled(at, settlements, answers)
    for (const { key, stamp } of settlements) this.#parts.held.settled(at, stamp, key)
  }
}
