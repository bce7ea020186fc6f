import type { Composition, Violation } from './history.ts'
import { FATES } from './link.ts'
import { FAULT_KINDS } from './plan.ts'
import type { RunReport } from './run.ts'

const HOUR_MS = 3_600_000

/** A run whose callers hardly ever meet a handler, or whose faults hardly ever strike, shows nothing. */
const RACING_CANCELS_MIN = 0.05
const STALE_SETTLES_MIN = 0.01

type Counts = Record<string, number>

export interface Summary {
  readonly runs: number
  readonly hours: number
  readonly events: number
  readonly byComposition: Readonly<Record<string, { readonly runs: number; readonly hours: number }>>
  readonly eventsByKind: Counts
  readonly faults: Counts
  readonly badCalls: Counts
  readonly schedules: number
  readonly cancels: number
  readonly racingCancels: number
  readonly settles: number
  readonly staleSettles: number
  readonly deliveries: number
  readonly pulled: number
  readonly settledElsewhere: number
  readonly duplicates: number
  readonly lostLeases: number
  readonly unknownOutcomes: number
  readonly transactions: number
  readonly committed: number
  readonly crashes: number
  readonly changes: number
  readonly conflicts: number
  readonly burials: number
  readonly violations: number
}

/** All runs together. */
export class Tally {
  readonly failures: { readonly seed: number; readonly violations: readonly Violation[] }[] = []
  readonly #byComposition: Partial<Record<Composition, { runs: number; hours: number }>> = {}
  readonly #sums: Counts = {}
  readonly #events: Counts = {}
  readonly #faults: Counts = {}
  readonly #fates: Counts = {}
  #simulatedMs = 0
  #runs = 0

  add({ seed, composition, simulatedMs, figures, fates, violations }: RunReport): void {
    this.#runs++
    this.#simulatedMs += simulatedMs
    const of = (this.#byComposition[composition] ??= { runs: 0, hours: 0 })
    of.runs++
    of.hours += simulatedMs / HOUR_MS
    const { events, faults, lateness: _, ...counts } = figures
    addTo(this.#events, events)
    addTo(this.#faults, faults)
    addTo(this.#fates, fates)
    addTo(this.#sums, counts)
    if (violations.length > 0) this.failures.push({ seed, violations })
  }

  get hours(): number {
    return this.#simulatedMs / HOUR_MS
  }

  get runs(): number {
    return this.#runs
  }

  summary(): Summary {
    const sum = (name: string) => this.#sums[name] ?? 0
    return {
      runs: this.#runs,
      hours: Math.round(this.hours),
      events: Object.values(this.#events).reduce((a, b) => a + b, 0),
      byComposition: Object.fromEntries(
        Object.entries(this.#byComposition).map(([name, { runs, hours }]) => [
          name,
          { runs, hours: Math.round(hours) },
        ]),
      ),
      eventsByKind: this.#events,
      faults: this.#faults,
      badCalls: this.#fates,
      schedules: sum('schedules'),
      cancels: sum('cancels'),
      racingCancels: sum('racingCancels'),
      settles: sum('settles'),
      staleSettles: sum('staleSettles'),
      deliveries: sum('starts'),
      pulled: sum('pulled'),
      settledElsewhere: sum('settledElsewhere'),
      duplicates: sum('duplicates'),
      lostLeases: sum('lostLeases'),
      unknownOutcomes: sum('unknownOutcomes'),
      transactions: sum('transactions'),
      committed: sum('committed'),
      crashes: sum('crashes'),
      changes: sum('changes'),
      conflicts: sum('conflicts'),
      burials: sum('burials'),
      violations: this.failures.reduce((total, { violations }) => total + violations.length, 0),
    }
  }

  /** Why these runs show little; empty: they were interesting. */
  boring(): string[] {
    const { cancels, racingCancels, settles, staleSettles, faults, badCalls } = this.summary()
    const reasons: string[] = []
    if (racingCancels < cancels * RACING_CANCELS_MIN)
      reasons.push(`only ${racingCancels} of ${cancels} cancels raced a claim`)
    if (staleSettles < settles * STALE_SETTLES_MIN)
      reasons.push(`only ${staleSettles} of ${settles} settles were stale`)
    for (const name of ['changes', 'conflicts', 'burials'])
      if (!this.#sums[name]) reasons.push(`there were no ${name}`)
    if (!this.#events['forgotten']) reasons.push('no claim was undone by a crash')
    if (!this.#sums['pulled']) reasons.push('nothing was pulled')
    if (!this.#sums['settledElsewhere']) reasons.push('nothing was settled at another process')
    for (const kind of FAULT_KINDS) if (!faults[kind]) reasons.push(`no ${kind} happened`)
    for (const fate of FATES) if (fate !== 'fine' && !badCalls[fate]) reasons.push(`no call was ${fate}`)
    return reasons
  }
}

function addTo(sums: Counts, more: Readonly<Counts>): void {
  for (const [name, count] of Object.entries(more)) sums[name] = (sums[name] ?? 0) + count
}
