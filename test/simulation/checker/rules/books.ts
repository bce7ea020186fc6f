/** I12, I13: the books balance and tell what happened; nothing that rings soon is unknown to the timetable. */
import type { Books } from '../../../../src/timetable.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'
import { noneOf, stateAtEnd } from './ending.ts'

const COUNTED = ['scheduled', 'done', 'cancelled', 'obsolete', 'purged', 'dead'] as const

export function checkBooks(truth: Truth, findings: Findings): void {
  const { books, audit } = truth.history.ending
  const { scheduled, pending, claimed, done, dead, cancelled, obsolete, purged } = books
  const sum = pending + claimed + done + dead + cancelled + obsolete + purged
  if (scheduled !== sum)
    findings.add(
      'I12',
      -1,
      `the books do not balance: ${scheduled} scheduled, ${sum} in all the other states`,
    )
  const { expected, inDoubt } = expectedBooks(truth)
  for (const name of COUNTED)
    if (books[name] !== expected[name])
      findings.add('I12', -1, `the books say ${books[name]} ${name}, the events ${expected[name]}`)
  if (pending + claimed !== expected.pending + expected.claimed)
    findings.add(
      'I12',
      -1,
      `the books say ${pending} pending and ${claimed} claimed, the events ${expected.pending} and ${expected.claimed}`,
    )
  else if (Math.abs(claimed - expected.claimed) > inDoubt)
    findings.add('I12', -1, `the books say ${claimed} claimed, the events ${expected.claimed}`)
  if (audit !== null && !audit.balances)
    findings.add('I12', -1, 'the books and the rows, counted one by one, do not agree')
  // One too many only rings in vain.
  // A timetable that is filled by polling does not have what another process wrote within the last second.
  const isLookedAt = truth.history.composition === 'alone'
  if (audit !== null && audit.missing !== 0 && !isLookedAt)
    findings.add('I13', -1, `${audit.missing} live tasks were missing in the timetable`)
}

/** `inDoubt`: claims whose lease has expired, and that may or may not have been found. */
function expectedBooks(truth: Truth): { expected: Books; inDoubt: number } {
  const { ending } = truth.history
  const finals = new Map(ending.keys.map((final) => [final.key, final]))
  const at = truth.endsAt
  const sums = {
    scheduled: 0,
    pending: 0,
    claimed: 0,
    done: 0,
    dead: 0,
    cancelled: 0,
    obsolete: 0,
    purged: 0,
  }
  let inDoubt = 0
  for (const key of truth.keys) {
    const { live, grave, tally } = stateAtEnd(truth, key, finals.get(key) ?? noneOf(key))
    for (const name of Object.keys(tally) as (keyof typeof tally)[]) sums[name] += tally[name]
    if (grave !== null) sums.dead++
    if (live === null) continue
    const lease = truth.leaseOf(live, at)
    if (lease === 'none') sums.pending++
    else sums.claimed++
    if (lease === 'edge' || lease === 'over') inDoubt++
  }
  return { expected: sums, inDoubt }
}
