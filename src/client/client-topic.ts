/** A topic on a server. It has the methods and types of the library's Topic. */
import type { Clock } from '../clock.ts'
import type { ConfigView, LiveConfig } from '../values/config.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import { checkKey } from '../values/key.ts'
import { badOption, checkOptions } from '../values/options.ts'
import type { Cancelled, NewTask, Rescheduled, Scheduled, TaskInfo, When } from '../task.ts'
import type { By, ForecastOptions, ListOptions, Replayed, Selector, Shift } from '../api/topic.ts'
import { scheduleStream, type StreamOptions, type StreamSummary } from './bulk.ts'
import {
  type ClaimedTask,
  claimedIn,
  type ClaimOptions,
  type Extended,
  type Held,
  type Settled,
  type Settling,
  settlingOut,
} from './claims.ts'
import type { Http } from './http.ts'
import {
  byOut,
  cancelledIn,
  configIn,
  durationOut,
  type ForecastAnswer,
  forecastOut,
  instantOut,
  patchOut,
  queryOut,
  rescheduledIn,
  scheduledIn,
  stepsIn,
  taskInfoIn,
  taskOut,
  whenOrShiftOut,
  whenOut,
  type Wire,
  type WireTask,
} from './wire.ts'

export interface SweepOptions {
  /** Aborts the call. A call for many tasks has no timeout, because its duration depends on the number of tasks. */
  readonly signal?: AbortSignal | undefined
}

type Results<T> = { readonly results: readonly T[] }
type Counts = {
  readonly pending: number
  readonly due: number
  readonly claimed: number
  readonly dead: number
}

/** The maximum number of tasks or keys in one request. */
const MANY_MAX = 10_000
/** The option of calls that may be retried. */
const REPEATABLE = { isRepeatable: true } as const

export class ClientTopic<In = unknown, Out = unknown> {
  readonly name: string
  readonly #http: Http
  readonly #clock: Clock
  readonly #path: string

  /** Internal. Call `client.topic(name)` to get a topic. */
  constructor(name: string, http: Http, clock: Clock) {
    this.name = name
    this.#http = http
    this.#clock = clock
    this.#path = `/v1/topics/${encodeURIComponent(name)}`
  }

  async schedule(task: NewTask<In>): Promise<Scheduled> {
    return this.#http.send('POST', `${this.#path}/tasks`, taskOut(task), scheduledIn)
  }

