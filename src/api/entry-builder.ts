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

/** Converts new tasks into entries for the store, and checks their payloads against the schema of the topic. */
export class EntryBuilder<In> {
  readonly #definition: () => TopicDefinition<In, unknown>
  readonly #parts: EntryParts

  constructor(definition: () => TopicDefinition<In, unknown>, parts: EntryParts) {
    this.#definition = definition
    this.#parts = parts
  }

  /** Converts one task. Throws if the task is invalid. Does not check the payload against the schema: `check` does. */
  one(task: NewTask<In>): NewEntry {
    return newEntry(task, this.#parts.settings.current.slotBy, this.#parts.random)
  }

  /**
   * Checks the payload against the schema. Throws if a synchronous schema refuses the payload. With an async schema,
   * returns a promise that rejects if the schema refuses the payload.
   */
  check({ body }: NewEntry): Promise<void> | undefined {
    const { schema } = this.#definition()
    if (schema === null) return undefined
    const check = checkAgainst(schema, body)
    return check === undefined ? undefined : handled(inTime(this.#parts.clock, check))
  }

  /**
   * Converts and checks all tasks. Throws at the first invalid task. `checks` has a promise per task if the schema is
   * async, and is empty if not.
   */
  all(tasks: readonly NewTask<In>[], firstIndex: number): { entries: NewEntry[]; checks: Promise<void>[] } {
    const checks: Promise<void>[] = []
    const entries = new Array<NewEntry>(tasks.length)
    // A loop, because `map` would skip the holes of a sparse array.
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

  /** Returns the entries of the valid tasks with their indexes. Calls `onRefused` for each invalid task. */
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

/** Returns the same promise, whose rejection no longer counts as unhandled. The caller awaits the promise later. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}
