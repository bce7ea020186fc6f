import { LAST_INSTANT_MS } from './instant.ts'

/** 'at' and 'delay' set a new ring time. 'shift' moves a task relative to its current ring time. */
export interface RingTime {
  readonly kind: 'at' | 'delay' | 'shift'
  readonly ms: number
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
