/**
 * What programs/embedded/life.mjs recorded over many lives on one file, and what must hold of it: nothing that was
 * acknowledged is lost, nothing is early, nothing is delivered after it was said to be cancelled.
 */
import type { Entry } from '../program.ts'

export interface LifeEntry extends Entry {
  readonly v: number
  readonly inFlight: boolean
  readonly isIntact: boolean
  readonly walBytes: number
}

interface KeyHistory {
  /** By version, as the answers had it. */
  readonly dueMs: Map<number, number>
  readonly starts: Map<number, number>
  /** The version that was acknowledged last and not cancelled. */
  owed: number | null
  /** Versions up to this one must not start any more: at all, or in a later life. */
  overFor: { readonly v: number; readonly afterLife: number } | null
  /** Calls without a reply so far. If the process was killed, their outcome is unknown. */
  called: boolean
}

export class History {
  readonly #keys = new Map<string, KeyHistory>()
  readonly problems: string[] = []
  readonly counts = {
    lives: 0,
    scheduled: 0,
    replaced: 0,
    cancelled: 0,
    cancelledInFlight: 0,
    deliveries: 0,
    again: 0,
    unanswered: 0,
    dead: 0,
  }

  /** One life after the other, in the order of their records. */
  add(entries: readonly Entry[]): void {
    this.counts.lives++
    for (const entry of entries as readonly LifeEntry[]) {
      if (entry.event === 'call') this.#of(entry.key).called = true
      else if (entry.event === 'answer') this.#answered(entry)
      else if (entry.event === 'start') this.#started(entry)
      else if (entry.event === 'dead') this.counts.dead++
      else if (entry.event === 'unhandled') this.problems.push(`unhandled: ${entry.message}`)
    }
  }

  /** Keys that may be cancelled or replaced by the next life: acknowledged, nothing open, not delivered yet. */
  waiting(): { key: string; v: number }[] {
    return [...this.#keys].flatMap(([key, { owed, called, starts }]) =>
      owed === null || called || starts.has(owed) ? [] : [{ key, v: owed }],
    )
  }

  /** Acknowledged, not cancelled, and never delivered. After the last life there must be none. */
  lost(): string[] {
    this.counts.unanswered = [...this.#keys.values()].filter(({ called }) => called).length
    return this.waiting().map(({ key, v }) => `${key}#${v}`)
  }

  #answered({ key, v, name, outcome, dueMs, inFlight }: LifeEntry): void {
    const of = this.#of(key)
    of.called = false
    if (name === 'schedule') {
      of.dueMs.set(v, dueMs)
      of.owed = v
      of.overFor = v === 1 ? null : { v: v - 1, afterLife: inFlight ? this.counts.lives : 0 }
      this.counts[outcome === 'replaced' ? 'replaced' : 'scheduled']++
      return
    }
    // Before it was delivered it cannot be gone.
    if (outcome === 'not-found' && !of.starts.has(v)) this.problems.push(`${key}#${v} was not found`)
    if (outcome === 'not-found') return
    of.owed = null
    of.overFor = { v, afterLife: outcome === 'cancelled' ? 0 : this.counts.lives }
    this.counts[outcome === 'cancelled' ? 'cancelled' : 'cancelledInFlight']++
  }

  #started({ key, v, dueMs, nowMs, isIntact }: LifeEntry): void {
    const of = this.#of(key)
    const name = `${key}#${v}`
    const starts = (of.starts.get(v) ?? 0) + 1
    of.starts.set(v, starts)
    this.counts.deliveries++
    if (starts > 1) this.counts.again++
    if (!isIntact) this.problems.push(`${name} came with a wrong payload`)
    if (nowMs < dueMs) this.problems.push(`${name} came ${dueMs - nowMs} ms early`)
    const saidMs = of.dueMs.get(v)
    if (saidMs !== undefined && saidMs !== dueMs) this.problems.push(`${name} came with another due time`)
    const { overFor } = of
    if (overFor !== null && v <= overFor.v && this.counts.lives > overFor.afterLife)
      this.problems.push(`${name} came after it was said to be over`)
  }

  #of(key: string): KeyHistory {
    let of = this.#keys.get(key)
    if (of === undefined) {
      of = { dueMs: new Map(), starts: new Map(), owed: null, overFor: null, called: false }
      this.#keys.set(key, of)
    }
    return of
  }
}
