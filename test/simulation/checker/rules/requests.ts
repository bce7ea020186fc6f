/** I3, I6: a write has the due time that was requested, and treats an older task as requested. I13: no hint is missing. */
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

export function checkRequests(truth: Truth, findings: Findings): void {
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
    // A delay counts from the storage's clock, whatever the caller's clock shows.
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
