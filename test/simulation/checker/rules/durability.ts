/** I23: a crash of the ledger undoes nothing but claims of its last 0.6 s, and those only of a topic with fast claims. */
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

/** Three times PostgreSQL's wal_writer_delay. */
const LOST_MS_MAX = 600

export function checkDurability({ forgotten, history }: Truth, findings: Findings): void {
  for (const { event, claim } of forgotten) {
    const { key, token, seq, trueMs } = event
    const tell = (why: string): void =>
      findings.add('I23', seq, `the claim of ${key} (${token}) was undone by a crash, but ${why}`)
    if (history.fastClaims !== true) tell('claims of its topic wait for the disk')
    if (claim === undefined) tell('there was no such claim')
    else if (trueMs - claim.event.trueMs > LOST_MS_MAX)
      tell(`it was ${(trueMs - claim.event.trueMs).toFixed(0)} ms old`)
    else if (claim.settled !== null) tell('its outcome was recorded, which takes the claim along')
  }
}
