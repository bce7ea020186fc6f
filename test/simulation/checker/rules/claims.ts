/**
 * I2, I3, I4, I6, I7, I9, I10 as far as claims can break them: the truth gives away a task only if it lives, its time has
 * come, and it is not held.
 */
import { LOSSES_OF_A_SUSPECT } from '../../../../src/values/rescue.ts'
import type { Findings } from '../findings.ts'
import type { ClaimStep, Truth, VersionEnd } from '../truth.ts'

const RISEN: Record<VersionEnd, readonly [string, string]> = {
  done: ['I9', 'it was done'],
  obsolete: ['I9', 'it was obsolete'],
  dead: ['I9', 'it was dead, and not replayed'],
  cancelled: ['I4', 'it was cancelled'],
  replaced: ['I6', 'a later one had taken its place'],
}

export function checkClaims({ claims, history: { composition } }: Truth, findings: Findings): void {
  for (const step of claims) {
    const { event, before, kind } = step
    const { live } = before
    const what = `${event.key} ${event.version} was claimed by ${event.life} (${event.token})`
    const tell = (invariant: string, why: string): void =>
      findings.add(invariant, event.seq, `${what}, but ${why}`)
    const holder = live?.holder?.claim.event
    if (kind === 'gone') {
      const [invariant, why] =
        step.end === undefined ? (['I2', 'it was never written'] as const) : RISEN[step.end]
      tell(invariant, why)
      continue
    }
    if (live === null) continue
    if (kind === 'held')
      tell('I7', `${holder?.life} (${holder?.token}) held it until ${leaseEnd(step)}; it was ${event.trueMs}`)
    if (kind === 'marked') tell('I4', 'it was cancelled in flight, and no attempt may follow')
    if (kind === 'convicted') tell('I10', 'it was lost alone and started, and is dead as poison')
    if (event.failures !== live.failures)
      tell('I10', `with ${event.failures} failures instead of ${live.failures}`)
    if (kind !== 'taken' && kind !== 'taken-over') continue
    const lost = live.lost + (kind === 'taken-over' ? 1 : 0)
    if (lost >= LOSSES_OF_A_SUSPECT && !event.isAlone)
      tell('I10', `not alone, though it had lost ${lost} leases in a row`)
    // When a timetable lets it ring after a lost lease is not recorded.
    const isKnown = kind === 'taken' || composition !== 'redis'
    if (isKnown && live.ringMs !== null && event.ringMs < live.ringMs)
      tell('I3', `as if it rang at ${event.ringMs}, and it rings at ${live.ringMs}`)
  }
}

function leaseEnd({ before }: ClaimStep): number | undefined {
  return before.live?.holder?.claim.leaseEndTrueMs
}
