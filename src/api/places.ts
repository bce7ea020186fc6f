/** Converts the keys, tags and prefixes of a caller into places, selections and cells. Throws if they are invalid. */
import type { Place, Selection } from '../timetable.ts'
import { describeValue } from '../errors.ts'
import { ALL_CELLS, cellOf, type SlotBy } from '../values/cell.ts'
import { checkKey, checkPrefix, checkTag } from '../values/key.ts'
import { badOption, checkOptions } from '../values/options.ts'
import { atIndex } from './bulk.ts'
import type { By } from './topic.ts'

export function placeOf(given: unknown, slotBy: SlotBy): Place {
  const key = checkKey(given)
  return { key, cell: cellOf(key, slotBy) }
}

export function placesOf(keys: readonly string[], slotBy: SlotBy): Place[] {
  if (!Array.isArray(keys)) throw badOption('keys', `expected an array of keys, got ${describeValue(keys)}`)
  return Array.from(keys, (given, i) => {
    try {
      return placeOf(given, slotBy)
    } catch (error) {
      throw keys.length === 1 ? error : atIndex(error, i, 'keys')
    }
  })
}

export function selectionOf(by: By, where: string): Selection {
  checkOptions(by, ['tag', 'prefix'], where)
  const { tag, prefix } = by
  if ((tag === undefined) === (prefix === undefined)) throw badOption(where, "give one of 'tag' and 'prefix'")
  return tag === undefined ? { prefix: checkPrefix(prefix) } : { tag: checkTag(tag) }
}

/** Returns the cells that can have selected tasks: one cell if the prefix decides the cell, else all cells. */
export function cellsOf(what: Selection, slotBy: SlotBy): readonly number[] {
  return 'prefix' in what && slotBy === 'prefix' ? [cellOf(what.prefix, 'prefix')] : ALL_CELLS
}
