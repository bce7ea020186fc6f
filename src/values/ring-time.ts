import { describeValue, TocsinError } from '../errors.ts'
import { durationMs } from './duration.ts'
import { instantMs, LAST_INSTANT_MS } from './instant.ts'

/**
 * When a task rings. `ms` is an instant ('at'), a time from now ('delay'), or a change of the current ring time
 * ('shift', negative for earlier).
 */
export interface RingTime {
  readonly kind: 'at' | 'delay' | 'shift'
  readonly ms: number
}

/** Parses `delay` or `at`. Throws unless exactly one of them is given. */
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

/** Returns the new ring time of a task, computed at `nowMs`. A shift is relative to `wasMs`, the current ring time. */
export function ringMsAt({ kind, ms }: RingTime, nowMs: number, wasMs: number, mergeMs: number): number {
  const wanted = kind === 'at' ? ms : kind === 'delay' ? nowMs + ms : wasMs + ms
  const rounded = mergeMs > 0 ? Math.ceil(wanted / mergeMs) * mergeMs : wanted
  return Math.min(Math.max(rounded, 0), LAST_INSTANT_MS)
}

/** Converts Infinity to null. Infinity means 'never' internally, so that times can be compared; answers use null. */
export function finiteOrNull(value: number): number | null {
  return Number.isFinite(value) ? value : null
}

function badTime(where: string, message: string): TocsinError {
  return new TocsinError('bad-time', `${where}: ${message}`, { field: where })
}
