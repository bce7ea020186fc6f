/**
 * Converts what a handler or guard returned or threw into a verdict, and a verdict into an outcome. Pure functions that
 * never throw.
 */
import { backoffMs, type RetryPolicy } from '../values/retry.ts'
import { durationMs } from '../values/duration.ts'
import { nearest } from '../values/options.ts'
import { boundedText, describeError, describeValue, TocsinError } from '../errors.ts'
import type { SettleOutcome } from '../timetable.ts'

export type Verdict =
  /** `ignored` describes what the handler returned, if that was neither nothing nor an outcome. */
  | { readonly kind: 'done'; readonly ignored?: string }
  | { readonly kind: 'obsolete' }
  | { readonly kind: 'snooze'; readonly delayMs: number }
  /** If `delayMs` is null, the topic's backoff determines the delay of the retry. */
  | {
      readonly kind: 'failed'
      readonly delayMs: number | null
      readonly error: string
      readonly stack?: string | undefined
    }
  | { readonly kind: 'dead'; readonly error: string }

export const DONE = Object.freeze({ kind: 'done' } as const) satisfies Verdict
export const OBSOLETE: Verdict = Object.freeze({ kind: 'obsolete' })

export function failure(thrown: unknown): Verdict {
  return { kind: 'failed', delayMs: null, error: describeError(thrown), stack: stackOf(thrown) }
}

function stackOf(thrown: unknown): string | undefined {
  try {
    const stack: unknown = thrown instanceof Error ? thrown.stack : undefined
    return typeof stack === 'string' ? stack : undefined
  } catch {
    // `stack` may be a getter in the user's code that throws.
    return undefined
  }
}

const OUTCOME_NAMES = ['snooze', 'retry', 'dead'] as const
const KNOWN_KEYS: readonly string[] = [...OUTCOME_NAMES, 'reason']

/**
 * Returns the verdict for what a handler returned. A value that is not an outcome is ignored: the handler ended without
 * an error, so its task is done. Something like an outcome, such as `{ snoze: '5m' }`, is a failure, because the task
 * would be lost if a misspelt `snooze` or `retry` were taken for 'done'.
 */
export function verdictOf(returned: unknown): Verdict {
  if (returned === undefined || returned === null) return DONE
  try {
    const outcome = returned as Record<string, unknown>
    const named =
      typeof returned === 'object' ? OUTCOME_NAMES.filter((name) => outcome[name] !== undefined) : []
    if (named.length === 0 && !isLikeOutcome(returned))
      return { kind: 'done', ignored: describeValue(returned) }
    if (named.length > 1)
      throw badOutcome(`${named.map(describeValue).join(' and ')} at once; return one of them`)
    if (named.length === 0) throw badOutcome(misspelt(returned))
    if (named[0] === 'snooze')
      return { kind: 'snooze', delayMs: durationMs(outcome['snooze'] as number, 'snooze') }
    if (named[0] === 'dead') return { kind: 'dead', error: text(outcome['dead'], 'rejected by its handler') }
    const delayMs = durationMs(outcome['retry'] as number, 'retry')
    return { kind: 'failed', delayMs, error: text(outcome['reason'], 'its handler asked for a retry') }
  } catch (thrown) {
    return failure(thrown)
  }
}

/** Returns true for an object if each of its keys, apart from `reason`, is the name of an outcome or misspells one. */
function isLikeOutcome(returned: unknown): boolean {
  if (typeof returned !== 'object' || returned === null) return false
  const keys = Object.keys(returned).filter((key) => key !== 'reason')
  return keys.length > 0 && keys.every((key) => nearest(key, OUTCOME_NAMES) !== null)
}

function misspelt(returned: unknown): string {
  const others = Object.keys(Object(returned)).filter((key) => !KNOWN_KEYS.includes(key))
  const typo = others.find((key) => nearest(key, OUTCOME_NAMES) !== null)
  return typo === undefined
    ? `${describeValue(returned)}; return nothing, { snooze }, { retry } or { dead }`
    : `an object with ${describeValue(typo)}; did you mean '${nearest(typo, OUTCOME_NAMES)}'?`
}

function badOutcome(problem: string): TocsinError {
  return new TocsinError('bad-outcome', `the handler returned ${problem}`)
}

function text(value: unknown, otherwise: string): string {
  return value === undefined
    ? otherwise
    : boundedText(typeof value === 'string' ? value : describeValue(value))
}

/**
 * Returns one verdict per task for what a batch handler returned. The handler returns nothing if all tasks are done.
 * Otherwise it returns an array with one outcome, or one result of `Promise.allSettled`, per task, in order. A value that
 * is neither is ignored, as by `verdictOf`. An outcome outside of an array is a failure, because it does not say which
 * tasks it is for.
 */
export function verdictsOf(returned: unknown, count: number): Verdict[] {
  if (returned === undefined || returned === null) return new Array<Verdict>(count).fill(DONE)
  if (!Array.isArray(returned)) {
    const verdict = verdictOf(returned)
    return new Array<Verdict>(count).fill(verdict.kind === 'done' ? verdict : verdictOfWrongBatch(returned))
  }
  if (returned.length !== count) return new Array<Verdict>(count).fill(wrongCount(returned.length, count))
  // `map` would skip the holes of a sparse array.
  return Array.from(returned, (one: unknown) =>
    isSettledResult(one) ? verdictOfSettled(one) : verdictOf(one),
  )
}

function verdictOfWrongBatch(returned: unknown): Verdict {
  const message = `the batch handler returned ${describeValue(returned)}; return nothing, or an array with one outcome per task`
  return failure(new TocsinError('bad-outcome', message))
}

function wrongCount(got: number, expected: number): Verdict {
  const message = `outcome-count: ${got} outcomes for ${expected} tasks; they cannot be matched, so all of these attempts failed`
  return failure(new TocsinError('outcome-count', message))
}

function isSettledResult(value: unknown): value is PromiseSettledResult<unknown> {
  if (value === null || typeof value !== 'object' || !('status' in value)) return false
  return value.status === 'fulfilled' || value.status === 'rejected'
}

function verdictOfSettled(result: PromiseSettledResult<unknown>): Verdict {
  return result.status === 'fulfilled' ? verdictOf(result.value) : failure(result.reason)
}

/**
 * Returns the outcome for a verdict. This is the only place that counts failures: the last allowed failure makes the
 * task dead. `fraction`, a random number from 0 to 1, decides the jitter of the backoff.
 */
export function settleOutcomeOf(
  verdict: Verdict,
  failuresBefore: number,
  retry: RetryPolicy,
  fraction: number,
): SettleOutcome {
  switch (verdict.kind) {
    case 'done':
      return DONE
    case 'obsolete':
    case 'snooze':
      return verdict
    case 'dead':
      return { kind: 'dead', cause: 'handler', error: verdict.error, failed: false }
    case 'failed': {
      const failures = failuresBefore + 1
      if (failures >= retry.maxAttempts)
        return { kind: 'dead', cause: 'attempts', error: verdict.error, failed: true }
      return {
        kind: 'retry',
        delayMs: verdict.delayMs ?? backoffMs(retry, failures, fraction),
        error: verdict.error,
      }
    }
  }
}
