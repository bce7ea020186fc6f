/** Converts the library's values to JSON and back. Durations have units, and instants are in RFC 3339. */
import {
  checkConfig,
  type ConfigView,
  type LiveConfig,
  patchLive,
  type TopicConfig,
} from '../values/config.ts'
import { type Duration, durationMs, durationText } from '../values/duration.ts'
import { type Instant, instantMs } from '../values/instant.ts'
import { ringTime, shiftTime } from '../values/ring-time.ts'
import { checkOptions } from '../values/options.ts'
import { encodePayload } from '../values/payload.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, Task, TaskInfo, When } from '../task.ts'
import type { By, ForecastOptions, Shift } from '../api/topic.ts'

/** The JSON form of a value: dates are text. */
export type Wire<T> = T extends Date ? string : T extends object ? { [K in keyof T]: Wire<T[K]> } : T

const TASK_FIELDS = ['payload', 'delay', 'at', 'key', 'tags', 'priority', 'smear', 'onConflict'] as const

export function durationOut(value: Duration, field: string): string {
  return durationText(durationMs(value, field))
}

export function instantOut(value: Instant, field: string): string {
  return new Date(instantMs(value, field)).toISOString()
}

export function whenOut(when: When, where: string): { delay: string } | { at: string } {
  const { kind, ms } = ringTime(when, where)
  return kind === 'at' ? { at: new Date(ms).toISOString() } : { delay: durationText(ms) }
}

export function whenOrShiftOut(when: When | Shift): object {
  if (!('shift' in when) || when.shift === undefined) return whenOut(when as When, 'when')
  shiftTime(when)
  return { shift: when.shift }
}

/** Returns JSON text instead of an object, so that a payload is serialized only once. */
export function taskOut(task: NewTask<unknown>): string {
  checkOptions(task, TASK_FIELDS, 'task')
  const { payload, delay: _delay, at: _at, smear, ...others } = task
  const fields = {
    ...others,
    ...whenOut(task, 'task'),
    ...(smear === undefined ? {} : { smear: durationOut(smear, 'smear') }),
  }
  return `${JSON.stringify(fields).slice(0, -1)},"payload":${encodePayload(payload)}}`
}

export function configOut(config: TopicConfig, where: string): TopicConfig {
  return checkConfig(config, where)
}

/** Returns the checked patch. Keeps the nulls of the patch, because null resets a setting. */
export function patchOut(patch: LiveConfig, where: string): LiveConfig {
  const set = patchLive({}, patch, where)
  const given = Object.entries(patch).filter(([, value]) => value === null)
  return { ...set, ...(Object.fromEntries(given) as LiveConfig) }
}

/** Returns the query string of a URL; '' if no field is set. */
export function queryOut(fields: Readonly<Record<string, string | number | null | undefined>>): string {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(fields))
    if (value !== undefined && value !== null) query.set(name, String(value))
  return query.size === 0 ? '' : `?${query.toString()}`
}

/** Parses an instant. Throws if the text is not an instant, because then the answer is not from Tocsin. */
export function dateIn(text: string): Date {
  const date = new Date(text)
  if (typeof text !== 'string' || Number.isNaN(date.getTime())) throw new TypeError('expected an instant')
  return date
}

export function scheduledIn({ key, dueAt, outcome, inFlight }: Wire<Scheduled>): Scheduled {
  return { key, dueAt: dateIn(dueAt), outcome, inFlight }
}

export function rescheduledIn({ key, outcome, dueAt }: Wire<Rescheduled>): Rescheduled {
  return { key, outcome, dueAt: dueAt === null ? null : dateIn(dueAt) }
}

/** A task as JSON. The payload is not converted. */
export type WireTask<T extends Task<unknown> | TaskInfo<unknown>> = Wire<Omit<T, 'payload'>> & {
  payload: unknown
}

export function taskInfoIn<Out>(task: WireTask<TaskInfo<unknown>>): TaskInfo<Out> {
  return {
    ...task,
    payload: task.payload as Out,
    dueAt: dateIn(task.dueAt),
    createdAt: dateIn(task.createdAt),
    updatedAt: dateIn(task.updatedAt),
  }
}

export interface ForecastAnswer {
  readonly topics: readonly {
    readonly topic: string
    readonly steps: readonly { at: string; due: number }[]
  }[]
}

export function forecastOut({ from, to, step }: ForecastOptions): Record<string, string | undefined> {
  return {
    from: from === undefined ? undefined : instantOut(from, 'from'),
    to: instantOut(to, 'to'),
    step: step === undefined ? undefined : durationOut(step, 'step'),
  }
}

export function stepsIn(steps: ForecastAnswer['topics'][number]['steps']): { at: Date; due: number }[] {
  return steps.map(({ at, due }) => ({ at: dateIn(at), due }))
}

/** Omits fields that a newer server may add. */
export function configIn({ version, effective, live, code, paused }: ConfigView): ConfigView {
  return { version, effective, live, code, paused }
}

export function cancelledIn({ key, outcome }: Cancelled): Cancelled {
  return { key, outcome }
}

export function byOut({ tag, prefix }: By): object {
  return { tag, prefix }
}
