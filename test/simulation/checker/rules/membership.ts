/**
 * L2: once all processes have had time to see the members, each slot has one owner among the processes that consume, each of
 * them has its share by capacity, only the owner claims there, and no slot moves. I15: no process is taken for dead that was not
 * silent for long enough, while the process that reports it was itself able to listen.
 */
import { cellOf } from '../../../../src/values/cell.ts'
import { BEAT_MS, GONE_MS } from '../../../../src/cluster/liveness.ts'
import type { CardEvent, ClaimEvent, SlotsEvent } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'
import { Stability } from '../stability.ts'

/** The first look finds the counter where it is, each further one adds two beats at most. */
const LOOKS_MIN = 1 + Math.ceil(GONE_MS / (2 * BEAT_MS))
/** Clocks of machines differ by so much while a death is noticed. */
const DRIFT_MS = 2
/** A claim that was sent before may still be under way. */
const UNDER_WAY_MS = 3_000

export function checkMembership({ history }: Truth, findings: Findings): void {
  const stability = new Stability(history.composition)
  const division = new Division()
  let settledSinceMs: number | null = null
  /** Processes that were closed while nothing was wrong: they took their cards down. */
  const left = new Set<string>()
  for (const event of history.events) {
    const isSettled = stability.isSettled(event.trueMs)
    if (isSettled && settledSinceMs === null) {
      settledSinceMs = event.trueMs
      for (const why of division.faults()) findings.add('L2', event.seq, why)
    }
    const clearMs = stability.clearSinceMs
    stability.observe(event)
    switch (event.kind) {
      case 'consume':
        division.consumers.set(event.life, event.capacity)
        break
      case 'life':
        if (event.phase === 'crashes' || event.phase === 'closes') division.consumers.delete(event.life)
        if (event.phase === 'closed' && event.trueMs > clearMs + UNDER_WAY_MS) left.add(event.life)
        break
      case 'record': {
        if (event.version === division.version) break
        division.version = event.version
        division.slots = event.slots
        stability.announced(event.trueMs)
        break
      }
      case 'slots':
        if (isSettled && division.consumers.has(event.life))
          findings.add('L2', event.seq, `${nameOf(event)}, though nothing had happened`)
        division.shares.set(event.life, event)
        break
      case 'claim':
        if (settledSinceMs !== null && event.trueMs > settledSinceMs + UNDER_WAY_MS)
          checkClaim(event, division, findings)
        break
      case 'card':
        checkBurial(event, findings)
        if (event.phase === 'buried' && left.has(event.of))
          findings.add('I15', event.seq, `${event.of} had left, and was found gone by ${event.life}`)
        break
      default:
    }
    if (!stability.isSettled(event.trueMs)) settledSinceMs = null
  }
}

/** Who has which slots, as each of them says. */
export class Division {
  /** Processes that take part, by what they can do at a time. */
  readonly consumers = new Map<string, number>()
  readonly shares = new Map<string, SlotsEvent>()
  version: number | null = null
  /** As it is in force. */
  slots = 0

  /** Why it is not as it must be. */
  faults(): string[] {
    if (this.version === null || this.consumers.size === 0) return []
    const found: string[] = []
    const owners = Array.from({ length: this.slots }, (): string[] => [])
    const all = [...this.consumers.values()].reduce((sum, one) => sum + one, 0)
    for (const [life, capacity] of this.consumers) {
      const share = this.shares.get(life)
      if (share?.slots !== this.slots) {
        found.push(`${life} deals ${share?.slots ?? 'no'} slots, where ${this.slots} are in force`)
        continue
      }
      for (const slot of share.owned) owners[slot]?.push(life)
      const fair = (this.slots * capacity) / all
      if (share.owned.length < Math.floor(fair) || share.owned.length > Math.ceil(fair))
        found.push(
          `${life} has ${share.owned.length} of ${this.slots} slots; its share is ${fair.toFixed(2)}`,
        )
    }
    if (found.length > 0) return found
    for (const [slot, lives] of owners.entries())
      if (lives.length !== 1)
        found.push(
          `slot ${slot} of ${this.slots} has ${lives.length === 0 ? 'no owner' : `${lives.length} owners: ${lives.join(', ')}`}`,
        )
    return found
  }
}

function checkClaim(
  { life, key, seq }: ClaimEvent,
  { consumers, shares }: Division,
  findings: Findings,
): void {
  const share = shares.get(life)
  if (share === undefined || !consumers.has(life)) return
  const slot = cellOf(key, 'key') % share.slots
  if (!share.owned.includes(slot))
    findings.add(
      'L2',
      seq,
      `${key} was claimed by ${life}, which does not own slot ${slot} of ${share.slots}`,
    )
}

function checkBurial({ phase, life, of, silentMs, looks, seq }: CardEvent, findings: Findings): void {
  if (phase === 'left') return
  const what = `${of} was taken for gone by ${life}`
  if (silentMs < GONE_MS - DRIFT_MS)
    findings.add('I15', seq, `${what}, ${silentMs.toFixed(0)} ms after it had beaten`)
  if (looks < LOOKS_MIN) findings.add('I15', seq, `${what}, which had looked only ${looks} times since`)
}

function nameOf({ life, owned, slots }: SlotsEvent): string {
  return `${life} took ${owned.length} of ${slots} slots`
}
