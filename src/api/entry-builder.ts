import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { Random } from '../random.ts'
import type { NewTask } from '../task.ts'
import type { NewEntry } from '../timetable.ts'
import { checkAgainst, inTime } from '../values/schema.ts'
import { atIndex } from './bulk.ts'
import { newEntry } from './new-task.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { TopicSettings } from './topic-settings.ts'

export interface EntryParts {
  readonly clock: Clock
  readonly random: Random
  readonly settings: TopicSettings
}

/** Builds the entries of new tasks by the topic's `slotBy`, and checks their payloads against its schema. */
export class EntryBuilder<In> {
  readonly #definition: () => TopicDefinition<In, unknown>
  readonly #parts: EntryParts

  constructor(definition: () => TopicDefinition<In, unknown>, parts: EntryParts) {
    this.#definition = definition
    this.#parts = parts
  }

  /** Throws if the task is invalid. Its schema is yet to be asked: `check`. */
  one(task: NewTask<In>): NewEntry {
    return newEntry(task, this.#parts.settings.current.slotBy, this.#parts.random)
  }

  /** Throws if a synchronous schema refuses the payload. Returns the answer of an async schema, which may be a rejection. */
  check({ body }: NewEntry): Promise<void> | undefined {
    const { schema } = this.#definition()
    if (schema === null) return undefined
    const check = checkAgainst(schema, body)
    return check === undefined ? undefined : handled(inTime(this.#parts.clock, check))
  }

  /** Returns the entries of all tasks, and the answers of an async schema. Throws at the first invalid task. */
  all(tasks: readonly NewTask<In>[], firstIndex: number): { entries: NewEntry[]; checks: Promise<void>[] } {
    const checks: Promise<void>[] = []
    const entries = new Array<NewEntry>(tasks.length)
    // Not `map`, which skips the holes of an array.
    for (let i = 0; i < tasks.length; i++) {
      const index = firstIndex + i
      try {
        const entry = this.one(tasks[i] as NewTask<In>)
        const check = this.check(entry)
        if (check !== undefined)
          checks.push(handled(check.catch((error: unknown) => Promise.reject(atIndex(error, index)))))
        entries[i] = entry
      } catch (error) {
        throw atIndex(error, index)
      }
    }
    return { entries, checks }
  }

  /** Returns the entries of the valid tasks with their indexes, and reports each invalid task. */
  async valid(
    tasks: readonly NewTask<In>[],
    onRefused: (index: number, error: unknown) => void,
  ): Promise<{ entries: NewEntry[]; indexes: number[] }> {
    const entries: NewEntry[] = []
    const indexes: number[] = []
    for (const [i, task] of tasks.entries()) {
      try {
        const entry = this.one(task)
        const check = this.check(entry)
        if (check !== undefined) await check
        entries.push(entry)
        indexes.push(i)
      } catch (error) {
        onRefused(i, error)
      }
    }
    return { entries, indexes }
  }
}

export function schemaIsAsync(): TocsinError {
  return new TocsinError(
    'bad-payload',
    'payload: an async schema cannot be used with { tx }; use a synchronous one',
    { field: 'payload' },
  )
}

/** The same promise. It is awaited later, so until then its rejection must not count as unhandled. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}
