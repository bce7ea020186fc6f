/**
 * A topic's settings have three layers. For each field, the live value overrides the value in the code, and the value
 * in the code overrides the default. The layers contain the values that users write, checked and normalized ('90s' →
 * '1m30s'). `settingsOf` converts the resulting values into the numbers that the runtime uses.
 */
import { CELLS, type SlotBy } from './cell.ts'
import { type Duration, durationMs, durationText, LONGEST_DURATION_MS } from './duration.ts'
import { describeValue, type Json, TocsinError } from '../errors.ts'
import { badOption, checkOptions, wholeNumber as checkWholeNumber } from './options.ts'
import type { RetryPolicy } from './retry.ts'

export interface TopicConfig {
  /**
   * Number of slots, each of which one process pulls: a power of two from 1 to 64; 16 by default. The value in the code
   * counts only when the topic is created. The live value can change at any time.
   */
  readonly slots?: number | undefined
  /**
   * The part of a task's key that decides its slot: the whole 'key', or its 'prefix', the part before the first ':'.
   * 'key' by default. Fixed when the topic is created.
   */
  readonly slotBy?: SlotBy | undefined
  /** Maximum number of tasks per call of a batch handler: 1–10,000; 500 by default. */
  readonly batchSize?: number | undefined
  /**
   * How long the first task of a batch waits for more tasks, unless the batch is full before: at most 1m, 5ms by
   * default, 0 for no wait. It affects only batch handlers.
   */
  readonly linger?: Duration | undefined
  /**
   * How long a claim holds a task before another consumer may claim the task: 30s by default. The lease is extended
   * while the handler runs.
   */
  readonly lease?: Duration | undefined
  /** How long a handler may run before the attempt counts as failed. 5m by default. */
  readonly timeout?: Duration | undefined
  /**
   * Ring times are rounded up to a multiple of this duration, so that tasks of one prefix ring at the same time and
   * come in one batch. By default, ring times are not rounded.
   */
  readonly merge?: Duration | undefined
  /** With a ledger, how long before its time a task is loaded into the timetable. 1h by default. */
  readonly resident?: Duration | undefined
  /** With a ledger, how long ended tasks are kept. 1w by default. */
  readonly retention?: Duration | undefined
  readonly retry?: RetryConfig | undefined
  /**
   * All nodes together claim at most `limit` tasks in any span of `per`; on average only, if `limit` is below the
   * number of slots. By default there is no limit.
   */
  readonly rate?: { readonly limit: number; readonly per: Duration } | undefined
  /**
   * What happens to a task that is claimed more than `after` past its time: 'fire' delivers it, 'drop' ends it as
   * obsolete, 'dead' makes it dead. By default the task fires.
   */
  readonly late?: { readonly after: Duration; readonly then: 'fire' | 'drop' | 'dead' } | undefined
  /** The target lateness of the topic. A task that fires later emits a 'late' event. By default there is no target. */
  readonly objective?: { readonly p99: Duration } | undefined
  /**
   * With PostgreSQL, claims do not wait until they are on disk (`synchronous_commit = off`); outcomes and all other
   * writes do. If PostgreSQL crashes within about 0.6 s after a claim, the task may be pending again: it is delivered
   * again, and `cancel` may answer 'cancelled' although its handler has started. False by default. Other stores ignore it.
   */
  readonly fastClaims?: boolean | undefined
}

export interface RetryConfig {
  /** Number of failed attempts after which the task is dead: 1–999; 16 by default. */
  readonly maxAttempts?: number | undefined
  /** 'exponential' (default) doubles the wait after each failed attempt; 'fixed' always waits `min`. */
  readonly backoff?: 'exponential' | 'fixed' | undefined
  /** The first wait. 1s by default. */
  readonly min?: Duration | undefined
  /** The longest wait, before jitter is applied. 5m by default. */
  readonly max?: Duration | undefined
  /** Each wait is randomly lengthened or shortened by up to this fraction, from 0 to 1. 0.2 by default. */
  readonly jitter?: number | undefined
}

/** The fields that can change while a topic runs. Null removes the live value of a field. */
export type LiveConfig = { readonly [K in Exclude<keyof TopicConfig, 'slotBy'>]?: TopicConfig[K] | null }

export interface ConfigView {
  readonly version: number
  readonly effective: TopicConfig
  readonly live: TopicConfig
  readonly code: TopicConfig
  readonly paused: boolean
}

/**
 * The effective configuration, with durations in ms. `rate`, `late` and `objectiveP99Ms` are null if they are not set.
 */
export interface Settings {
  readonly slots: number
  readonly slotBy: SlotBy
  readonly batchSize: number
  readonly lingerMs: number
  readonly leaseMs: number
  readonly timeoutMs: number
  /** 0 if ring times are not rounded. */
  readonly mergeMs: number
  readonly retry: RetryPolicy
  readonly rate: { readonly limit: number; readonly perMs: number } | null
  readonly late: { readonly afterMs: number; readonly then: 'fire' | 'drop' | 'dead' } | null
  readonly objectiveP99Ms: number | null
  readonly fastClaims: boolean
  readonly residentMs: number
  readonly retentionMs: number
}

