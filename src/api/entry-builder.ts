import type { Clock } from '../clock.ts'
import { describeValue, TocsinError } from '../errors.ts'
import type { Random } from '../random.ts'
import { type NewTask, type OnConflict, PRIORITIES, type Priority } from '../task.ts'
import type { NewEntry } from '../timetable.ts'
import { cellOf } from '../values/cell.ts'
import { durationMs } from '../values/duration.ts'
import { checkKey, checkTags } from '../values/key.ts'
import { checkOptions, nearest } from '../values/options.ts'
import { encodePayload } from '../values/payload.ts'
import { type RingTime, ringTime } from '../values/ring-time.ts'
import { checkAgainst, inTime } from '../values/schema.ts'
import { atIndex } from './bulk.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { TopicSettings } from './topic-settings.ts'

const TASK_FIELDS = ['payload', 'delay', 'at', 'key', 'tags', 'priority', 'smear', 'onConflict'] as const

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
    const { random, settings } = this.#parts
    checkOptions(task, TASK_FIELDS, 'task')
    const key = task.key === undefined ? random.uniqueId() : checkKey(task.key)
    return {
      key,
      cell: cellOf(key, settings.current.slotBy),
      body: encodePayload(task.payload),
      when: smeared(ringTime(task, 'task'), task.smear, random),
      priority: checkPriority(task.priority),
      tags: checkTags(task.tags),
      onConflict: checkOnConflict(task.onConflict),
    }
  }

  /**
   * Checks the payload against the schema. Returns undefined if the schema accepts the payload or the topic has no
   * schema. Throws if the schema refuses the payload. With an async schema, returns a promise that resolves or rejects
   * instead.
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
  all(tasks: readonly NewTask<In>[]): { entries: NewEntry[]; checks: Promise<void>[] } {
    const checks: Promise<void>[] = []
    const entries = new Array<NewEntry>(tasks.length)
    // A loop, because `map` would skip the holes of a sparse array.
    for (let i = 0; i < tasks.length; i++) entries[i] = this.at(i, tasks[i] as NewTask<In>, checks)
    return { entries, checks }
  }

  /**
   * Converts and checks the task at an index of a list or stream. An error has the index. If the schema is async, adds
   * the check to `checks`.
   */
  at(index: number, task: NewTask<In>, checks: Promise<void>[]): NewEntry {
    try {
      const entry = this.one(task)
      const check = this.check(entry)
      if (check !== undefined)
        checks.push(handled(check.catch((error: unknown) => Promise.reject(atIndex(error, index)))))
      return entry
    } catch (error) {
      throw atIndex(error, index)
    }
  }

  /** Returns the entries of the valid tasks with their indexes. Calls `onRefused` for each invalid task. */
  async valid(
    tasks: readonly NewTask<In>[],
    onRefused: (index: number, error: unknown) => void,
  ): Promise<{ entries: NewEntry[]; indexes: number[] }> {
    const entries: NewEntry[] = []
    const indexes: number[] = []
    for (let i = 0; i < tasks.length; i++) {
      try {
        const entry = this.one(tasks[i] as NewTask<In>)
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

/** Prevents an unhandled rejection of a promise that the caller awaits later. Returns the same promise. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {})
  return promise
}

function smeared(when: RingTime, smear: unknown, random: Random): RingTime {
  if (smear === undefined) return when
  const spanMs = durationMs(smear as number, 'smear')
  return { kind: when.kind, ms: when.ms + Math.floor(random.fraction() * (spanMs + 1)) }
}

function checkPriority(value: unknown): Priority {
  if (value === undefined) return 'normal'
  return oneOf(value, PRIORITIES, 'priority')
}

function checkOnConflict(value: unknown): OnConflict {
  if (value === undefined) return 'replace'
  return oneOf(value, ['replace', 'keep'], 'onConflict')
}

function oneOf<T extends string>(value: unknown, allowed: readonly T[], field: string): T {
  if (allowed.includes(value as T)) return value as T
  const near = typeof value === 'string' ? nearest(value, allowed) : null
  const hint = near === null ? `use ${allowed.join(', ')}` : `did you mean '${near}'?`
  throw new TocsinError('bad-option', `${field}: ${describeValue(value)}; ${hint}`, { field, hint })
}
