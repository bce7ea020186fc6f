/** The one condition that decides every claim (src/ledger.ts), and what prolongs one. */
import type { ExtendAnswer, ClaimVerdict, LedgerClaimRequest } from '../../../src/ledger.ts'
import { BATCH_BYTES_MAX } from '../../../src/lib/batch-max.ts'
import { byteSizeOf } from '../../../src/lib/byte-size.ts'
import { ALONE, claimedTaskOf, hintOf, STARTED_ALONE } from '../../../src/ledgers/rows.ts'
import { LOSSES_OF_A_SUSPECT } from '../../../src/values/rescue.ts'
import type { Place } from '../../../src/timetable.ts'
import { convict, end, free } from './endings.ts'
import { FREE, isHeld, type LiveRow } from './rows.ts'
import type { Statement } from './statement.ts'

/** A row that another transaction has locked is looked at again after this time. */
const LOCKED_MS = 300

export function claim(
  statement: Statement,
  request: LedgerClaimRequest,
  places: readonly Place[],
): ClaimVerdict[] {
  let bytes = 0
  return places.map((place) => {
    // What an earlier call of this claim took is returned, however much it is.
    if (bytes >= BATCH_BYTES_MAX && heldUnder(statement, place, request.stamp) === null)
      return { kind: 'full' }
    const verdict = claimOne(statement, request, place)
    if (verdict.kind === 'ours') bytes += byteSizeOf(verdict.task.body)
    return verdict
  })
}

function claimOne(statement: Statement, request: LedgerClaimRequest, place: Place): ClaimVerdict {
  const { draft, topic, session, moment } = statement
  const { stamp, nowMs, alone } = request
  const row = draft.row(place)
  if (row === undefined) return { kind: 'gone' }
  if (draft.isLocked(place)) return { kind: 'held', leaseEndInMs: LOCKED_MS }
  const isSuspect = (lost: number) => lost >= LOSSES_OF_A_SUSPECT && !alone
  if (row.session === null) {
    if (row.ring_ms > nowMs) return { kind: 'later', hint: hintOf(row) }
    return isSuspect(row.lost) ? { kind: 'suspect', hint: hintOf(row) } : take(statement, request, row)
  }
  if (isHeld(row, moment)) {
    // The answer was lost, and the call is repeated.
    if (row.session === session && row.stamp === stamp)
      return { kind: 'ours', task: claimedTaskOf(topic, row) }
    return { kind: 'held', leaseEndInMs: (row.lease_ms as number) - moment.steadyMs }
  }
  if (row.marked) {
    end(statement, row, 'cancelled')
    return { kind: 'gone' }
  }
  // Only a start that was recorded, with nothing else running beside it, can convict; and the third loss in a row.
  if (row.started === STARTED_ALONE && row.lost >= LOSSES_OF_A_SUSPECT)
    return { kind: 'poison', error: convict(statement, row) }
  // As it was before that claim, with the loss counted. It has rung before, whatever the clock says now.
  free(statement, row)
  const released = { ...row, lost: row.lost + 1, ...FREE }
  if (!isSuspect(released.lost)) return take(statement, request, released)
  draft.put(released)
  return { kind: 'suspect', hint: hintOf(released) }
}

function take(
  { draft, topic, session, moment }: Statement,
  { stamp, leaseMs, alone }: LedgerClaimRequest,
  row: LiveRow,
): ClaimVerdict {
  const lease_ms = moment.steadyMs + leaseMs
  const started = alone ? ALONE : 0
  const taken = { ...row, session, stamp, lease_ms, started, deliveries: row.deliveries + 1 }
  draft.put(taken)
  draft.count('claimed', 1)
  return { kind: 'ours', task: claimedTaskOf(topic, taken) }
}

/** Returns null if this session does not hold it under that stamp. By its token alone, as long as no other claim took it. */
export function heldUnder({ draft, session }: Statement, place: Place, stamp: number): LiveRow | null {
  const row = draft.row(place)
  return row !== undefined && row.session === session && row.stamp === stamp ? row : null
}

export function begin(statement: Statement, place: Place, stamp: number): boolean {
  const { draft } = statement
  if (heldUnder(statement, place, stamp) === null) return false
  const row = draft.rowForUpdate(place) as LiveRow
  if (row.started === ALONE) draft.put({ ...row, started: STARTED_ALONE })
  return true
}

/** What is locked is passed over, and told of. */
export function extend(
  statement: Statement,
  places: readonly Place[],
  stamp: number,
  leaseMs: number,
): ExtendAnswer[] {
  const { draft, moment } = statement
  return places.map((place) => {
    const row = heldUnder(statement, place, stamp)
    if (row === null) return 'stale'
    if (draft.isLocked(place)) return 'locked'
    draft.put({ ...row, lease_ms: moment.steadyMs + leaseMs })
    return 'extended'
  })
}

/** Whether all of these are held under their stamps. They are locked then until the end. */
export function hold(statement: Statement, held: readonly (Place & { readonly stamp: number })[]): boolean {
  const mine = held.filter((one) => heldUnder(statement, one, one.stamp) !== null)
  for (const one of mine) statement.draft.rowForUpdate(one)
  return mine.length === held.length
}
