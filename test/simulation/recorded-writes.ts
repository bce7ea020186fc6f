import type { NewEntry, ScheduleAnswer } from '../../src/timetable.ts'
import type { WriteEvent } from './history.ts'
import { type ToldWrite, versionOf } from './recorder.ts'

/** A replay of named keys, or a sweep that passes superseded tasks over. */
export const REPLAY_OPS = { any: 'replay', newest: 'replay-newest' } as const

/** What a caller's write was, in the words of the history. */
export function write(
  life: string,
  op: WriteEvent['op'],
  key: string,
  outcome: string,
  more: Partial<Omit<WriteEvent, 'kind' | 'seq' | 'trueMs'>> = {},
): ToldWrite {
  return {
    kind: 'write',
    life,
    op,
    key,
    outcome,
    version: null,
    dueMs: null,
    inFlight: false,
    nowMs: 0,
    tx: null,
    body: null,
    tags: [],
    priority: null,
    ...more,
  }
}

export function scheduleWrite(
  life: string,
  entry: NewEntry,
  answer: ScheduleAnswer,
  nowMs: number,
): ToldWrite {
  return write(life, 'schedule', entry.key, answer.outcome, {
    version: versionOf(entry.body),
    dueMs: answer.dueMs,
    inFlight: answer.inFlight,
    nowMs,
    body: entry.body,
    tags: entry.tags ?? [],
    priority: entry.priority,
  })
}
