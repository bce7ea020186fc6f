/** What several programs recorded, taken together. */
import type { Entry, Program } from './program.ts'

export interface Fates {
  /** By key, when it is due, as its producer was told. */
  readonly accepted: Map<string, number>
  /** Never to be delivered. */
  readonly cancelled: Set<string>
  /** It had been claimed when it was cancelled: delivered perhaps. */
  readonly cancelledInFlight: Set<string>
  /** The outcome is unknown. */
  readonly unknown: Set<string>
}

/** What became of each key of programs/load.mjs, as it was told. */
export function fatesOf(load: Program): Fates {
  const answers = load.of('answer')
  const keysOf = (entries: readonly Entry[]) => new Set(entries.map(({ key }) => key))
  const cancels = answers.filter(({ name }) => name === 'cancel')
  return {
    accepted: new Map(
      answers.filter(({ name }) => name === 'schedule').map(({ key, dueMs }) => [key, dueMs]),
    ),
    cancelled: keysOf(cancels.filter(({ outcome }) => outcome === 'cancelled')),
    cancelledInFlight: keysOf(cancels.filter(({ outcome }) => outcome === 'in-flight')),
    unknown: keysOf(load.of('failure').filter(({ code }) => code === 'unknown-outcome')),
  }
}

/** Accepted, not cancelled, and never handled to the end. */
export function lostOf(
  { accepted, cancelled, cancelledInFlight, unknown }: Fates,
  ended: Set<string>,
): string[] {
  return [...accepted.keys()].filter(
    (key) => !ended.has(key) && !cancelled.has(key) && !cancelledInFlight.has(key) && !unknown.has(key),
  )
}

export function eventsOf(programs: readonly Program[], event: string): Entry[] {
  return programs.flatMap((program) => program.of(event))
}

export function endedKeys(programs: readonly Program[]): Set<string> {
  return new Set(eventsOf(programs, 'end').map(({ key }) => key))
}

/** Keys whose handler was started more than once. */
export function startedAgain(starts: readonly Entry[]): string[] {
  const seen = new Set<string>()
  const again = new Set<string>()
  for (const { key } of starts) {
    if (seen.has(key)) again.add(key)
    seen.add(key)
  }
  return [...again]
}

/** Starts before their time: by what the producer was told, or else by what the handler was. */
export function earlyAmong(starts: readonly Entry[], accepted: ReadonlyMap<string, number>): Entry[] {
  return starts.filter(({ key, dueMs, nowMs }) => nowMs < (accepted.get(key) ?? dueMs))
}

/** Keys whose handler was running at a moment, by the machine's clock. */
export function inFlightAt(programs: readonly Program[], momentMs: number): Set<string> {
  const running = new Set<string>()
  for (const program of programs)
    for (const { event, key, nowMs } of program.entries()) {
      if (nowMs > momentMs) break
      if (event === 'start') running.add(key)
      else if (event === 'end') running.delete(key)
    }
  return running
}

/** The value that `share` of all are not above. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0
}
