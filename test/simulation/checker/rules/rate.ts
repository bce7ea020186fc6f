/**
 * I20: in any span of the topic's rate, no process starts more tasks than the limit. Once each slot has one owner, all
 * consumers together do not either.
 */
import type { StartEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import { Stability } from '../stability.ts'
import type { Truth } from '../truth.ts'

/** A process measures the span with its own clock, which may run fast. */
const DRIFT_MS = 1

export function checkRate({ history }: Truth, findings: Findings): void {
  const { rate } = history
  if (rate === null) return
  const stability = new Stability(history.composition)
  const ofEach = new Map<string, SlidingSpan>()
  const ofConsumers = new SlidingSpan(rate.perMs - DRIFT_MS)
  let version: number | null = null
  let slots = Number.POSITIVE_INFINITY
  for (const event of history.events) {
    stability.observe(event)
    if (event.kind === 'record' && event.version !== version) {
      version = event.version
      slots = event.slots
      stability.announced(event.trueMs)
    }
    if (!stability.isSettled(event.trueMs)) ofConsumers.clear()
    if (event.kind !== 'start') continue
    const process = processOf(event)
    const ofProcess = ofEach.get(process) ?? new SlidingSpan(rate.perMs - DRIFT_MS)
    ofEach.set(process, ofProcess)
    const tell = (who: string, count: number) =>
      findings.add(
        'I20',
        event.seq,
        `${event.key} is the start number ${count} of ${who} within ${rate.perMs} ms, of ${rate.limit}`,
      )
    const count = ofProcess.add(event.trueMs)
    if (count > rate.limit) tell(process, count)
    // A limit below the number of slots holds only on average. What is pulled has its own part of the rate.
    if (event.token !== undefined || rate.limit < slots) continue
    const all = ofConsumers.add(event.trueMs)
    if (all > rate.limit && count <= rate.limit) tell('all consumers', all)
  }
}

/** The process that handed the task out, where a client pulled it. */
function processOf({ life }: StartEvent): string {
  return life.replace('>', '')
}

class SlidingSpan {
  readonly #spanMs: number
  #times: number[] = []

  constructor(spanMs: number) {
    this.#spanMs = spanMs
  }

  /** Adds a time, and returns how many lie in the span that ends with it. */
  add(trueMs: number): number {
    this.#times.push(trueMs)
    while (trueMs - (this.#times[0] as number) >= this.#spanMs) this.#times.shift()
    return this.#times.length
  }

  clear(): void {
    this.#times = []
  }
}
