import { atIndex } from './bulk.ts'
import { ALL_CELLS, cellOf } from '../values/cell.ts'
import { describeValue } from '../errors.ts'
import { checkKey, checkPrefix, checkTag } from '../values/key.ts'
import { badOption, checkOptions } from '../values/options.ts'
import type { Place, Selection } from '../timetable.ts'
import type { By } from './topic.ts'
import type { TopicSettings } from './topic-settings.ts'

/** Where the tasks of a topic lie: by their keys, by a prefix, or anywhere. What cannot be a key, tag or prefix is refused. */
export class TopicPlaces {
  readonly #settings: TopicSettings

  constructor(settings: TopicSettings) {
    this.#settings = settings
  }

  one(given: unknown): Place {
    const key = checkKey(given)
    return { key, cell: cellOf(key, this.#settings.current.slotBy) }
  }

  many(keys: readonly string[]): Place[] {
    if (!Array.isArray(keys)) throw badOption('keys', `expected an array of keys, got ${describeValue(keys)}`)
    return Array.from(keys, (given, i) => {
      try {
        return this.one(given)
      } catch (error) {
        throw keys.length === 1 ? error : atIndex(error, i, 'keys')
      }
    })
  }

  selection(by: By, where: string): Selection {
    checkOptions(by, ['tag', 'prefix'], where)
    const { tag, prefix } = by
    if ((tag === undefined) === (prefix === undefined))
      throw badOption(where, "give one of 'tag' and 'prefix'")
    return tag === undefined ? { prefix: checkPrefix(prefix) } : { tag: checkTag(tag) }
  }

  /** Where what is selected can be. */
  cellsOf(what: Selection): readonly number[] {
    const isAtHome = 'prefix' in what && this.#settings.current.slotBy === 'prefix'
    return isAtHome ? [cellOf(what.prefix, 'prefix')] : ALL_CELLS
  }
}