export const DEFAULT_CONFIG = {
  slots: 16,
  slotBy: 'key',
  batchSize: 500,
  linger: '5ms',
  lease: '30s',
  timeout: '5m',
  resident: '1h',
  retention: '1w',
  retry: { maxAttempts: 16, backoff: 'exponential', min: '1s', max: '5m', jitter: 0.2 },
  fastClaims: false,
} as const satisfies TopicConfig

type Rule = (value: unknown, path: string) => unknown

const RETRY_RULES: Record<keyof RetryConfig, Rule> = {
  // At most 999, because the last three digits of a task's sort key (score) are its failures (instant.ts).
  maxAttempts: wholeNumber(1, 999),
  backoff: oneOf('exponential', 'fixed'),
  min: duration(0),
  max: duration(0),
  jitter: fraction,
}

const RULES: Record<keyof TopicConfig, Rule> = {
  slots: slotCount,
  slotBy: oneOf('key', 'prefix'),
  batchSize: wholeNumber(1, 10_000),
  linger: duration(0, 60_000),
  lease: duration(10),
  timeout: duration(1),
  merge: duration(0),
  resident: duration(1_000),
  retention: duration(0),
  retry: (value, path) => shaped(value, path, RETRY_RULES),
  rate: (value, path) =>
    shaped(value, path, { limit: wholeNumber(1, 10_000_000), per: duration(1) }, ['limit', 'per']),
  late: (value, path) =>
    shaped(value, path, { after: duration(0), then: oneOf('fire', 'drop', 'dead') }, ['after', 'then']),
  objective: (value, path) => shaped(value, path, { p99: duration(0) }, ['p99']),
  fastClaims: trueOrFalse,
}

export const CONFIG_FIELDS = Object.keys(RULES)

/** Checks the settings in the code. Returns them normalized and without undefined fields. */
export function checkConfig(config: unknown, where: string): TopicConfig {
  checkOptions(config, CONFIG_FIELDS, where, 'bad-config', '')
  return within(where, () => checkFields(config as object, '', RULES)) as TopicConfig
}

/** Returns the live layer after a patch. Throws if any field of the patch is invalid. */
export function patchLive(live: TopicConfig, patch: unknown, where: string): TopicConfig {
  const { slotBy: _, ...liveRules } = RULES
  if (patch !== null && typeof patch === 'object' && 'slotBy' in patch)
    throw new TocsinError(
      'bad-config',
      `${where}: slotBy places the tasks and is fixed when a topic is created`,
      { field: 'slotBy' },
    )
  checkOptions(patch, Object.keys(liveRules), where, 'bad-config', '')
  const given = patch as Record<string, unknown>
  const cleared = Object.keys(given).filter((name) => given[name] === null)
  const changed = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null))
  const set = within(where, () => checkFields(changed, '', liveRules))
  const merged = layered(live, set as TopicConfig) as Record<string, unknown>
  for (const name of cleared) delete merged[name]
  return merged as TopicConfig
}

export function effectiveConfig(code: TopicConfig, live: TopicConfig): TopicConfig {
  return layered(layered(DEFAULT_CONFIG, code), live)
}

/** Returns the fields whose value in the code differs from the effective value. */
export function driftOf(
  code: TopicConfig,
  effective: TopicConfig,
): { field: string; code: Json; effective: Json }[] {
  const rows: { field: string; code: Json; effective: Json }[] = []
  const compare = (inCode: object, actual: object, path: string) => {
    for (const [name, value] of Object.entries(inCode)) {
      const inForce = (actual as Record<string, unknown>)[name]
      if (value !== null && typeof value === 'object')
        compare(value, (inForce ?? {}) as object, `${path}${name}.`)
      else if (value !== inForce)
        rows.push({ field: path + name, code: value as Json, effective: (inForce ?? null) as Json })
    }
  }
  compare(code, effective, '')
  return rows
}

/**
 * Converts the effective configuration into numbers. Throws if values contradict each other. With `isLenient`, adapts
 * these values instead: live values may contradict newer code, and the topic must still run.
 */
