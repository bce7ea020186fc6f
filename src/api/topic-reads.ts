import { decodeCursor, encodeCursor } from '../values/cursor.ts'
import { durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import { instantMs, LAST_INSTANT_MS } from '../values/instant.ts'
import { checkPrefix, checkTag } from '../values/key.ts'
import { BATCH_MAX } from '../lib/batch-max.ts'
import { positionOf } from '../values/list-position.ts'
import { badOption, checkOptions, needsLedger, wholeNumber } from '../values/options.ts'
import { decodePayload } from '../values/payload.ts'
import { decodeBody, inTime } from '../values/schema.ts'
import type { State, TaskInfo } from '../task.ts'
import type { EntryView } from '../timetable.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { ForecastOptions, ListOptions } from './topic.ts'
import { placeOf } from './places.ts'
import type { WriteParts } from './topic-writes.ts'

const PAGE_SIZE = 100
const FORECAST_STEPS_MAX = 10_000
const ENDED: readonly State[] = ['done', 'cancelled', 'obsolete']
const STATES: readonly State[] = ['pending', 'claimed', 'dead', ...ENDED]

export type ReadParts = Pick<WriteParts, 'store' | 'clock' | 'settings' | 'checkOpen'>

/** The reads of a topic: its tasks, counts and forecast. */
export class TopicReads<Out> {
  readonly #name: string
  readonly #definition: () => TopicDefinition<unknown, Out>
  readonly #parts: ReadParts

  constructor(definition: () => TopicDefinition<unknown, Out>, parts: ReadParts) {
    this.#name = definition().name
    this.#definition = definition
    this.#parts = parts
  }

  async get(key: string): Promise<TaskInfo<Out> | null> {
    this.#parts.checkOpen()
    const { store, settings } = this.#parts
    const view = await store.get(this.#name, placeOf(key, settings.current.slotBy))
    return view === null ? null : this.#info(view)
  }

  async list(options: ListOptions = {}): Promise<{ tasks: TaskInfo<Out>[]; cursor: string | null }> {
    this.#parts.checkOpen()
    checkOptions(options, ['state', 'tag', 'prefix', 'dueFrom', 'dueTo', 'limit', 'cursor'], 'list')
    const { state, tag, prefix, dueFrom, dueTo, cursor } = options
    const limit = wholeNumber(options.limit ?? PAGE_SIZE, 1, BATCH_MAX, 'limit')
    const views = await this.#parts.store.list(this.#name, {
      state: this.#stateToList(state),
      tag: tag === undefined ? null : checkTag(tag),
      prefix: prefix === undefined ? null : checkPrefix(prefix),
      dueFromMs: dueFrom === undefined ? 0 : instantMs(dueFrom, 'dueFrom'),
      dueToMs: dueTo === undefined ? LAST_INSTANT_MS : instantMs(dueTo, 'dueTo'),
      limit,
      after: cursor === undefined || cursor === null ? null : decodeCursor(cursor),
    })
    const last = views.length === limit ? views.at(-1) : undefined
    return {
      tasks: await Promise.all(views.map((view) => this.#info(view))),
      cursor: last === undefined ? null : encodeCursor(positionOf(last)),
    }
  }

  async counts(): Promise<{ pending: number; due: number; claimed: number; dead: number }> {
    this.#parts.checkOpen()
    return this.#parts.store.counts(this.#name)
  }

  async forecast(options: ForecastOptions): Promise<{ at: Date; due: number }[]> {
    this.#parts.checkOpen()
    checkOptions(options, ['to', 'from', 'step'], 'forecast')
    const { store } = this.#parts
    const fromMs = options.from === undefined ? await store.nowMs() : instantMs(options.from, 'from')
    const toMs = instantMs(options.to, 'to')
    const stepMs = durationMs(options.step ?? '1m', 'step')
    if (toMs <= fromMs)
      throw new TocsinError('bad-time', "forecast: 'to' is not after 'from'", { field: 'to' })
    if (stepMs < 1 || (toMs - fromMs) / stepMs > FORECAST_STEPS_MAX)
      throw badOption('step', `too fine for this span; at most ${FORECAST_STEPS_MAX} steps`)
    const steps = await store.forecast(this.#name, fromMs, toMs, stepMs)
    return steps.map((due, i) => ({ at: new Date(fromMs + i * stepMs), due }))
  }

  /** Returns for how long the oldest due task has been due, in ms; 0 if no task is due. */
  async overdueMs(): Promise<number> {
    const { store } = this.#parts
    const query = {
      state: 'pending',
      tag: null,
      prefix: null,
      dueFromMs: 0,
      dueToMs: LAST_INSTANT_MS,
    } as const
    const [nowMs, [first]] = await Promise.all([
      store.nowMs(),
      store.list(this.#name, { ...query, limit: 1, after: null }),
    ])
    return first === undefined ? 0 : Math.max(0, nowMs - first.ringMs)
  }

  async #info(view: EntryView): Promise<TaskInfo<Out>> {
    const answer = decodeBody(this.#definition().schema, view.body)
    // Only an async schema needs a deadline. With a synchronous schema, a page of 1,000 tasks sets no timers.
    const decoded =
      answer instanceof Promise
        ? await inTime(this.#parts.clock, answer).catch(() => ({ problem: 'no answer' }))
        : answer
    return {
      id: view.id,
      topic: this.#name,
      key: view.key,
      // If the schema refuses the payload, return the payload as stored: a refusal must not make a read fail.
      payload: 'payload' in decoded ? decoded.payload : (decodePayload(view.body) as Out),
      dueAt: new Date(view.dueMs),
      // If the attempts of a task are used up, this is its last attempt, which `failures` already counts.
      attempt: view.failures + (view.deadCause === 'attempts' ? 0 : 1),
      deliveries: view.deliveries,
      tags: view.tags,
      priority: view.priority,
      state: view.state,
      createdAt: new Date(view.createdMs),
      updatedAt: new Date(view.updatedMs),
      lastError: view.lastError,
      deadCause: view.deadCause,
      ...(view.superseded !== undefined && { superseded: view.superseded }),
    }
  }

  #stateToList(state: State | undefined): State | null {
    if (state === undefined) return null
    if (ENDED.includes(state) && !this.#parts.store.features.keepsEnded)
      throw needsLedger(`list({ state: '${state}' })`)
    if (STATES.includes(state)) return state
    throw badOption('state', `${describeValue(state)}; use ${STATES.join(', ')}`)
  }
}
