import { CTID_SEPARATOR, SEPARATOR } from './statements/fragments.ts'

/** The size of the lists that are kept. Claims that another process settles would otherwise stay here for ever. */
const CHARACTERS_MAX = 4_000_000

/** Where the rows of one claim call are. */
interface RowsOfClaim {
  readonly keyList: string
  readonly ctidList: string
  /** The lists, taken apart when a part of the rows is asked for. */
  parts: { readonly keys: readonly string[]; readonly ctids: readonly string[] } | null
  /** The index after the row that was taken last. Tasks usually end in the order in which they were claimed. */
  next: number
  taken: number
}

/**
 * Remembers in which place of its table (ctid) the claim left the row of each task. The statement that ends the task finds
 * the row there, without a search in the index, which took a third of its time.
 *
 * The place is only a hint. A row gets another place if it is changed or the table is rewritten, and another row may then
 * get the old one. So the statement compares topic, cell, key, session and stamp of the row that it finds, and the tasks of
 * which it found no row are looked up by their keys.
 */
export class ClaimedRows {
  readonly #claims = new Map<string, RowsOfClaim>()
  #characters = 0

  remember(topicId: number, cell: number, stamp: number, keyList: string, ctidList: string): void {
    const name = nameOf(topicId, cell, stamp)
    this.#forget(name)
    this.#claims.set(name, { keyList, ctidList, parts: null, next: 0, taken: 0 })
    this.#characters += keyList.length + ctidList.length
    for (const oldest of this.#claims.keys()) {
      if (this.#characters <= CHARACTERS_MAX) return
      this.#forget(oldest)
    }
  }

  /** Returns the ctids of the rows of these keys, as a list. Returns null if one is not known. */
  take(topicId: number, cell: number, stamp: number, keys: readonly string[]): string | null {
    const name = nameOf(topicId, cell, stamp)
    const claim = this.#claims.get(name)
    if (claim === undefined) return null
    claim.parts ??= { keys: claim.keyList.split(SEPARATOR), ctids: claim.ctidList.split(CTID_SEPARATOR) }
    const { parts } = claim
    const ctids: string[] = []
    for (const key of keys) {
      if (parts.keys[claim.next] !== key) claim.next = parts.keys.indexOf(key)
      const ctid = parts.ctids[claim.next]
      // The key is of the claim, but not in the list, if the answer to the claim was lost and the claim was repeated.
      if (ctid === undefined) return this.#forget(name)
      ctids.push(ctid)
      claim.next++
    }
    claim.taken += keys.length
    if (claim.taken >= parts.keys.length) this.#forget(name)
    return ctids.join(CTID_SEPARATOR)
  }

  /** Forgets the rows of a claim, because they were changed and are in other places now. */
  forget(topicId: number, cell: number, stamp: number): void {
    this.#forget(nameOf(topicId, cell, stamp))
  }

  #forget(name: string): null {
    const claim = this.#claims.get(name)
    if (claim !== undefined) this.#characters -= claim.keyList.length + claim.ctidList.length
    this.#claims.delete(name)
    return null
  }
}

function nameOf(topicId: number, cell: number, stamp: number): string {
  return `${topicId}/${cell}/${stamp}`
}