export function settingsOf(effective: TopicConfig, where: string, isLenient = false): Settings {
  const full = layered(DEFAULT_CONFIG, effective)
  const retry = full.retry as { [K in keyof RetryConfig]-?: NonNullable<RetryConfig[K]> }
  const ms = (value: Duration | undefined, field: string) =>
    within(where, () => durationMs(value ?? 0, field))
  let policy: RetryPolicy = {
    maxAttempts: retry.maxAttempts,
    backoff: retry.backoff,
    minMs: ms(retry.min, 'retry.min'),
    maxMs: ms(retry.max, 'retry.max'),
    jitter: retry.jitter,
  }
  if (policy.minMs > policy.maxMs) {
    if (!isLenient)
      throw new TocsinError(
        'bad-config',
        `${where}.retry: min (${retry.min}) is longer than max (${retry.max})`,
        { field: 'retry' },
      )
    policy = { ...policy, maxMs: policy.minMs }
  }
  return {
    slots: full.slots ?? DEFAULT_CONFIG.slots,
    slotBy: full.slotBy ?? DEFAULT_CONFIG.slotBy,
    batchSize: full.batchSize ?? DEFAULT_CONFIG.batchSize,
    lingerMs: ms(full.linger, 'linger'),
    leaseMs: ms(full.lease, 'lease'),
    residentMs: ms(full.resident, 'resident'),
    retentionMs: ms(full.retention, 'retention'),
    timeoutMs: ms(full.timeout, 'timeout'),
    mergeMs: ms(full.merge, 'merge'),
    retry: policy,
    rate: full.rate === undefined ? null : { limit: full.rate.limit, perMs: ms(full.rate.per, 'rate.per') },
    late:
      full.late === undefined ? null : { afterMs: ms(full.late.after, 'late.after'), then: full.late.then },
    objectiveP99Ms: full.objective === undefined ? null : ms(full.objective.p99, 'objective.p99'),
    fastClaims: full.fastClaims ?? DEFAULT_CONFIG.fastClaims,
  }
}

/** Merges two layers field by field, also within `retry`: `maxAttempts: 3` in the code keeps the default `min`. */
function layered(under: TopicConfig, over: TopicConfig): TopicConfig {
  const retry =
    under.retry === undefined && over.retry === undefined ? {} : { retry: { ...under.retry, ...over.retry } }
  return { ...under, ...over, ...retry }
}

/**
 * Puts `where` (such as "topic 'order.unpaid'") in front of the message of an error about a setting. The `field` of the
 * error stays the path within the settings ('retry.min'), so that a program or a client of the HTTP API can find the
 * field in the settings that it sent.
 */
function within<T>(where: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!TocsinError.is(error)) throw error
    const { code, message, details } = error
    throw new TocsinError(code, `${where}.${message}`, details)
  }
}

/** Checks an object within the settings, such as `retry`. */
function shaped(
  value: unknown,
  path: string,
  rules: Record<string, Rule>,
  required: readonly string[] = [],
): object {
  checkOptions(value, Object.keys(rules), path, 'bad-config')
  const given = value as Record<string, unknown>
  for (const name of required) if (given[name] === undefined) throw bad(path, `'${name}' is missing`)
  return checkFields(given, path, rules)
}

/** Returns the fields that are not undefined, checked and normalized. `path` is '' at the top level of the settings. */
function checkFields(given: object, path: string, rules: Record<string, Rule>): object {
  const values = given as Record<string, unknown>
  const result: Record<string, unknown> = {}
  for (const [name, rule] of Object.entries(rules))
    if (values[name] !== undefined) result[name] = rule(values[name], path === '' ? name : `${path}.${name}`)
  return result
}

function wholeNumber(min: number, max: number): Rule {
  return (value, path) => checkWholeNumber(value, min, max, path, 'bad-config')
}

function slotCount(value: unknown, path: string): number {
  if (
    Number.isInteger(value) &&
    (value as number) >= 1 &&
    (value as number) <= CELLS &&
    Number.isInteger(Math.log2(value as number))
  )
    return value as number
  throw bad(path, `expected 1, 2, 4, 8, 16, 32 or 64, got ${describeValue(value)}`)
}

function fraction(value: unknown, path: string): number {
  if (typeof value === 'number' && value >= 0 && value <= 1) return value
  throw bad(path, `expected a number from 0 to 1, got ${describeValue(value)}`)
}

function trueOrFalse(value: unknown, path: string): boolean {
  if (typeof value === 'boolean') return value
  throw bad(path, `expected true or false, got ${describeValue(value)}`)
}

function oneOf(...allowed: string[]): Rule {
  return (value, path) => {
    if (allowed.includes(value as string)) return value
    throw bad(
      path,
      `expected ${allowed.map((word) => `'${word}'`).join(' or ')}, got ${describeValue(value)}`,
    )
  }
}

function duration(minMs: number, maxMs = LONGEST_DURATION_MS): Rule {
  return (value, path) => {
    const ms = durationMs(value as Duration, path)
    if (ms < minMs) throw bad(path, `expected at least ${durationText(minMs)}, got ${describeValue(value)}`)
    if (ms > maxMs) throw bad(path, `expected at most ${durationText(maxMs)}, got ${describeValue(value)}`)
    return durationText(ms)
  }
}

function bad(path: string, message: string): TocsinError {
  return badOption(path, message, 'bad-config')
}
