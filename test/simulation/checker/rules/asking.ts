/** I3, I6: what was asked for is what was written: when it rings, and what becomes of an older task. */
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

export function checkAsking(truth: Truth, findings: Findings): void {
  const { events } = truth.history
  const asked = new Map(
    events.flatMap((event) =>
      event.kind === 'call' && event.version !== null ? [[event.version, event]] : [],
    ),
  )
  for (const { event, before, fit } of truth.writes) {
    const call = event.version === null ? undefined : asked.get(event.version)
    if (call === undefined || event.outcome === 'kept') continue
    const what = `${event.key} ${event.version}`
    // A delay counts from the moment of the truth's clock, whatever the caller's says.
    if (call.delayMs !== null && event.dueMs !== event.nowMs + call.delayMs)
      findings.add(
        'I3',
        event.seq,
        `${what} was to ring ${call.delayMs} ms after ${event.nowMs}, not at ${event.dueMs}`,
      )
    const live = (fit ?? before).live
    if (call.onConflict === 'keep' && event.outcome === 'replaced' && live?.marked === false)
      findings.add('I6', event.seq, `${what} took the place of ${live.version}, which was to be kept`)
  }
  for (const event of events) {
    if (event.kind !== 'missing') continue
    findings.add(
      'I13',
      event.seq,
      `${event.key} rings at ${event.ringMs}, and the timetable does not know of it`,
    )
  }
}
