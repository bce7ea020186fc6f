import { TocsinError } from '../../../src/errors.ts'

/** The rows that open transactions have written or locked, by name: no other transaction writes them before the end. */
export class Locks {
  readonly #owners = new Map<string, object>()

  isOthers(name: string, mine: object): boolean {
    const owner = this.#owners.get(name)
    return owner !== undefined && owner !== mine
  }

  take(name: string, owner: object): void {
    this.#owners.set(name, owner)
  }

  release(names: Iterable<string>): void {
    for (const name of names) this.#owners.delete(name)
  }

  get names(): string[] {
    return [...this.#owners.keys()]
  }
}

/** PostgreSQL waits for the other transaction, for a while; here the while is over at once. */
export function locked(doing: string): TocsinError {
  return new TocsinError(
    'ledger-unavailable',
    `${doing}: another transaction on the shared ledger holds this task; nothing was written. Try again when it is over`,
  )
}
