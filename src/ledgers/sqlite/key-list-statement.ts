import type { Database, RunResult, Statement } from 'better-sqlite3'

/** The maximum number of keys in one list. */
export const KEYS_MAX = 128
/** Lists are padded to a multiple of this length, so that few statements have to be prepared. */
const STEP = 16

/**
 * A statement with a list of keys in its condition (`key IN (…)`), prepared once for each length of the list. A
 * statement per key takes twice as long.
 */
export class KeyListStatement {
  readonly #database: Database
  readonly #sqlOf: (list: string) => string
  readonly #statements: Statement[] = []

  constructor(database: Database, sqlOf: (list: string) => string) {
    this.#database = database
    this.#sqlOf = sqlOf
    // Finds a mistake in the SQL when the ledger is opened, not when the first list is used.
    this.#of(1)
  }

  /** `before` and `after` are the parameters before and after the list. There is at least one key. */
  run(before: readonly unknown[], keys: readonly string[], ...after: readonly unknown[]): RunResult {
    return this.#of(keys.length).run(parameters(before, keys, after))
  }

  /** Returns the rows as arrays of their columns. */
  rows(before: readonly unknown[], keys: readonly string[], ...after: readonly unknown[]): unknown[][] {
    return this.#of(keys.length)
      .raw()
      .all(parameters(before, keys, after)) as unknown[][]
  }

  #of(length: number): Statement {
    const index = Math.ceil(length / STEP)
    // safeIntegers(false): the connection may belong to the user, who may have set it to return BigInts.
    return (this.#statements[index] ??= this.#database
      .prepare(this.#sqlOf(new Array(index * STEP).fill('?').join(',')))
      .safeIntegers(false))
  }
}

function parameters(
  before: readonly unknown[],
  keys: readonly string[],
  after: readonly unknown[],
): readonly unknown[] {
  const all = [...before, ...keys]
  // A key that is in the list twice selects its row once.
  for (let left = (STEP - (keys.length % STEP)) % STEP; left > 0; left--) all.push(keys[0])
  all.push(...after)
  return all
}
