import type { Clock } from '../clock.ts'
import type { Hint, HintTable } from '../hint-table.ts'
import type { ClaimVerdict, Ledger } from '../ledger.ts'
import type { Random } from '../random.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { CellAddress, Claim, ClaimedTask, ClaimRequest, Look, Place } from '../timetable.ts'
import { prefixOf } from '../values/cell.ts'
import { nextSpread, RESCUES_PER_CLAIM } from '../values/rescue.ts'
import type { HeldClaims } from './held-claims.ts'
import type { HintWriter } from './hint-writer.ts'
import type { TopicFillers } from './topic-fillers.ts'

/**
 * How much longer a lease is in the hint table than in the ledger. So when a lease expires, the store first settles the
 * claim in the ledger as lost. Only later would the hint table put the hints of the claim back.
 */
export const TABLE_LEASE_EXTRA_MS = 1_000

const DONE = { kind: 'done' } as const
const RETURN = { kind: 'return' } as const

type Refusal = Exclude<ClaimVerdict, { kind: 'ours' }>

export interface LedgerClaimsParts {
  readonly ledger: Ledger
  readonly table: HintTable
  readonly held: HeldClaims
  readonly hintWriter: HintWriter
  readonly topicFillers: TopicFillers
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

/**
 * Claims the keys that ring. The hint table returns the keys that are due, and the ledger decides which of their tasks
 * are delivered.
 *
 *   table.claim ──▶ keys and stamp ──▶ ledger.claim ──▶ ours: held, delivered
 *                                                  ├──▶ full: returned, rings again at once
 *                                                  └──▶ refused: hint removed, or put back with its next ring time
 */
export class LedgerClaims {
  readonly #parts: LedgerClaimsParts

  constructor(parts: LedgerClaimsParts) {
    this.#parts = parts
  }

