/** I21: after a suspect, ordinary tasks get four times as much time as it took, before the consumer starts the next one. */
import type { EndEvent, StartEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

const TIMES = 4
/** After one lease a consumer does not wait for the suspect any longer, so the time of a longer one is not known. */
const SHORT_MS = 1_000
/** Clocks of machines differ by so much in this time. */
const DRIFT_MS = 2

interface Run {
  readonly start: StartEvent
  readonly end: EndEvent | undefined
}

export function checkSuspects(truth: Truth, findings: Findings): void {
  const last = new Map<string, Run>()
  for (const { event, claim } of truth.starts) {
    const { life, token, key, seq } = event
    // A pulled suspect is alone in its reply, but its process hands out other tasks meanwhile.
    if (claim?.event.isAlone !== true || token !== undefined) continue
    const before = last.get(life)
    last.set(life, { start: event, end: truth.ends.get(`${life}\0${event.run}`) })
    if (before?.end === undefined) continue
    const tookMs = before.end.trueMs - before.start.trueMs
    const pauseMs = event.trueMs - before.end.trueMs
    if (tookMs > SHORT_MS || pauseMs >= TIMES * tookMs - DRIFT_MS) continue
    findings.add(
      'I21',
      seq,
      `${key} is a suspect, and was started by ${life} only ${pauseMs.toFixed(0)} ms after one that took ${tookMs.toFixed(0)} ms`,
    )
  }
}
