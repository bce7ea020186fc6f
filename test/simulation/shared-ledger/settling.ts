/** How claims end. */
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import type { LedgerSettled, LedgerSettlement } from '../../../src/ledger.ts'
import { hintOf, STARTED_ALONE } from '../../../src/ledgers/rows.ts'
import { LOSSES_OF_A_SUSPECT, rescueDelayMs } from '../../../src/values/rescue.ts'
import { heldUnder } from './claims.ts'
import { bury, convict, end, free } from './endings.ts'
import { FREE, isHeld, type LiveRow } from './rows.ts'
import type { Statement } from './statement.ts'

export const STALE: LedgerSettled = { answer: 'stale', hint: null }
const ENDED: LedgerSettled = { answer: 'settled', hint: null }

/** Returns null if it is held under that stamp, but another transaction has locked it. */
export function settleOne(statement: Statement, settlement: LedgerSettlement): LedgerSettled | null {
  const { draft, moment } = statement
  const { outcome } = settlement
  // Settled before, lost, replaced: whatever it was, the task is not this holder's. Nothing changes.
  if (heldUnder(statement, settlement, settlement.stamp) === null) return STALE
  if (draft.isLocked(settlement)) return null
  const row = draft.rowForUpdate(settlement) as LiveRow
  switch (outcome.kind) {
    case 'done':
    case 'obsolete':
      end(statement, row, outcome.kind)
      return ENDED
    case 'dead':
      bury(statement, row, outcome.cause, outcome.error, outcome.failed)
      return ENDED
    case 'lost':
      return isHeld(row, moment) ? STALE : lose(statement, row, outcome.spread)
    case 'return':
      return again(statement, row, { deliveries: row.deliveries - 1 })
    case 'snooze':
    case 'retry': {
      const ring_ms = Math.min(moment.nowMs + outcome.delayMs, LAST_INSTANT_MS)
      const failed =
        outcome.kind === 'retry' ? { failures: row.failures + 1, error: outcome.error } : undefined
      return again(statement, row, { ring_ms, updated_ms: moment.nowMs, lost: 0, ...failed })
    }
  }
}

/** Its lease ran out: counted apart from failures. */
function lose(statement: Statement, row: LiveRow, spread: number): LedgerSettled {
  const { nowMs } = statement.moment
  if (!row.marked && row.started === STARTED_ALONE && row.lost >= LOSSES_OF_A_SUSPECT)
    return { ...ENDED, poison: convict(statement, row) }
  const lost = row.lost + 1
  return again(statement, row, { ring_ms: nowMs + rescueDelayMs(spread, lost), updated_ms: nowMs, lost })
}

/** It waits again, unless it was cancelled in flight: then no attempt follows. */
function again(statement: Statement, row: LiveRow, changes: Partial<LiveRow>): LedgerSettled {
  if (row.marked) {
    end(statement, row, 'cancelled')
    return ENDED
  }
  free(statement, row)
  const waiting = { ...row, ...changes, ...FREE }
  statement.draft.put(waiting)
  return { answer: 'settled', hint: hintOf(waiting) }
}
