/**
 * I22: a batch handler is called with what came within the linger, not with each claim by itself. So two calls of one
 * process that are not nearly full are at least one linger apart.
 */
import type { Event, History, RecordEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

/** Of the topic, unless an operator changed one of them: then nothing is checked. */
const LINGER_MS = 5
const BATCH_SIZE = 20
/** A process measures the linger with its own clock. */
const DRIFT_MS = 1
/** Some tasks of a full batch may be refused when it starts. */
const SMALL = BATCH_SIZE / 2
/** After a fault or a change of the settings, it takes so long until all leases, links and settings are as usual. */
const USUAL_MS = 15_000

interface BatchCall {
  readonly life: string
  readonly trueMs: number
  readonly seq: number
  readonly keys: string[]
}

export function checkBatches({ history, claims }: Truth, findings: Findings): void {
  // If the rate is used up, a batch does not linger.
  if (history.rate !== null) return
  // A task that lost a lease may become a suspect, and a suspect ends the linger.
  const lost = claims.find(({ kind, event }) => kind === 'taken-over' || event.isAlone)
  const untilSeq = lost?.event.seq ?? Number.POSITIVE_INFINITY
  const before = new Map<string, BatchCall>()
  for (const call of callsOf(history, untilSeq)) {
    const last = before.get(call.life)
    before.set(call.life, call)
    if (last === undefined || last.keys.length > SMALL || call.keys.length > SMALL) continue
    const apartMs = call.trueMs - last.trueMs
    if (apartMs >= LINGER_MS - DRIFT_MS) continue
    const sizes = `${call.keys.length} tasks (${call.keys[0]} …), ${apartMs.toFixed(1)} ms after ${last.keys.length}`
    findings.add('I22', call.seq, `${call.life} called its batch handler with ${sizes}`)
  }
}

/** Returns the calls of batch handlers in times in which nothing but the linger decides when a batch starts. */
function callsOf({ events }: History, untilSeq: number): Iterable<BatchCall> {
  const calls = new Map<number, BatchCall>()
  const usual = new UsualTimes()
  for (const event of events) {
    if (event.seq >= untilSeq || isLoss(event)) break
    usual.observe(event)
    if (event.kind !== 'start' || event.batch === undefined || !usual.isUsual(event.trueMs)) continue
    const { life, trueMs, seq, key, batch } = event
    const call = calls.get(batch)
    if (call === undefined) calls.set(batch, { life, trueMs, seq, keys: [key] })
    else call.keys.push(key)
  }
  return calls.values()
}

function isLoss(event: Event): boolean {
  return event.kind === 'settle' && event.outcome.kind === 'lost'
}

/** Neither faults nor other settings than those in the code. */
class UsualTimes {
  #isFaulty = false
  #isConfigured = false
  #sinceMs = Number.NEGATIVE_INFINITY

  isUsual(trueMs: number): boolean {
    return !this.#isFaulty && !this.#isConfigured && trueMs >= this.#sinceMs
  }

  observe(event: Event): void {
    if (event.kind === 'fault') this.#isFaulty = event.fault !== 'all'
    else if (event.kind === 'record') this.#isConfigured = isConfigured(event)
    else return
    if (event.kind === 'fault' || event.op === 'change') this.#sinceMs = event.trueMs + USUAL_MS
  }
}

function isConfigured({ content }: RecordEvent): boolean {
  return /"(linger|batchSize)"/.test(content)
}
