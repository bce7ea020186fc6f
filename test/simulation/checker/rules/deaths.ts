/** I9, I10: dead if and only if its attempts failed, it was rejected, it is poison, or it is not what was written. */
import type { SettleEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { ClaimRecord } from '../key-state.ts'
import type { Truth } from '../truth.ts'

export function checkDeaths(truth: Truth, findings: Findings): void {
  for (const { event, fit, claim, before } of truth.settles) {
    if (fit === null || event.answer === 'stale' || before.live === null) continue
    const problem = problemOf(truth, event, before.live.failures, claim)
    if (problem === null) continue
    const what = `${event.key} ${before.live.version} was settled as ${event.outcome.kind} by ${event.life}`
    findings.add('I10', event.seq, `${what}, but ${problem}`)
  }
  for (const { event, before, fit, isExpected } of truth.burials) {
    if (fit !== null || isExpected) continue
    const { live } = before
    const what = `${event.key} ${live?.version ?? ''} was buried as ${event.cause}`
    if (live === null) findings.add('I9', event.seq, `${what}, but it was not alive`)
    else {
      const holder = live.holder?.claim.event
      const held =
        holder === undefined ? 'it was not held' : `it was held ${holder.isAlone ? '' : 'not '}alone`
      const begun = live.holder?.begun === true ? 'its start on record' : 'no start on record'
      findings.add('I10', event.seq, `${what}, but ${held}, ${begun}, after ${live.lost} lost leases`)
    }
  }
  for (const event of truth.history.events) {
    if (event.kind !== 'dead') continue
    const { key, cause, seq, life } = event
    const isTrue = truth.deaths.get(key)?.some((death) => death.seq < seq && death.cause === cause)
    if (isTrue !== true)
      findings.add('I10', seq, `${life} announced that ${key} died of ${cause}, but it did not`)
  }
}

function problemOf(
  truth: Truth,
  { outcome, seq }: SettleEvent,
  failures: number,
  claim: ClaimRecord | undefined,
): string | null {
  const { attemptsMax } = truth.history
  if (outcome.kind === 'retry')
    return failures + 1 < attemptsMax ? null : `that was failure ${failures + 1} of ${attemptsMax} at most`
  if (outcome.kind !== 'dead') return null
  const { cause, failed } = outcome
  if (failed !== (cause === 'attempts')) return `as ${cause} it ${failed ? 'is no' : 'is a'} failure`
  if (cause === 'attempts')
    return failures + 1 >= attemptsMax ? null : `it failed ${failures + 1} times of ${attemptsMax}`
  if (cause === 'payload')
    return claim?.starts.length === 0 ? null : 'its payload had been given to a handler already'
  if (cause !== 'handler') return `${cause} is no cause of death here`
  const isRejected = claim?.starts.some(({ life, run }) => {
    const end = truth.ends.get(`${life}\0${run}`)
    return end?.outcome === 'dead' && end.seq < seq
  })
  return isRejected === true ? null : 'its handler had not rejected it'
}
