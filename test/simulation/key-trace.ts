import type { Event, History } from './history.ts'

/** The events of one key, one per line, with the faults around them: the first thing to read when a check fails. */
export function traceOf({ events }: History, key: string): string[] {
  const calls = new Set(
    events.flatMap((event) => (event.kind === 'call' && event.key === key ? [event.call] : [])),
  )
  const runs = new Set(
    events.flatMap((event) => (event.kind === 'start' && event.key === key ? [event.run] : [])),
  )
  const asks = new Set(
    events.flatMap((event) => (event.kind === 'ask' && event.key === key ? [event.ask] : [])),
  )
  const concerns = (event: Event): boolean => {
    if (event.kind === 'pull' || event.kind === 'pulled') return false
    if (event.kind === 'told') return asks.has(event.ask)
    if (event.kind === 'return') return calls.has(event.call)
    if (event.kind === 'end') return runs.has(event.run)
    if (event.kind === 'extend') return event.keys.includes(key)
    return !('key' in event) || event.key === key
  }
  return events.filter(concerns).map((event) => {
    const { seq, trueMs, kind, ...told } = event
    const shown = Object.entries(told)
      .filter(([name, value]) => value !== null && name !== 'key' && name !== 'body')
      .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    return `${String(seq).padStart(7)} ${(trueMs / 1_000).toFixed(4).padStart(11)} s  ${kind.padEnd(7)} ${shown.join(', ')}`
  })
}
