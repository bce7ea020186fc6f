/** I2, I3, I4, I5, I7, I10, I11: what handlers are given, and when. */
import type { WriteEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import { Revocations } from '../revocations.ts'
import type { StartStep, Truth } from '../truth.ts'

type Tell = (invariant: string, why: string) => void

export function checkStarts(truth: Truth, findings: Findings): void {
  const cancels = new Revocations(truth, 'cancelled')
  const moves = new Revocations(truth, 'rescheduled')
  const ids = new Map<string, string>()
  const versionOfId = new Map<string, string>()
  for (const step of truth.starts) {
    const { event, claim } = step
    const { key, version, life, seq, run } = event
    const tell: Tell = (invariant, why) =>
      findings.add(invariant, seq, `${key} ${version} was started by ${life} (run ${run}), but ${why}`)
    const write = truth.calls.writesByVersion.get(version)?.find(({ outcome }) => outcome !== 'kept')
    checkContent(step, write, tell)
    const id = ids.get(version)
    if (id === undefined) ids.set(version, event.id)
    else if (id !== event.id) tell('I2', `under the id ${event.id}, and before that under ${id}`)
    const other = versionOfId.get(event.id)
    if (other === undefined) versionOfId.set(event.id, version)
    else if (other !== version) tell('I2', `under the id ${event.id} of ${other}`)
    if (write === undefined || write.key !== key) continue
    if (claim === null) {
      tell('I11', 'that process never claimed it')
      continue
    }
    if (event.attempt !== claim.event.failures + 1)
      tell('I10', `as attempt ${event.attempt} after ${claim.event.failures} failures`)
    const ringMs = Math.max(claim.event.ringMs, claim.task?.ringMs ?? Number.NEGATIVE_INFINITY)
    if (event.recordMs < ringMs)
      tell('I3', `its time was ${ringMs}, and the clocks had come to ${event.recordMs}`)
    if (step.startsBefore > 0) tell('I11', `it had been started before under the same claim`)
    const token = claim.event.token
    // The ledger forgot the claim, which its topic allows: a caller is told that the task is free, and its holder is not.
    const isFree = claim.isForgotten && truth.history.fastClaims === true
    if (!isFree && cancels.isRevoked(version, claim.event.seq, seq))
      tell('I4', `it had been cancelled after its claim (${token}), and the caller knew`)
    else if (!isFree && moves.isRevoked(version, claim.event.seq, seq))
      tell('I5', `it had been rescheduled after its claim (${token}), and the caller knew`)
    else if (event.trueMs >= step.leaseEndTrueMs)
      tell('I7', `its lease (${token}) was over at ${step.leaseEndTrueMs}; it was ${event.trueMs}`)
    else if (step.isSettled) tell('I11', `its claim (${token}) had been settled already`)
  }
}

/** Byte for byte. */
function checkContent({ event, claim }: StartStep, write: WriteEvent | undefined, tell: Tell): void {
  if (write === undefined) return tell('I2', 'no such version was ever written')
  if (event.key !== write.key) tell('I2', `its key was ${write.key}`)
  if (event.body !== write.body) tell('I2', `its body was ${write.body}, not ${event.body}`)
  if (event.tags.join('\n') !== write.tags.join('\n'))
    tell('I2', `its tags were [${write.tags.join(', ')}], not [${event.tags.join(', ')}]`)
  if (event.priority !== write.priority)
    tell('I2', `its priority was ${write.priority}, not ${event.priority}`)
  const dueMs = claim?.task?.dueMs ?? null
  if (dueMs !== null && event.dueMs !== dueMs) tell('I2', `it was due ${dueMs}, not ${event.dueMs}`)
}
