/** I1: what is recorded as done was done. And a handler's writes are there with its outcome, or not at all. */
import type { StartEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { ClaimRecord } from '../key-state.ts'
import type { Truth } from '../truth.ts'

export function checkHandling(truth: Truth, findings: Findings): void {
  if (!truth.history.hasHandlers) return
  for (const { event, claim } of truth.settles) {
    if (event.outcome.kind !== 'done' || event.answer === 'stale' || claim === undefined) continue
    const isDone = startsOf(claim).some(({ life, run }) => {
      const end = truth.ends.get(`${life}\0${run}`)
      return end?.outcome === 'done' && end.seq < event.seq
    })
    if (!isDone) {
      const what = `${event.key} ${claim.event.version} was settled as done by ${event.life}`
      findings.add('I1', event.seq, `${what}, but no handler had ended`)
    }
  }
  for (const end of truth.ends.values()) {
    if (end.outcome !== 'throw' || end.tx === null || !truth.calls.committed.has(end.tx)) continue
    findings.add(
      'I9',
      end.seq,
      `run ${end.run} of ${end.life} threw, but what it wrote was committed (tx ${end.tx})`,
    )
  }
}

function startsOf({ starts, earlier, event }: ClaimRecord): readonly StartEvent[] {
  return earlier?.event.version === event.version ? [...startsOf(earlier), ...starts] : starts
}