  async claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    const { ledger, table, held, hintWriter, topicFillers } = this.#parts
    const lost = await this.#rescue(at)
    const { leaseMs, req, from } = request
    const rung = await table.claim(at, { ...request, leaseMs: leaseMs + TABLE_LEASE_EXTRA_MS })
    if (rung.tasks.length === 0)
      return { ...rung, ...lost, nextLeaseEndInMs: this.#leaseEndInMs(at, rung.nextLeaseEndInMs) }
    const { stamp, nowMs } = rung
    const places = rung.tasks.map(({ key }) => ({ key, cell: at.cell }))
    const askedMs = held.asking(at, req, stamp, leaseMs)
    if (askedMs === null) {
      // Another claim may hold tasks under this stamp. So return the keys: they ring again at once, under a new stamp.
      const settlements = places.map(({ key }) => ({ key, stamp, outcome: RETURN }))
      await hintWriter.told(table.settle(at, settlements))
      return { ...rung, tasks: [], ...lost, nextRingMs: nowMs }
    }
    // If a call fails or its answer is lost, the caller retries with the same request id. The table then returns the same
    // stamp, so the ledger recognises the retry.
    const asked = { stamp, leaseMs, nowMs, alone: from === 'suspects' }
    const verdicts = await ledger.claim(at.topic, asked, places)
    if (request.wholePrefixes) {
      // One more call takes the rest of a group that the size limit has split. The group is split if it is even larger.
      const rest = splitGroup(rung.tasks, verdicts)
      const some = rest.map((i) => places[i] as Place)
      const others = rest.length === 0 ? [] : await ledger.claim(at.topic, asked, some)
      for (const [n, verdict] of others.entries()) verdicts[rest[n] as number] = verdict
    }
    const tasks: ClaimedTask[] = []
    const refused: { key: string; verdict: Refusal }[] = []
    for (let i = 0; i < verdicts.length; i++) {
      const verdict = verdicts[i] as ClaimVerdict
      if (verdict.kind === 'ours') tasks.push(verdict.task)
      else refused.push({ key: places[i]?.key ?? '', verdict })
    }
    const keys = tasks.map(({ key }) => key)
    held.add(at, req, stamp, keys, askedMs, leaseMs)
    // Await nothing unless the ledger refused a key. During a wait, a claimed task may be cancelled or replaced. The
    // caller would ignore the fence, because it does not have the task yet.
    const poisoned =
      refused.length === 0
        ? lost.poisoned
        : [...lost.poisoned, ...(await this.#refuse(at, stamp, nowMs, refused))]
    topicFillers.fillerOf(at.topic)?.nudge()
    const nextLeaseEndInMs = this.#leaseEndInMs(at, rung.nextLeaseEndInMs)
    const next = refused.some(({ verdict }) => verdict.kind === 'full') ? ringingNow(rung, from) : null
    return { ...rung, ...next, tasks, rescued: lost.rescued, poisoned, nextLeaseEndInMs }
  }

  async look(at: CellAddress): Promise<Look> {
    const { ringInMs, leaseEndInMs } = await this.#parts.table.look(at)
    return { ringInMs, leaseEndInMs: this.#leaseEndInMs(at, leaseEndInMs) }
  }

  /** Updates the table for keys that the ledger refused. Returns the keys of tasks that are dead as poison. */
  async #refuse(
    at: CellAddress,
    stamp: number,
    nowMs: number,
    refused: readonly { readonly key: string; readonly verdict: Refusal }[],
  ): Promise<string[]> {
    const { table, hintWriter, logger } = this.#parts
    const settlements = refused.map(({ key, verdict }) => ({
      key,
      stamp,
      outcome: verdict.kind === 'full' ? RETURN : DONE,
    }))
    const again = refused.flatMap(({ key, verdict }) => this.#nextHint(at, key, verdict, nowMs))
    await hintWriter.all([table.settle(at, settlements), ...hintWriter.putting(at.topic, again)])
    for (const { key, verdict } of refused)
      if (verdict.kind === 'damaged') logger.error({ topic: at.topic, key }, verdict.error)
    return refused.flatMap(({ key, verdict }) => (verdict.kind === 'poison' ? [key] : []))
  }

  /** Returns the next hint of a refused key, or [] if the table needs no hint of it. */
  #nextHint({ cell }: CellAddress, key: string, verdict: Refusal, nowMs: number): Hint[] {
    if (verdict.kind === 'later' || verdict.kind === 'suspect') return [verdict.hint]
    // A held task needs no hint if the ledger is polled: a poll after the end of the lease finds the task again.
    if (verdict.kind !== 'held' || this.#parts.topicFillers.isPolling) return []
    const ringMs = Math.ceil(nowMs + verdict.leaseEndInMs)
    return [{ key, cell, ringMs, failures: 0, priority: 'normal', isSuspect: false }]
  }

  /** Settles expired claims of this process as lost. Afterwards their tasks wait again, or are dead as poison. */
  async #rescue(at: CellAddress): Promise<{ rescued: number; poisoned: string[] }> {
    const { ledger, table, held, hintWriter, clock, random } = this.#parts
    const poisoned: string[] = []
    let rescued = 0
    let spread = random.fraction()
    for (const { claim, keys } of held.expired(at, clock.monotonicNow()).slice(0, RESCUES_PER_CLAIM)) {
      const { stamp } = claim
      const lost = keys.map((key) => {
        spread = nextSpread(spread)
        return { key, cell: at.cell, stamp, outcome: { kind: 'lost', spread } as const }
      })
      const answers = await ledger.settle(at.topic, lost)
      held.lost(claim, keys)
      const hints = answers.flatMap(({ hint }) => hint ?? [])
      // Do not drop keys whose answer is 'stale'. Their tasks were replaced, settled just now, or extended through
      // another process, so the table may have newer hints of these keys.
      const gone = lost.filter((_, i) => answers[i]?.answer === 'settled' && answers[i]?.hint === null)
      await hintWriter.all([table.drop(at.topic, gone), ...hintWriter.putting(at.topic, hints)])
      rescued += hints.length
      for (const [i, { poison }] of answers.entries())
        if (poison !== undefined) poisoned.push(lost[i]?.key ?? '')
    }
    return { rescued, poisoned }
  }

  /**
   * Returns the time until the first lease of this process in the cell ends. If this process holds no lease in the
   * cell, returns `inTableMs`: the hint table's answer, null if the table has no lease in the cell either.
   */
  #leaseEndInMs(at: CellAddress, inTableMs: number | null): number | null {
    const { held, clock } = this.#parts
    const endMs = held.nextEndMs(at)
    return endMs === null ? inTableMs : Math.max(0, endMs - clock.monotonicNow())
  }
}

/** Returns the next ring times of a cell in which keys that did not fit ring again at once. */
function ringingNow({ nowMs, nextRingMs, nextSuspectMs }: Claim, from: ClaimRequest['from']): Partial<Claim> {
  if (from === 'suspects') return { nextSuspectMs: Math.min(nowMs, nextSuspectMs ?? nowMs) }
  return { nextRingMs: Math.min(nowMs, nextRingMs ?? nowMs) }
}

/**
 * Returns the indexes of the tasks of one group (same prefix and ring time) that did not fit, if other tasks of the
 * group were claimed. Tasks of a group are side by side.
 */
function splitGroup(rung: readonly ClaimedTask[], verdicts: readonly ClaimVerdict[]): number[] {
  const first = verdicts.findIndex(({ kind }) => kind === 'full')
  const [last, next] = [rung[first - 1], rung[first]]
  if (last === undefined || next === undefined || verdicts[first - 1]?.kind !== 'ours') return []
  const isOfGroup = ({ key, ringMs }: ClaimedTask) =>
    ringMs === next.ringMs && prefixOf(key) === prefixOf(next.key)
  if (!isOfGroup(last)) return []
  return [...rung.keys()].filter((i) => verdicts[i]?.kind === 'full' && isOfGroup(rung[i] as ClaimedTask))
}
