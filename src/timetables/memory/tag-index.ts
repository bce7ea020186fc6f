import type { Entry } from './entry.ts'

/** The live tasks of a cell by tag. Tasks without tags take no memory here. */
export class TagIndex {
  readonly #byTag = new Map<string, Set<Entry>>()

  add(entry: Entry): void {
    for (const tag of entry.tags ?? []) {
      const tagged = this.#byTag.get(tag)
      if (tagged === undefined) this.#byTag.set(tag, new Set([entry]))
      else tagged.add(entry)
    }
  }

  remove(entry: Entry): void {
    for (const tag of entry.tags ?? []) {
      const tagged = this.#byTag.get(tag)
      tagged?.delete(entry)
      if (tagged?.size === 0) this.#byTag.delete(tag)
    }
  }

  with(tag: string): Iterable<Entry> {
    return this.#byTag.get(tag) ?? []
  }
}
