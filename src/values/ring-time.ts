import { LAST_INSTANT_MS } from './instant.ts'

/** `shift` moves a task relative to its present ring time; 'at' and 'delay' set a new one. */
export interface RingTime {
  readonly kind: 'at' | 'delay' | 'shift'
  readonly ms: number
}

/** When a task rings that is asked for `when` at `nowMs`; `wasMs` is where a shift starts from. */
export function ringMsAt({ kind, ms }: RingTime, nowMs: number, wasMs: number, mergeMs: number): number {
  const wanted = kind === 'at' ? ms : kind === 'delay' ? nowMs + ms : wasMs + ms
  const rounded = mergeMs > 0 ? Math.ceil(wanted / mergeMs) * mergeMs : wanted
  return Math.min(Math.max(rounded, 0), LAST_INSTANT_MS)
}

/** Infinity is how never is computed with; null is how it is told. */
export function finiteOrNull(value: number): number | null {
  return Number.isFinite(value) ? value : null
}
