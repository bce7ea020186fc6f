import { LAST_INSTANT_MS } from './instant.ts'

/** 'shift' moves a task relative to its current ring time; 'at' and 'delay' set a new one. */
export interface RingTime {
  readonly kind: 'at' | 'delay' | 'shift'
  readonly ms: number
}

/** Returns the ring time of a task at `nowMs`. `wasMs` is its current ring time, for a shift. */
export function ringMsAt({ kind, ms }: RingTime, nowMs: number, wasMs: number, mergeMs: number): number {
  const wanted = kind === 'at' ? ms : kind === 'delay' ? nowMs + ms : wasMs + ms
  const rounded = mergeMs > 0 ? Math.ceil(wanted / mergeMs) * mergeMs : wanted
  return Math.min(Math.max(rounded, 0), LAST_INSTANT_MS)
}

/** Internally 'never' is Infinity, so that times can be compared; in answers it is null. */
export function finiteOrNull(value: number): number | null {
  return Number.isFinite(value) ? value : null
}
