/** What a history had in it: whether a run was interesting, and how late things were. */
import type { CallEvent, ClaimEvent, Event, History, ReturnEvent, SettleEvent } from '../history.ts'
import { firstAfter, push } from './calls.ts'
import { Truth } from './truth.ts'

/** A cancel that comes so soon after a claim would have come before it, had anything been a little slower. */
const RACE_MS = 50

export interface Lateness {
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
}

export interface Figures {
  readonly events: Readonly<Record<string, number>>
  /** How often each began. */
  readonly faults: Readonly<Record<string, number>>
  /** Calls of the face. */
  readonly schedules: number
  readonly cancels: number
  readonly racingCancels: number
  readonly settles: number
  readonly staleSettles: number
  readonly starts: number
  /** Of these, by those who pulled them; and what these settled at another process than the one that they had it from. */
  readonly pulled: number
  readonly settledElsewhere: number
  /** Starts beyond the first of a version that neither a retry, nor a snooze, nor a replay or reschedule asked for. */
  readonly duplicates: number
  readonly lostLeases: number
  readonly unknownOutcomes: number
  /** Callers' transactions: begun, and of these the ones that had an effect. */
  readonly transactions: number
  readonly committed: number
  readonly crashes: number
  /** Of the topic's settings: changes that took effect, and those that were refused for their version. */
  readonly changes: number
  readonly conflicts: number
  /** Processes that others found gone. */
  readonly burials: number
  /** Of first starts; null: there was none. */
  readonly lateness: Lateness | null
}

export function figuresOf(history: History): Figures {
  const truth = new Truth(history)
  const { events } = history
  const of = <K extends Event['kind']>(kind: K) =>
    events.filter((event): event is Extract<Event, { kind: K }> => event.kind === kind)
  const calls = of('call')
  const settles = of('settle')
  const returns = new Map(of('return').map((event) => [event.call, event]))
  const begun = of('fault').filter(({ phase }) => phase === 'begin')
  const cancels = calls.filter(({ op }) => op === 'cancel')
  const transactions = new Set(calls.flatMap(({ tx }) => tx ?? []))
  return {
    events: tallied(events.map(({ kind }) => kind)),
    faults: tallied(begun.map(({ fault }) => fault)),
    schedules: calls.filter(({ op }) => op === 'schedule').length,
    cancels: cancels.length,
    racingCancels: racing(cancels, returns, events),
    settles: settles.length,
    staleSettles: settles.filter(({ answer }) => answer === 'stale').length,
    starts: truth.starts.length,
    pulled: truth.starts.filter(({ event }) => event.token !== undefined).length,
    settledElsewhere: settledElsewhere(truth),
    duplicates: duplicates(truth),
    lostLeases: lostLeases(truth),
    unknownOutcomes: [...returns.values()].filter(({ error }) => error === 'unknown-outcome').length,
    transactions: transactions.size,
    committed: truth.calls.committed.size,
    crashes: truth.crashed.size,
    changes: of('configured').filter(({ outcome }) => outcome === 'ok').length,
    conflicts: of('configured').filter(({ outcome }) => outcome === 'conflict').length,
    burials: of('card').filter(({ phase }) => phase === 'buried').length,
    lateness: lateness(truth),
  }
}

function tallied(names: readonly string[]): Record<string, number> {
  const tally: Record<string, number> = {}
  for (const name of names) tally[name] = (tally[name] ?? 0) + 1
  return tally
}

/** Those that found it in flight, or had a claim or a start of the key around them. */
function racing(
  cancels: readonly CallEvent[],
  returns: ReadonlyMap<number, ReturnEvent>,
  events: readonly Event[],
): number {
  const claims = new Map<string, ClaimEvent[]>()
  const moments = new Map<string, Event[]>()
  for (const event of events) {
    if (event.kind === 'claim') push(claims, event.key, event)
    if (event.kind === 'claim' || event.kind === 'start') push(moments, event.key, event)
  }
  return cancels.filter((call) => {
    const returned = returns.get(call.call)
    if (returned?.outcome === 'in-flight') return true
    const all = moments.get(call.key) ?? []
    const next = all[firstAfter(all, call.seq)]
    if (next !== undefined && returned !== undefined && next.seq < returned.seq) return true
    const before = claims.get(call.key) ?? []
    const last = before[firstAfter(before, call.seq) - 1]
    return last !== undefined && call.trueMs - last.trueMs <= RACE_MS
  }).length
}

/** Each start is compared with the one of the same version before it: what ended that one's claim? */
function duplicates(truth: Truth): number {
  const last = new Map<string, { startSeq: number; settled: SettleEvent | null }>()
  const wanted = wantedAgain(truth)
  let count = 0
  for (const { event, claim } of truth.starts) {
    const { version, seq } = event
    const before = last.get(version)
    last.set(version, { startSeq: seq, settled: claim?.settled ?? null })
    if (before === undefined) continue
    const kind = before.settled?.outcome.kind
    const isWanted = wanted.get(version)?.some((at) => at > before.startSeq && at < seq) ?? false
    if (kind !== 'retry' && kind !== 'snooze' && !isWanted) count++
  }
  return count
}

function settledElsewhere({ settles }: Truth): number {
  return settles.filter(({ event, claim }) => {
    const isBorne = claim?.starts.some(({ token }) => token !== undefined) ?? false
    return (
      isBorne &&
      event.answer === 'settled' &&
      event.life !== claim?.event.life &&
      event.outcome.kind !== 'lost'
    )
  }).length
}

function wantedAgain({ writes }: Truth): Map<string, number[]> {
  const wanted = new Map<string, number[]>()
  for (const { event, fit, before } of writes) {
    const { live, grave } = fit ?? before
    if (event.outcome === 'rescheduled' && live !== null) push(wanted, live.version, event.seq)
    if (event.outcome === 'replayed' && grave !== null) push(wanted, grave.version, event.seq)
  }
  return wanted
}

/** As far as they show in the history: a lost lease without a later event is not recorded. */
function lostLeases({ claims, settles, burials }: Truth): number {
  const taken = claims.filter(({ kind }) => kind === 'taken-over' || kind === 'convicted').length
  const told = settles.filter(
    ({ event }) => event.outcome.kind === 'lost' && event.answer === 'settled',
  ).length
  const poison = burials.filter(({ event, isExpected }) => event.cause === 'poison' && !isExpected).length
  return taken + told + poison
}

function lateness({ starts }: Truth): Lateness | null {
  const seen = new Set<string>()
  const late: number[] = []
  for (const { event } of starts) {
    if (seen.has(event.version)) continue
    seen.add(event.version)
    late.push(event.recordMs - event.dueMs)
  }
  late.sort((a, b) => a - b)
  const at = (share: number) => late[Math.min(late.length - 1, Math.floor(late.length * share))] as number
  return late.length === 0 ? null : { p50Ms: at(0.5), p99Ms: at(0.99), maxMs: late.at(-1) as number }
}
