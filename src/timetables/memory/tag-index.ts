import type { Entry } from './entry.ts'

/** Which live tasks of a cell carry a tag. Tasks without tags never touch it. */
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
