/** I8: a settle under a stale token changes nothing and is answered as stale; the holder's token stays valid after an extension. */
import type { Findings } from '../findings.ts'
import type { KeyState } from '../key-state.ts'
import type { ExtendStep, Truth } from '../truth.ts'

export function checkTokens(truth: Truth, findings: Findings): void {
  for (const { event, before, fit } of truth.settles) {
    if (fit !== null) continue
    const { key, token, life, outcome, answer, seq } = event
    const what = `${outcome.kind} of ${key} by ${life} (${token}) was ${answer}`
    findings.add('I8', seq, `${what}, but ${holderOf(before)}`)
  }
  for (const { event, before, fit } of truth.begins) {
    if (fit !== null) continue
    const { key, token, life, isHeld, seq } = event
    const what = `the start of ${key} by ${life} (${token}) was ${isHeld ? 'recorded' : 'refused'}`
    findings.add('I8', seq, `${what}, but ${holderOf(before)}`)
  }
  for (const step of truth.extends) checkExtend(truth, step, findings)
}

function checkExtend(truth: Truth, { event, foreign, forgotten, holdsAll }: ExtendStep, findings: Findings) {
  const { token, life, seq } = event
  for (const key of foreign)
    findings.add('I8', seq, `${life} (${token}) extended its lease of ${key}, which it did not hold`)
  // A timetable extends a claim as a whole. A ledger is asked key by key, and the history does not say for which.
  const isWhole = truth.history.composition === 'redis'
  if (isWhole || (holdsAll && event.keys.length === 0 && !forgotten.some((key) => isLocked(truth, key, seq))))
    for (const key of forgotten)
      findings.add('I8', seq, `${life} (${token}) held ${key}, and was not given a longer lease`)
}

/** A caller's transaction that wrote to the key may have been open. */
function isLocked({ calls }: Truth, key: string, seq: number): boolean {
  return calls.inTransactions
    .filter((record) => record.call.key === key && record.call.seq < seq)
    .some((record) => !calls.writesOf(record).some((write) => write.seq < seq))
}

function holderOf({ live }: KeyState): string {
  if (live === null) return 'the key had no live task'
  if (live.holder === null) return `${live.version} was not held`
  const { event, leaseEndTrueMs } = live.holder.claim
  return `${event.life} (${event.token}) held ${live.version} until ${leaseEndTrueMs}`
}
