/** Converts a caller's task into an entry for the store. Throws if any field is invalid. */
import { cellOf, type SlotBy } from '../values/cell.ts'
import { durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import { instantMs } from '../values/instant.ts'
import { checkKey, checkTags } from '../values/key.ts'
import { checkOptions, nearest } from '../values/options.ts'
import { encodePayload } from '../values/payload.ts'
import type { Random } from '../random.ts'
import { type NewTask, type OnConflict, PRIORITIES, type Priority } from '../task.ts'
import type { NewEntry } from '../timetable.ts'
import type { RingTime } from '../values/ring-time.ts'

const TASK_FIELDS = ['payload', 'delay', 'at', 'key', 'tags', 'priority', 'smear', 'onConflict'] as const

export function newEntry(task: NewTask<unknown>, slotBy: SlotBy, random: Random): NewEntry {
  checkOptions(task, TASK_FIELDS, 'task')
  const key = task.key === undefined ? random.uniqueId() : checkKey(task.key)
  return {
    key,
    cell: cellOf(key, slotBy),
    body: encodePayload(task.payload),
    when: smeared(ringTime(task, 'task'), task.smear, random),
    priority: checkPriority(task.priority),
    tags: checkTags(task.tags),
    onConflict: checkOnConflict(task.onConflict),
  }
}

export function ringTime(when: { delay?: unknown; at?: unknown }, where: string): RingTime {
  const { delay, at } = when
  if (delay !== undefined && at !== undefined)
    throw badTime(where, "both 'delay' and 'at' are given; use one of them")
  if (delay !== undefined) return { kind: 'delay', ms: durationMs(delay as number, 'delay') }
  if (at !== undefined) return { kind: 'at', ms: instantMs(at as number, 'at') }
  throw badTime(where, "neither 'delay' nor 'at' is given; say when, like { delay: '30m' }")
}

/** Parses a shift, such as '+10m' or '-1h', which is relative to the current ring time of each task. */
export function shiftTime({ shift, delay, at }: { shift: unknown; delay?: unknown; at?: unknown }): RingTime {
  if (delay !== undefined || at !== undefined) throw badTime('when', "use one of 'shift', 'delay' and 'at'")
  if (typeof shift !== 'string' || !/^[+-]/.test(shift))
    throw badTime('shift', `${describeValue(shift)} needs a sign and a unit, like '+10m' or '-1h'`)
  const ms = durationMs(shift.slice(1), 'shift')
  return { kind: 'shift', ms: shift.startsWith('-') ? -ms : ms }
}

function smeared(when: RingTime, smear: unknown, random: Random): RingTime {
  if (smear === undefined) return when
  const spanMs = durationMs(smear as number, 'smear')
  return { kind: when.kind, ms: when.ms + Math.floor(random.fraction() * (spanMs + 1)) }
}

function checkPriority(value: unknown): Priority {
  if (value === undefined) return 'normal'
  return oneOf(value, PRIORITIES, 'priority')
}

function checkOnConflict(value: unknown): OnConflict {
  if (value === undefined) return 'replace'
  return oneOf(value, ['replace', 'keep'], 'onConflict')
}

function oneOf<T extends string>(value: unknown, allowed: readonly T[], field: string): T {
  if (allowed.includes(value as T)) return value as T
  const near = typeof value === 'string' ? nearest(value, allowed) : null
  const hint = near === null ? `use ${allowed.join(', ')}` : `did you mean '${near}'?`
  throw new TocsinError('bad-option', `${field}: ${describeValue(value)}; ${hint}`, { field, hint })
}

function badTime(where: string, message: string): TocsinError {
  return new TocsinError('bad-time', `${where}: ${message}`, { field: where })
}
