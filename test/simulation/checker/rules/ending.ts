/** I1, I2, I10, L1: what there is at the end is what the events lead to, and nothing that was due is left. */
import type { FinalState } from '../../history.ts'
import type { Findings } from '../findings.ts'
import type { KeyState, LiveTask } from '../key-state.ts'
import { type Seen, seenOf } from '../visible-states.ts'
import type { Truth } from '../truth.ts'

export function checkEnding(truth: Truth, findings: Findings): void {
  const { ending } = truth.history
  const finals = new Map(ending.keys.map((final) => [final.key, final]))
  const known = new Set(truth.keys)
  for (const { key, state, version } of ending.keys)
    if (!known.has(key) && state !== 'none')
      findings.add('I2', -1, `${key} ${version} is ${state}, but nothing was ever written there`)
  for (const key of known) checkKey(truth, key, finals.get(key) ?? noneOf(key), findings)
}

/** The possible state that the ending shows; the first, if none does. */
export function stateAtEnd(truth: Truth, key: string, final: FinalState): KeyState {
  const at = truth.endsAt
  const possible = truth.possible(truth.stateAt(key, at.seq), at)
  const isShown = (state: KeyState) => seenOf(truth, state, at).some((seen) => isSame(seen, final))
  return possible.find(isShown) ?? (possible[0] as KeyState)
}

export function noneOf(key: string): FinalState {
  return { key, state: 'none', version: null, deadCause: null, failures: 0, dueMs: null }
}

function checkKey(truth: Truth, key: string, final: FinalState, findings: Findings): void {
  const at = truth.endsAt
  const state = stateAtEnd(truth, key, final)
  const seen = seenOf(truth, state, at)
  const same = seen.filter((one) => isSame(one, final))
  if (same.length === 0) {
    const [first] = seen
    const due = first?.dueMs === null ? '' : `, due ${first?.dueMs}`
    const is = `${final.state} ${final.version ?? ''}${final.dueMs === null ? '' : `, due ${final.dueMs}`}`
    findings.add('I1', -1, `${key} ${first?.version ?? ''} must be ${first?.state}${due}, but it is ${is}`)
    return
  }
  const { live } = state
  if (live !== null && ringsAtMs(truth, live) < truth.history.ending.settledBeforeMs)
    findings.add(
      'L1',
      -1,
      `${key} ${live.version} was due ${ringsAtMs(truth, live)}, and is still ${final.state}`,
    )
  const failures = same.map((one) => one.failures)
  if (!failures.includes(null) && !failures.includes(final.failures))
    findings.add('I10', -1, `${key} ${final.version} failed ${failures[0]} times, not ${final.failures}`)
  if (final.state === 'dead' && !same.some((one) => one.deadCause === final.deadCause))
    findings.add(
      'I10',
      -1,
      `${key} ${final.version} died of ${same[0]?.deadCause}, not of ${final.deadCause}`,
    )
}

function isSame(seen: Seen, final: FinalState): boolean {
  if (seen.state !== final.state) return false
  if (seen.state !== 'none' && seen.version !== final.version) return false
  return seen.dueMs === null || final.dueMs === null || seen.dueMs === final.dueMs
}

/** By the clock of record, as far as it is known: at least when it was due. */
function ringsAtMs({ history, endsAt }: Truth, { dueMs, ringMs, ringTrueMs }: LiveTask): number {
  const agoMs = ringTrueMs === null ? Number.POSITIVE_INFINITY : endsAt.trueMs - ringTrueMs
  return Math.max(dueMs ?? 0, ringMs ?? history.ending.recordMs - agoMs)
}
