/** 'history': a history that does not hold together proves nothing. */
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

export function checkRecord({ history: { events, ending } }: Truth, findings: Findings): void {
  const calls = new Set<number>()
  const returned = new Set<number>()
  const runs = new Set<string>()
  const ended = new Set<string>()
  const dead = new Set<string>()
  let last = events[0]
  for (const event of events) {
    const { seq } = event
    const tell = (message: string): void => findings.add('history', seq, message)
    if (last !== undefined && event !== last && seq !== last.seq + 1) tell(`seq ${seq} follows ${last.seq}`)
    if (last !== undefined && event.trueMs < last.trueMs) tell(`true time went back to ${event.trueMs}`)
    last = event
    if ('life' in event && event.life !== null && dead.has(event.life) && !isOfTruth(event.kind))
      tell(`${event.kind} of ${event.life}, which had crashed`)
    if (event.kind === 'call' && calls.size === calls.add(event.call).size) tell(`call ${event.call} twice`)
    if (event.kind === 'return') {
      if (!calls.has(event.call)) tell(`call ${event.call} returned before it was made`)
      if (returned.size === returned.add(event.call).size) tell(`call ${event.call} returned twice`)
    }
    if (event.kind === 'start') runs.add(`${event.life}/${event.run}`)
    if (event.kind === 'end') {
      const run = `${event.life}/${event.run}`
      if (!runs.has(run)) tell(`run ${run} ended before it began`)
      if (ended.size === ended.add(run).size) tell(`run ${run} ended twice`)
    }
    if (event.kind === 'life' && event.phase === 'crashes') dead.add(event.life)
  }
  if (last !== undefined && ending.trueMs < last.trueMs)
    findings.add('history', -1, `it ended at ${ending.trueMs}, before its last event at ${last.trueMs}`)
}

/** What a process had sent when it died may still arrive, and take effect. */
function isOfTruth(kind: string): boolean {
  return [
    'write',
    'claim',
    'extend',
    'settle',
    'begin',
    'buried',
    'record',
    'card',
    'life',
    'fault',
  ].includes(kind)
}
