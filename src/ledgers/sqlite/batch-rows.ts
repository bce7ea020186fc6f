/** A batch: one row for many ended tasks of one cell that ended together. */
import type { EndedRow } from './rows.ts'

/** Separates the texts of the tasks in a column. No key has it, and a task whose body has it is not put into a batch. */
export const SEPARATOR = '\u001e'
const NUMBER_SEPARATOR = ','

/** SQL of the numbers of a task, as they are stored: one text, in this order. */
export const NUMBERS = ['generation', 'due_ms', 'created_ms', 'checksum'].join(
  ` || '${NUMBER_SEPARATOR}' || `,
)

export interface BatchRow {
  readonly id: number
  readonly cell: number
  readonly state: number
  readonly ended_ms: number
  /** The number of tasks. */
  readonly tasks: number
  readonly priority: number
  readonly deliveries: number
  readonly keys: string
  readonly numbers: string
  readonly bodies: string
}

/**
 * Returns the tasks of a batch. A task has its checksum here, too. If a bit of the batch was flipped, those of its tasks
 * that are no longer what was written are found by that, one by one.
 */
export function tasksOf(batch: BatchRow): EndedRow[] {
  const { cell, state, ended_ms, priority, deliveries } = batch
  const numbers = batch.numbers.split(SEPARATOR)
  const bodies = batch.bodies.split(SEPARATOR)
  return batch.keys.split(SEPARATOR).map((key, i): EndedRow => {
    const parts = (numbers[i] ?? '').split(NUMBER_SEPARATOR)
    const isWhole = parts.length === NUMBERS_COUNT
    return {
      key,
      cell,
      state,
      generation: isWhole ? Number(parts[0]) : 0,
      ended_ms,
      due_ms: isWhole ? Number(parts[1]) : ended_ms,
      created_ms: isWhole ? Number(parts[2]) : ended_ms,
      priority,
      failures: 0,
      deliveries,
      error: null,
      cause: null,
      tags: null,
      checksum: isWhole ? Number(parts[3]) : DIFFERENT,
      body: bodies[i] ?? '',
    }
  })
}

const NUMBERS_COUNT = 4
/** The checksum of no task. */
const DIFFERENT = -1
