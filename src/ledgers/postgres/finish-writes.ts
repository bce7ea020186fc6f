/** Sends the statements that end tasks as done or obsolete, and parses their results. */
import type { LedgerSettlement } from '../../ledger.ts'
import { DONE, OBSOLETE } from '../rows.ts'
import { numberArray, textArray } from './arrays.ts'
import type { ClaimedRows } from './claimed-rows.ts'
import type { History } from './history.ts'
import type { StatementRunner } from './statement-runner.ts'
import { BATCH_TASKS_MAX } from './statements/batches.ts'
import { FIELD_SEPARATOR } from './statements/claims.ts'
import { SEPARATOR } from './statements/fragments.ts'
import { WRITES } from './statements/writes.ts'
import type { TopicName } from './writes.ts'

/** Tasks of one claim call that end in the same state. */
interface FinishGroup {
  readonly cell: number
  readonly stamp: number
  readonly state: number
  readonly keys: string[]
  /** The index of each task's settlement. */
  readonly indexes: number[]
}

export class FinishWrites {
  readonly #session: number
  readonly #history: History
  /** Null for the claims of another session. */
  readonly #rows: ClaimedRows | null

  constructor(session: number, history: History, rows: ClaimedRows | null) {
    this.#session = session
    this.#history = history
    this.#rows = rows
  }

  /**
   * Ends tasks whose outcome is 'done' or 'obsolete'. `indexes` are the indexes of their settlements. Returns the indexes
   * of those that did not end: their claim is no longer held, or another transaction is changing their row.
   */
  async finish(
    runner: StatementRunner,
    topic: TopicName,
    settlements: readonly LedgerSettlement[],
    indexes: readonly number[],
  ): Promise<number[]> {
    const groups = groupsOf(settlements, indexes)
    const values: unknown[] = [
      topic.id,
      numberArray(groups.map(({ cell }) => cell)),
      textArray(groups.map(({ keys }) => keys.join(SEPARATOR))),
      numberArray(groups.map(({ stamp }) => stamp)),
      numberArray(groups.map(({ state }) => state)),
      numberArray(groups.map(({ keys }) => keys.length)),
      this.#session,
      runner.lockTimeoutMs,
      textArray(groups.map(({ cell, stamp, keys }) => this.#rows?.take(topic.id, cell, stamp, keys) ?? null)),
    ]
    const [row] = this.#history.keepsEnded(topic.name)
      ? await runner.query(WRITES.finish.text, [...values, this.#history.batchMin()])
      : await runner.query(WRITES.finishUnkept.text, values)
    const [ended] = row as [string | null]
    return ended === null ? [] : leftOf(groups, ended)
  }
}

function groupsOf(settlements: readonly LedgerSettlement[], indexes: readonly number[]): FinishGroup[] {
  const groups: FinishGroup[] = []
  /** The last group of each claim and state. A claim has a number of its own in its cell. */
  const open = new Map<string, FinishGroup>()
  let last: FinishGroup | undefined
  for (const index of indexes) {
    const { key, cell, stamp, outcome } = settlements[index] as LedgerSettlement
    const state = outcome.kind === 'done' ? DONE : OBSOLETE
    // Tasks of one claim usually follow one another.
    if (last?.stamp !== stamp || last.cell !== cell || last.state !== state)
      last = open.get(`${cell}/${stamp}/${state}`)
    if (last === undefined || last.keys.length === BATCH_TASKS_MAX) {
      last = { cell, stamp, state, keys: [], indexes: [] }
      groups.push(last)
      open.set(`${cell}/${stamp}/${state}`, last)
    }
    last.keys.push(key)
    last.indexes.push(index)
  }
  return groups
}

/** Returns the indexes of the settlements whose tasks are not in the list of tasks that ended. */
function leftOf(groups: readonly FinishGroup[], ended: string): number[] {
  const isEnded = new Set(ended.split(SEPARATOR))
  return groups.flatMap(({ keys, indexes }, n) =>
    indexes.filter((_, i) => !isEnded.has(`${n + 1}${FIELD_SEPARATOR}${keys[i]}`)),
  )
}
