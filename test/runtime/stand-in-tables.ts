/** What takes the place of a timetable of hints between a store and its ledger. */
import { TocsinError } from '../../src/errors.ts'
import type { Hint, HintTable } from '../../src/hint-table.ts'
import type { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { place } from '../contract/timetable/helpers.ts'
import type { Lives } from './ledger-life.ts'

const METHODS = [
  'claim',
  'look',
  'extend',
  'settle',
  'put',
  'cancel',
  'drop',
  'extent',
  'has',
  'find',
  'filling',
  'filledTo',
  'nowMs',
] as const

/** Every call fails, as one to a server that is not there. */
export function away(): Partial<HintTable> {
  const fail = () => Promise.reject(new TocsinError('timetable-unavailable', 'it is away'))
  return Object.fromEntries(METHODS.map((name) => [name, fail]))
}

/** From now on every call goes to another one. */
export function instead(table: MemoryTimetable): Partial<HintTable> {
  return Object.fromEntries(METHODS.map((name) => [name, (table[name] as () => unknown).bind(table)]))
}

/** As it was read from the ledger before somebody claimed it. */
export function hintOf(lives: Lives, key: string): Hint {
  return { ...place(key), ringMs: lives.clock.now(), failures: 0, priority: 'normal', isSuspect: false }
}
