/**
 * I14: a read returns the key as it was at some moment during the read. So what was acknowledged before is never
 * 'not-found', unless it may have ended where no ledger remembers it.
 */
import { type CallRecord, firstAfter } from '../calls.ts'
import type { ReturnEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import { type KeyState, NOTHING } from '../key-state.ts'
import { type Seen, seenOf } from '../visible-states.ts'
import type { Truth } from '../truth.ts'

export function checkReads(truth: Truth, findings: Findings): void {
  for (const record of truth.calls.all) {
    const { call, returned } = record
    if (call.op !== 'get' || returned === null || returned.error !== null) continue
    if (statesMeanwhile(truth, record, returned).some((state) => isSeen(truth, state, returned))) continue
    const [state] = statesMeanwhile(truth, record, returned) as [KeyState]
    const [first] = seenOf(truth, state, call) as [Seen]
    const saw = `${returned.outcome} ${returned.version ?? ''}`.trim()
    const what = `get of ${call.key} by ${call.life} saw ${saw}`
    findings.add('I14', returned.seq, `${what}, but it was ${first.state} ${first.version ?? ''}`.trim())
  }
}

/** As it was when the call began, and all that it became until it was answered. */
function statesMeanwhile({ chapters }: Truth, { call }: CallRecord, returned: ReturnEvent): KeyState[] {
  const all = chapters.get(call.key) ?? []
  const first = firstAfter(all, call.seq)
  const states = [all[first - 1]?.state ?? NOTHING]
  for (let i = first; i < all.length && (all[i] as { seq: number }).seq < returned.seq; i++)
    states.push((all[i] as { state: KeyState }).state)
  return states
}

function isSeen(truth: Truth, state: KeyState, returned: ReturnEvent): boolean {
  const outcome = returned.outcome === 'not-found' ? 'none' : returned.outcome
  return truth
    .possible(state, returned)
    .flatMap((one) => seenOf(truth, one, returned))
    .some((seen) => seen.state === outcome && (outcome === 'none' || seen.version === returned.version))
}
