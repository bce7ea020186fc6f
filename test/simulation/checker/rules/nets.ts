/**
 * L9: in a run in which nothing goes wrong, the safety nets have nothing to do. If processes only leave, no lease ends
 * without an outcome: a process that closes records the outcomes it has, and returns its other tasks. (Unless callers have
 * transactions: one of them may keep a row locked until its lease has ended.)
 */
import type { Event } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

const WORDS = {
  lease: 'a lease ended without an outcome',
  look: 'a look found what no wake had told',
  sweeper: 'the sweeper found what no hint would have rung',
} as const

/** Hints of writes that two processes make of one key within this time may arrive in another order than the writes. */
const RACE_MS = 100
/** In this time the sweeper has found what such a race has lost. */
const FOUND_WITHIN_MS = 10_000

export function checkNets({ history }: Truth, findings: Findings): void {
  const faults = history.events.filter(isFault)
  if (!faults.every(isLeaving)) return
  const hasTransactions = history.events.some((event) => event.kind === 'call' && event.tx !== null)
  let isPulled = false
  const races = new Races()
  for (const event of history.events) {
    if (event.kind === 'pull') isPulled = true
    races.see(event)
    if (event.kind !== 'net') continue
    if (faults.length > 0 && (event.net !== 'lease' || hasTransactions)) continue
    // A client that pulls may leave without a word: then its leases end.
    if (event.net === 'lease' && isPulled) continue
    if (event.net === 'sweeper' && races.explain(event.trueMs, event.count)) continue
    findings.add('L9', event.seq, `${WORDS[event.net]}, ${event.count} times, in a run without a fault`)
  }
}

function isFault(event: Event): boolean {
  return (
    (event.kind === 'fault' && event.phase === 'begin') ||
    (event.kind === 'life' && event.phase === 'crashes')
  )
}

function isLeaving(event: Event): boolean {
  return event.kind === 'fault' && event.fault === 'leave'
}

/** Two processes that write one key at the same time. Each tells the timetable by itself, after its own write. */
class Races {
  readonly #writes = new Map<string, { readonly life: string; readonly trueMs: number }>()
  #racesMs: number[] = []

  see(event: Event): void {
    if (event.kind !== 'write' && event.kind !== 'settle') return
    const { key, life, trueMs } = event
    const before = this.#writes.get(key)
    if (before !== undefined && before.life !== life && trueMs - before.trueMs < RACE_MS)
      this.#racesMs.push(trueMs)
    this.#writes.set(key, { life, trueMs })
  }

  /** Returns true if there were enough races for `count` lost hints. Each race explains one. */
  explain(nowMs: number, count: number): boolean {
    this.#racesMs = this.#racesMs.filter((atMs) => nowMs - atMs < FOUND_WITHIN_MS)
    return this.#racesMs.splice(0, count).length === count
  }
}
