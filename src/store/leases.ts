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
 * Extends claims, hands them out to clients, and settles them. Extending and settling write to the ledger first, which
 * decides whether the claim is still valid. Then they update the hint table.
 */
export class Leases {
  readonly #parts: LeasesParts

  constructor(parts: LeasesParts) {
    this.#parts = parts
  }

  /** Extends the leases of all tasks of a claim of this process. Returns 'stale' if no task is held any more. */
  async extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    const { ledger, clock, held, table, hintWriter } = this.#parts
    const claim = held.of(at, req)
    if (claim === undefined) return 'stale'
    const askedMs = clock.monotonicNow()
    const places = placesOfClaim(claim)
    // If the answer is lost, the ledger may have the old lease or the new lease. So assume the lease that ends earlier.
    claim.sureUntilMs = Math.min(claim.sureUntilMs, askedMs + leaseMs)
    claim.extending++
    const extension = ledger.extend(at.topic, places, claim.stamp, leaseMs)
    const answers = await extension.finally(() => claim.extending--)
    if (answers.every((answer) => answer === 'stale')) return 'stale'
    const keys = places.map(({ key }) => key)
    held.extended(claim, keys, answers, askedMs, leaseMs)
    // No task was extended, because transactions have locked the tasks that are still held. The caller retries until
    // the lease ends.
    if (!answers.includes('extended'))
      throw new TocsinError(
        'ledger-unavailable',
        'extend: another transaction has locked this task; its lease could not be extended yet',
      )
    if (!claim.isParted) await hintWriter.told(table.extend(at, req, leaseMs + TABLE_LEASE_EXTRA_MS))
    return 'extended'
  }

  /**
   * Extends some keys of a claim that any process made. The hint table has one lease for the whole claim. This lease is
   * extended only if all keys were extended. Otherwise one client that extends its key would keep all keys of the claim
   * claimed in the table, even keys that other clients no longer extend. If the table's lease is not extended, it ends,
   * and all keys of the claim ring. The ledger refuses the keys that are still leased, and these keys ring again at the
   * end of their own leases.
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
    // This process does not track the claim: another process made it, or its lease ended here before this extension.
    if (claim?.stamp !== stamp) return asking()
    claim.extending++
    const answers = await asking().finally(() => claim.extending--)
    if (held.extendedKeys(claim, keys, answers, leaseMs))
      await hintWriter.told(table.extend(at, req, leaseMs + TABLE_LEASE_EXTRA_MS))
    return answers
  }

  /**
   * Marks tasks as handed out to a client. The client may settle a task through another process, which does not update
   * the hint table of this process. The table would then keep the key claimed until its lease ends, although the task
   * waits again. So a table that is filled by polling removes the key now, and a later poll adds the key again.
   */
  async handOut(at: CellAddress, stamp: number, keys: readonly string[]): Promise<void> {
    const { held, topicFillers, table, hintWriter } = this.#parts
    held.handedOut(at, stamp)
    if (!topicFillers.isPolling) return
    const settlements = keys.map((key) => ({ key, stamp, outcome: DONE }))
    await hintWriter.told(table.settle(at, settlements))
  }

  /**
   * Settles claims in the ledger, then in the table. If the process dies in between, the key rings once more, and the
   * ledger decides again. `session` identifies the process that made the claims. It comes from the token of an HTTP
   * client. Null for claims that a consumer in this process made.
   */
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
      // Written out, because copying the object took 3 % of a burst.
      settlements.map(({ key, stamp, outcome }) => ({ key, cell, stamp, outcome })),
      session ?? own,
    )
    // A claim of another process may have the same stamp as a claim of this process. Do not mark the latter as settled.
    if (session === null || session === own) await this.settled(at, settlements, answers)
    else if (hintWriter.isRungHere(topic)) await hintWriter.settled(at, settlements, answers)
    if (session !== null) await hintWriter.returned(topic, settlements, answers)
    return answers.map(({ answer }) => answer)
  }

  /** Updates the table and the held claims of this process after its claims were settled in the ledger. */
  async settled(
    at: CellAddress,
    settlements: readonly Settlement[],
    answers: readonly LedgerSettled[],
  ): Promise<void> {
    await this.#parts.hintWriter.settled(at, settlements, answers)
    this.#parts.held.settled(at, settlements)
  }
}
