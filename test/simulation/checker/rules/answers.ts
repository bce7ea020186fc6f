/**
 * I1, I2, I4, I5, I6, I9: a caller is told what the truth did, once it did it. 'unknown-outcome' says that it was done, or
 * never will be; any other error says that nothing happened.
 */
import type { Op, ReturnEvent, WriteEvent } from '../../history.ts'
import type { CallRecord, Calls } from '../calls.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

const INVARIANTS: Record<Exclude<Op, 'get' | 'schedule'>, string> = {
  cancel: 'I4',
  reschedule: 'I5',
  replay: 'I9',
  'replay-newest': 'I9',
  purge: 'I9',
}

export function checkAnswers({ calls }: Truth, findings: Findings): void {
  for (const record of calls.all) {
    const { call, returned } = record
    if (call.op === 'get' || returned === null) continue
    const writes = calls.writesOf(record)
    if (call.op === 'schedule') checkSchedule(record, returned, writes, calls, findings)
    else if (returned.error === null && returned.outcome !== null) {
      // Rolled back, as far as the history shows.
      if (call.tx !== null && !calls.committed.has(call.tx)) continue
      if (writes.some((write) => isAnswer(write, returned))) continue
      const what = `${call.op} of ${call.key} by ${call.life} answered ${said(returned)}`
      findings.add(
        INVARIANTS[call.op],
        returned.seq,
        `${what}, but the truth did nothing like that meanwhile`,
      )
    }
  }
  for (const write of calls.uncalled()) {
    const what = `${write.op} of ${write.key} by ${write.life} took effect (${write.outcome})`
    if (write.op === 'replay') findings.add('I9', write.seq, `${what} more often than it was called`)
    // A version that is written twice is told of where that is looked for. What is swept by a tag has no calls of its
    // own, and what is purged twice is not there the second time.
    if (write.op === 'schedule' && !calls.byVersion.has(write.version ?? ''))
      findings.add('I2', write.seq, `${what}, but no call had requested it`)
  }
}

function checkSchedule(
  { call }: CallRecord,
  returned: ReturnEvent,
  writes: readonly WriteEvent[],
  calls: Calls,
  findings: Findings,
): void {
  const what = `schedule of ${call.key} ${call.version} by ${call.life}`
  const tell = (invariant: string, why: string): void =>
    findings.add(invariant, returned.seq, `${what} ${why}`)
  const write = writes[0]
  // A schedule that failed and would have kept the task changed nothing.
  const isNothing = write === undefined || (returned.error !== null && write.outcome === 'kept')
  // The latest time of a call is told by the server's clock. Where that is set back, a late call may be in time.
  if (
    call.tx === null &&
    !isNothing &&
    write.seq > returned.seq &&
    !calls.isClockSetAround(call, write.trueMs)
  )
    tell('I6', `answered ${returned.error ?? said(returned)} before it took effect at seq ${write.seq}`)
  if (returned.error !== null) {
    if (returned.error !== 'unknown-outcome' && !isNothing)
      tell('I6', `failed as ${returned.error}, but took effect at seq ${write.seq}: ${write.outcome}`)
    return
  }
  if (write === undefined) {
    if (call.tx === null || calls.committed.has(call.tx))
      tell(returned.outcome === 'kept' ? 'I6' : 'I1', `answered ${said(returned)}, but was never written`)
    return
  }
  if (write.key !== call.key || write.seq < call.seq)
    tell('I2', `was written as ${write.key} at seq ${write.seq}; it was called at seq ${call.seq}`)
  if (returned.outcome === null) return
  if (!isAnswer(write, returned) || write.inFlight !== returned.inFlight)
    tell('I6', `answered ${said(returned)}, but the truth said ${said(write)}`)
}

function isAnswer(write: WriteEvent, { outcome, dueMs }: ReturnEvent): boolean {
  // The face only counts what lives again, and what is gone for ever.
  if (write.op === 'replay') return (write.outcome === 'replayed') === (outcome === 'replayed')
  if (write.op === 'purge') return (write.outcome === 'purged') === (outcome === 'purged')
  return write.outcome === outcome && (write.dueMs === null || dueMs === null || write.dueMs === dueMs)
}

function said({ outcome, dueMs, inFlight }: ReturnEvent | WriteEvent): string {
  return `${outcome}${dueMs === null ? '' : ` for ${dueMs}`}${inFlight ? ' in flight' : ''}`
}