  /**
   * Schedules at most 10,000 tasks. Validates all tasks before the first one is written. Returns results in the order
   * of the tasks.
   */
  scheduleMany(tasks: readonly NewTask<In>[]): Promise<Scheduled[]>
  /**
   * Schedules any number of tasks, in constant memory. Rejected tasks are reported to `onRefused`; all other tasks are
   * scheduled.
   */
  scheduleMany(
    tasks: Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>,
    options?: StreamOptions,
  ): Promise<StreamSummary>
  async scheduleMany(
    tasks: readonly NewTask<In>[] | Iterable<NewTask<In>> | AsyncIterable<NewTask<In>>,
    options: StreamOptions = {},
  ): Promise<Scheduled[] | StreamSummary> {
    checkOptions(options, ['onRefused', 'signal'], 'scheduleMany')
    if (Array.isArray(tasks)) return this.#scheduleArray(tasks as readonly NewTask<In>[])
    if (!isLoopable(tasks))
      throw badOption('tasks', `expected an array or something to loop over, got ${describeValue(tasks)}`)
    return scheduleStream(this.#http, `${this.#path}/schedule`, tasks, options, this.#clock)
  }

  async cancel(key: string): Promise<Cancelled> {
    try {
      return await this.#http.send('DELETE', this.#taskPath(key), null, cancelledIn)
    } catch (error) {
      return { key, outcome: undone(error) }
    }
  }

  /** Returns results in the order of the keys. */
  async cancelMany(keys: readonly string[]): Promise<Cancelled[]> {
    if (!Array.isArray(keys)) throw badOption('keys', `expected an array, got ${describeValue(keys)}`)
    for (const [i, key] of keys.entries()) checkKey(key, `keys[${i}]`)
    const results: Cancelled[] = []
    const read = (answer: Results<Cancelled>) => answer.results.map(cancelledIn)
    for (let at = 0; at < keys.length; at += MANY_MAX) {
      const slice = JSON.stringify({ keys: keys.slice(at, at + MANY_MAX) })
      try {
        results.push(...(await this.#http.send('POST', `${this.#path}/cancel`, slice, read)))
      } catch (error) {
        throw at === 0 ? (error as Error) : interruptedAt(at, error)
      }
    }
    return results
  }

  async cancelBy(by: By, options: SweepOptions = {}): Promise<{ cancelled: number; inFlight: number }> {
    const read = ({ cancelled, inFlight }: { cancelled: number; inFlight: number }) => ({
      cancelled,
      inFlight,
    })
    return this.#sweep('cancel', byOut(by), read, options)
  }

  async reschedule(key: string, when: When): Promise<Rescheduled> {
    const body = JSON.stringify(whenOut(when, 'when'))
    try {
      return await this.#http.send('PATCH', this.#taskPath(key), body, rescheduledIn)
    } catch (error) {
      return { key, outcome: undone(error), dueAt: null }
    }
  }

  /**
   * Reschedules all tasks with a tag or a prefix. `shift: '+10m'` or `'-1h'` moves each task relative to its current
   * ring time.
   */
  async rescheduleBy(
    by: By,
    when: (When & { readonly shift?: undefined }) | Shift,
    options: SweepOptions = {},
  ): Promise<{ rescheduled: number; inFlight: number }> {
    const read = ({ rescheduled, inFlight }: { rescheduled: number; inFlight: number }) => ({
      rescheduled,
      inFlight,
    })
    return this.#sweep('reschedule', { ...byOut(by), ...whenOrShiftOut(when) }, read, options)
  }

  /**
   * Returns the live task of a key. If the key has none, returns its dead task or, if the server has a ledger, the task
   * that ended last. Returns null if there is no such task.
   */
  async get(key: string): Promise<TaskInfo<Out> | null> {
    try {
      return await this.#http.get(this.#taskPath(key), taskInfoIn<Out>)
    } catch (error) {
      if (isOfKey(error, 'not-found')) return null
      throw error
    }
  }

  /**
   * Returns a page of tasks, the soonest first. Without `state`, lists pending and claimed tasks. Pass the returned
   * `cursor` to get the next page; it is null on the last page.
   */
  async list(options: ListOptions = {}): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }> {
    checkOptions(options, ['state', 'tag', 'prefix', 'dueFrom', 'dueTo', 'limit', 'cursor'], 'list')
    const { dueFrom, dueTo, ...others } = options
    const query = queryOut({
      ...others,
      dueFrom: dueFrom === undefined ? undefined : instantOut(dueFrom, 'dueFrom'),
      dueTo: dueTo === undefined ? undefined : instantOut(dueTo, 'dueTo'),
    })
    const read = ({ tasks, cursor }: { tasks: WireTask<TaskInfo<unknown>>[]; cursor: string | null }) => ({
      tasks: tasks.map((task) => taskInfoIn<Out>(task)),
      cursor,
    })
    return this.#http.get(`${this.#path}/tasks${query}`, read)
  }

  async counts(): Promise<Counts> {
    return this.#http.get(`/v1/stats${queryOut({ topic: this.name })}`, ({ total }: { total: Counts }) => ({
      pending: total.pending,
      due: total.due,
      claimed: total.claimed,
      dead: total.dead,
    }))
  }

  async forecast({ from, to, step }: ForecastOptions): Promise<{ at: Date; due: number }[]> {
    const query = queryOut({ topic: this.name, ...forecastOut({ from, to, step }) })
    return this.#http.get(`/v1/forecast${query}`, ({ topics }: ForecastAnswer) =>
      topics.flatMap(({ steps }) => stepsIn(steps)),
    )
  }

  async config(): Promise<ConfigView> {
    return this.#http.get(this.#path, configIn)
  }

  async configure(
    patch: LiveConfig,
    options: { readonly ifVersion?: number | undefined } = {},
  ): Promise<ConfigView> {
    checkOptions(options, ['ifVersion'], 'configure')
    const { ifVersion } = options
    const body = JSON.stringify(patchOut(patch, `topic '${this.name}'`))
    const headers = ifVersion === undefined ? {} : { 'if-match': `"${ifVersion}"` }
    return this.#http.send('PATCH', this.#path, body, configIn, { headers })
  }

  async pause(): Promise<void> {
    await this.#http.send('POST', `${this.#path}/pause`, '{}', configIn)
  }

  async resume(): Promise<void> {
    await this.#http.send('POST', `${this.#path}/resume`, '{}', configIn)
  }

  readonly dead = {
    replay: async (which: Selector, options: SweepOptions = {}): Promise<Replayed> =>
      this.#sweep(
        'dead/replay',
        which,
        ({ replayed, superseded }: Replayed) => ({ replayed, superseded }),
        options,
      ),
    purge: async (which: Selector, options: SweepOptions = {}): Promise<{ purged: number }> =>
      this.#sweep('dead/purge', which, ({ purged }: { purged: number }) => ({ purged }), options),
  } as const

  /** Claims due tasks, or waits for them. Returns [] if no task is due within `wait`, or if the server shuts down. */
  async claim(options: ClaimOptions = {}): Promise<ClaimedTask<Out>[]> {
    checkOptions(options, ['limit', 'wait', 'lease', 'signal'], 'claim')
    const { limit, wait = 0, lease, signal } = options
    const body = JSON.stringify({
      limit,
      wait: durationOut(wait, 'wait'),
      lease: lease === undefined ? undefined : durationOut(lease, 'lease'),
    })
    const read = ({ tasks }: { tasks: WireTask<ClaimedTask<unknown>>[] }) =>
      tasks.map((task) => claimedIn<Out>(task))
    const waitMs = durationMs(wait, 'wait')
    // The call may be retried: if its answer is lost, its tasks become due again when their leases expire.
    return this.#http.send('POST', `${this.#path}/claim`, body, read, { ...REPEATABLE, waitMs, signal })
  }

  /** Returns results in the order of the tasks. */
  async settle(tasks: readonly Settling[]): Promise<Settled[]> {
    if (!Array.isArray(tasks)) throw badOption('tasks', `expected an array, got ${describeValue(tasks)}`)
    if (tasks.length === 0) return []
    const body = JSON.stringify({ tasks: (tasks as readonly Settling[]).map(settlingOut) })
    const read = ({ results }: Results<Settled>) => results.map(({ key, outcome }) => ({ key, outcome }))
    return this.#http.send('POST', `${this.#path}/settle`, body, read, REPEATABLE)
  }

  /** Extends leases to `lease` from now. Returns results in the order of the tasks. */
  async extend(
    tasks: readonly Held[],
    options: { readonly lease?: Duration | undefined } = {},
  ): Promise<Extended[]> {
    checkOptions(options, ['lease'], 'extend')
    if (!Array.isArray(tasks)) throw badOption('tasks', `expected an array, got ${describeValue(tasks)}`)
    if (tasks.length === 0) return []
    const { lease } = options
    const body = JSON.stringify({
      tasks: (tasks as readonly Held[]).map(({ key, token }) => ({ key, token })),
      lease: lease === undefined ? undefined : durationOut(lease, 'lease'),
    })
    const read = ({ results }: Results<Extended>) => results.map(({ key, outcome }) => ({ key, outcome }))
    return this.#http.send('POST', `${this.#path}/extend`, body, read, REPEATABLE)
  }

  async #scheduleArray(tasks: readonly NewTask<In>[]): Promise<Scheduled[]> {
    if (tasks.length === 0) return []
    if (tasks.length > MANY_MAX)
      throw new TocsinError(
        'too-large',
        `tasks: ${tasks.length} at once; an array may have ${MANY_MAX}, because it is validated as a whole: pass more as a stream, such as tasks.values()`,
        { field: 'tasks', limit: MANY_MAX },
      )
    const texts = tasks.map((task, i) => {
      try {
        return taskOut(task)
      } catch (error) {
        throw atIndex(error, i)
      }
    })
    const read = ({ results }: Results<Wire<Scheduled>>) => results.map(scheduledIn)
    return this.#http.send('POST', `${this.#path}/schedule`, `{"tasks":[${texts.join(',')}]}`, read)
  }

  #sweep<T>(step: string, which: object, read: (json: never) => T, options: SweepOptions): Promise<T> {
    checkOptions(options, ['signal'], step)
    const { signal } = options
    return this.#http.send('POST', `${this.#path}/${step}`, JSON.stringify(which), read, {
      signal,
      waitMs: null,
    })
  }

  #taskPath(key: string): string {
    return `${this.#path}/tasks/${encodeURIComponent(checkKey(key))}`
  }
}

/**
 * Returns true if the error is about the task. A 404 for the path, or from a proxy, does not mean that the task is
 * missing.
 */
function isOfKey(error: unknown, code: 'not-found' | 'in-flight'): boolean {
  return TocsinError.is(error, code) && error.details['field'] === 'key'
}

function undone(error: unknown): 'not-found' | 'in-flight' {
  if (isOfKey(error, 'not-found')) return 'not-found'
  if (isOfKey(error, 'in-flight')) return 'in-flight'
  throw error
}

function atIndex(error: unknown, index: number): unknown {
  if (!TocsinError.is(error)) return error
  const { code, message, details } = error
  return new TocsinError(code, `tasks[${index}].${message}`, { ...details, index }, error)
}

function interruptedAt(accepted: number, error: unknown): TocsinError {
  const { message } = error as Error
  return new TocsinError(
    'interrupted',
    `the first ${accepted} keys are done, then: ${message}`,
    { accepted },
    error,
  )
}

function isLoopable(value: unknown): boolean {
  return (
    value !== null && typeof value === 'object' && (Symbol.iterator in value || Symbol.asyncIterator in value)
  )
}
