/** The programs that users write: the right ones compile, the wrong ones do not. Never run. */
import { z } from 'zod'
import {
  type BatchHandler,
  type By,
  type Cancelled,
  type ConfigView,
  type Consumer,
  type Context,
  defineTopic,
  type Duration,
  type ErrorCode,
  type Handler,
  type Instant,
  type Jsonified,
  type LiveConfig,
  type NewTask,
  type Outcome,
  type Priority,
  type Rescheduled,
  type Scheduled,
  type Selector,
  type State,
  type Task,
  type TaskInfo,
  Tocsin,
  TocsinError,
  type TocsinEvents,
  type Topic,
  type TopicConfig,
  type Tx,
  type When,
} from 'tocsin'
import { context, task, testTocsin } from 'tocsin/testing'
import type { Equal, Expect, IsAny } from './equal.ts'

interface Unpaid {
  orderId: string
  placedAt: Date
}

export const OrderUnpaid = defineTopic('order.unpaid', {
  schema: z.object({ orderId: z.string() }),
  slots: 16,
  batchSize: 500,
  lease: '30s',
  timeout: '5m',
  retry: { maxAttempts: 16, backoff: 'exponential', min: '1s', max: '5m', jitter: 0.2 },
})

declare const toc: Tocsin
declare const isPaid: (orderId: string, signal: AbortSignal) => Promise<boolean>
declare const push: (one: Task<{ orderId: string }>, signal: AbortSignal) => Promise<void>

/** As a pg.Client has it: many ways to call `query`, one of which is ours. */
interface PgClient {
  query(stream: { submit(): void }): { submit(): void }
  query(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
  query(text: string, values: unknown[], done: (error: Error) => void): void
}
declare const pgClient: PgClient

class PgPool {
  totalCount = 0
  async query(_text: string, _values: unknown[]): Promise<{ rows: unknown[] }> {
    return { rows: [] }
  }
}

/** What the documentation shows. */
export async function documented(): Promise<void> {
  const opened = await Tocsin.open()
  await Tocsin.open({ timetable: 'memory:', logger: false })
  await Tocsin.open({ timetable: 'redis://localhost', logger: undefined })

  const unpaid = toc.topic(OrderUnpaid)
  await unpaid.schedule({ key: 'order-42', delay: '30m', payload: { orderId: '42' } })
  await unpaid.schedule({ at: new Date(), payload: { orderId: '42' } })
  await unpaid.schedule({ key: 'order-42', delay: '30m', payload: { orderId: '42' } }, { tx: pgClient })
  await unpaid.cancel('order-42', { tx: pgClient })
  await unpaid.configure({ slots: 64, rate: null })
  await unpaid.pause()
  await unpaid.resume()

  const consumer = unpaid.consume(
    async (one, { signal }) => {
      if (await isPaid(one.payload.orderId, signal)) return
      if (one.attempt > 3) return { dead: 'shop closed' }
      return { snooze: '5m' }
    },
    { concurrency: 64 },
  )
  unpaid.consumeBatch((tasks, { signal }) => Promise.allSettled(tasks.map((one) => push(one, signal))))
  unpaid.consumeBatch(async () => {})
  unpaid.consumeBatch(async (tasks) => tasks.map(() => ({ retry: 1_000, reason: 'busy' })))
  unpaid.consumeBatch(async (tasks) => tasks.map((one) => (one.attempt > 1 ? { dead: 'no' } : undefined)))
  unpaid.consume(async () => {}, { guard: async (tasks) => tasks.map((one) => one.payload.orderId !== '') })
  await consumer.stop({ timeout: '20s' })
  await opened.close()
  {
    await using other = await Tocsin.open({ timetable: 'memory:' })
    await using stopping = other.topic('a').consume(async () => {})
  }

  const named = toc.topic<Unpaid>('order.unpaid')
  await named.schedule({ delay: 5, payload: { orderId: '42', placedAt: new Date() } })
  const results: Scheduled[] = await named.scheduleMany([
    { at: '2026-11-11T00:00:00Z', payload: { orderId: '42', placedAt: new Date() } },
  ])
  const counted: { created: number; replaced: number; kept: number } = await named.scheduleMany(
    (function* () {
      yield { delay: '1m', payload: { orderId: '42', placedAt: new Date() } }
    })(),
  )
  await named.scheduleMany(
    (async function* () {
      yield { delay: '1m', payload: { orderId: '42', placedAt: new Date() } }
    })(),
  )
  await named.rescheduleBy({ tag: 'campaign:77' }, { shift: '+10m' }, { onProgress: (n) => n.toFixed() })
  await named.rescheduleBy({ prefix: 'user-9' }, { delay: '1h' })
  await named.dead.replay({ keys: ['a'] })
  await named.dead.replay({ tag: 'a' })
  await named.dead.purge({ prefix: 'a' })
  await named.dead.purge({ all: true })
  const off: () => void = toc.on('dead', (event) => event.cause satisfies string)
  off()

  const testing = await testTocsin({ now: '2026-11-11T00:00:00Z' })
  await testing.advance('30m')
  const handler: Handler<{ orderId: string }> = async () => {}
  await handler(task({ orderId: '42' }), context())

  const unknownly = toc.topic('anything')
  await unknownly.schedule({ delay: 1, payload: { any: ['thing'] } })
}

/** A program may pass on what it may or may not have. */
export async function optionalTakesUndefined(): Promise<void> {
  const unpaid = toc.topic(OrderUnpaid)
  const payload = { orderId: '42' }
  await unpaid.schedule(
    {
      delay: '1m',
      at: undefined,
      payload,
      key: undefined,
      tags: undefined,
      priority: undefined,
      smear: undefined,
      onConflict: undefined,
    },
    { tx: undefined },
  )
  await unpaid.schedule({ at: 1, delay: undefined, payload }, undefined)
  await unpaid.scheduleMany([], { tx: undefined })
  await unpaid.cancel('k', { tx: undefined })
  await unpaid.cancelMany([], { tx: undefined })
  await unpaid.cancelBy({ tag: 't', prefix: undefined }, { tx: undefined, onProgress: undefined })
  await unpaid.cancelBy({ prefix: 'p', tag: undefined })
  await unpaid.reschedule('k', { delay: 1, at: undefined }, { tx: undefined })
  await unpaid.rescheduleBy(
    { tag: 't' },
    { at: 1, delay: undefined },
    { tx: undefined, onProgress: undefined },
  )
  await unpaid.list({
    state: undefined,
    tag: undefined,
    prefix: undefined,
    dueFrom: undefined,
    dueTo: undefined,
    limit: undefined,
    cursor: undefined,
  })
  await unpaid.list({ cursor: null })
  await unpaid.forecast({ from: undefined, to: 1, step: undefined })
  await unpaid.configure({ slots: undefined, retry: { min: undefined } }, { ifVersion: undefined })
  unpaid.consume(async () => ({ retry: 1, reason: undefined }), {
    concurrency: undefined,
    transaction: undefined,
    guard: undefined,
  })
  await unpaid.consume(async () => undefined).stop({ timeout: undefined })
  await toc.close({ timeout: undefined })
  await testTocsin({ now: undefined })
  await Tocsin.open({ timetable: undefined, logger: undefined })
}

/** `null` gives any live setting back. */
export const backToTheCode: LiveConfig = {
  slots: null,
  batchSize: null,
  linger: null,
  lease: null,
  timeout: null,
  merge: null,
  resident: null,
  retention: null,
  retry: null,
  rate: null,
  late: null,
  objective: null,
  fastClaims: null,
}

/** What does not compile. Each line breaks one thing. */
export async function refused(): Promise<void> {
  const unpaid = toc.topic(OrderUnpaid)
  const payload = { orderId: '42' }

  // @ts-expect-error: one of delay and at
  await unpaid.schedule({ delay: '1m', at: new Date(), payload })
  // @ts-expect-error: but one of them
  await unpaid.schedule({ payload })
  // @ts-expect-error: undefined is none
  await unpaid.schedule({ delay: undefined, payload })
  // @ts-expect-error: a payload
  await unpaid.schedule({ delay: '1m' })
  // @ts-expect-error: of the schema's shape
  await unpaid.schedule({ delay: '1m', payload: { orderId: 42 } })
  // @ts-expect-error: all of it
  await unpaid.schedule({ delay: '1m', payload: {} })
  // @ts-expect-error: and nothing else
  await unpaid.schedule({ delay: '1m', payload: { orderId: '42', orderID: '42' } })
  // @ts-expect-error: or of the type's
  await toc.topic<Unpaid>('order.unpaid').schedule({ delay: 1, payload: { orderId: '42', placedAt: '2026' } })
  // @ts-expect-error: a typo
  await unpaid.schedule({ delay: '1m', payload, prio: 'high' })
  // @ts-expect-error: an unknown priority
  await unpaid.schedule({ delay: '1m', payload, priority: 'urgent' })
  // @ts-expect-error: an unknown way with conflicts
  await unpaid.schedule({ delay: '1m', payload, onConflict: 'ignore' })
  // @ts-expect-error: tags are many
  await unpaid.schedule({ delay: '1m', payload, tags: 'campaign:77' })
  // @ts-expect-error: a delay is no Date
  await unpaid.schedule({ delay: new Date(), payload })
  // @ts-expect-error: keys are text
  await unpaid.schedule({ delay: '1m', payload, key: 42 })
  // @ts-expect-error: nor null
  await unpaid.schedule({ delay: '1m', payload, key: null })
  // @ts-expect-error: a pool is not a transaction
  await unpaid.schedule({ delay: '1m', payload }, { tx: new PgPool() })
  // @ts-expect-error: nowhere
  await unpaid.cancel('k', { tx: new PgPool() })
  // @ts-expect-error: progress is told of bulk calls
  await unpaid.schedule({ delay: '1m', payload }, { onProgress: () => {} })
  // @ts-expect-error: an array of them is many
  await unpaid.schedule([{ delay: '1m', payload }])
  // @ts-expect-error: one wrong among many
  await unpaid.scheduleMany([{ delay: '1m', payload }, { delay: '1m' }])
  // @ts-expect-error: a stream cannot be a transaction
  await unpaid.scheduleMany(new Set([{ delay: '1m', payload }]), { tx: pgClient })
  // @ts-expect-error: one key is not many
  await unpaid.cancelMany('k')
  // @ts-expect-error: by one of tag and prefix
  await unpaid.cancelBy({ tag: 't', prefix: 'p' })
  // @ts-expect-error: but one of them
  await unpaid.cancelBy({})
  // @ts-expect-error: not all at once by an oversight
  await unpaid.cancelBy({ all: true })
  // @ts-expect-error: a single task has no shift
  await unpaid.reschedule('k', { shift: '+10m' })
  // @ts-expect-error: a shift has a unit
  await unpaid.rescheduleBy({ tag: 't' }, { shift: 600 })
  // @ts-expect-error: a shift or a delay
  await unpaid.rescheduleBy({ tag: 't' }, { shift: '+10m', delay: '1m' })
  // @ts-expect-error: an unknown state
  await unpaid.list({ state: 'failed' })
  // @ts-expect-error: an end
  await unpaid.forecast({})
  // @ts-expect-error: all, or nothing
  await unpaid.dead.purge({ all: false })
  // @ts-expect-error: all, or those with a tag
  await unpaid.dead.purge({ all: true, tag: 't' })
  // @ts-expect-error: these, or all
  await unpaid.dead.purge({ keys: ['k'], all: true })
  // @ts-expect-error: something
  await unpaid.dead.replay({})
  // @ts-expect-error: slotBy is fixed
  await unpaid.configure({ slotBy: 'prefix' })
  // @ts-expect-error: an unknown setting
  await unpaid.configure({ slot: 16 })
  // @ts-expect-error: no outcome
  unpaid.consume(async () => ({ snoze: '5m' }))
  // @ts-expect-error: nor is this
  unpaid.consume(async () => true)
  // @ts-expect-error: a death has its reason
  unpaid.consume(async () => ({ dead: true }))
  // @ts-expect-error: one outcome, not two
  unpaid.consume(async () => ({ snooze: '5m', dead: 'no' }))
  // @ts-expect-error: another payload
  unpaid.consume(async (one: Task<{ orderId: number }>) => void one)
  // @ts-expect-error: a batch answers with many
  unpaid.consumeBatch(async () => ({ snooze: '5m' }))
  // @ts-expect-error: an unknown option
  unpaid.consume(async () => {}, { concurency: 1 })
  // @ts-expect-error: guards answer with booleans
  unpaid.consume(async () => {}, { guard: async (tasks) => tasks.map(() => 'yes') })
  // @ts-expect-error: an unknown event
  toc.on('died', () => {})
  // @ts-expect-error: tasks are read
  unpaid.consume(async (one) => void (one.key = 'other'))
  // @ts-expect-error: a Tocsin is opened
  void new Tocsin({})
}

// What arrives is what JSON makes of it.
export type Payloads = [
  Expect<Equal<PayloadOf<Topic<Unpaid, Jsonified<Unpaid>>>, { orderId: string; placedAt: string }>>,
  Expect<Equal<ReturnType<typeof named>, Topic<Unpaid, { orderId: string; placedAt: string }>>>,
  Expect<Equal<ReturnType<typeof bySchema>, Topic<{ n: string }, { n: number }>>>,
  Expect<Equal<ReturnType<typeof inline>, Topic<{ n: string }, { n: number }>>>,
  Expect<Equal<ReturnType<typeof unnamed>, Topic<unknown, unknown>>>,
]
type PayloadOf<T> = T extends Topic<infer _, infer Out> ? Out : 'no topic'
const schema = z.object({ n: z.string().transform(Number) })
const named = () => toc.topic<Unpaid>('order.unpaid')
const bySchema = () => toc.topic(defineTopic('a', { schema }))
const inline = () => toc.topic('a', { schema, slots: 4 })
const unnamed = () => toc.topic('a')

/** Whether `any` is found in what a type is made of, however deep. The language's own types have some; not ours. */
type HasAny<T, Depth extends 0[] = []> =
  IsAny<T> extends true
    ? true
    : Depth['length'] extends 8
      ? false
      : T extends
            | string
            | number
            | boolean
            | null
            | undefined
            | symbol
            | bigint
            | AbortSignal
            | Error
            | PromiseRejectedResult
        ? false
        : T extends (...args: infer A) => infer R
          ? HasAny<A, [...Depth, 0]> | HasAny<R, [...Depth, 0]>
          : T extends readonly (infer I)[]
            ? HasAny<I, [...Depth, 0]>
            : T extends PromiseLike<infer V> | Iterable<infer V> | AsyncIterable<infer V>
              ? HasAny<V, [...Depth, 0]>
              : T extends Date
                ? false
                : true extends { [K in keyof T]-?: HasAny<T[K], [...Depth, 0]> }[keyof T]
                  ? true
                  : false

type Clean<T> = true extends HasAny<T> ? false : true

type Known = Topic<Unpaid, Jsonified<Unpaid>>
type Unknown = Topic<unknown, unknown>

export type NoAny = [
  // The guard itself: a guard that cannot fire guards nothing.
  // oxlint-disable-next-line typescript/no-explicit-any -- this is what it has to find
  Expect<Equal<Clean<{ a: { b: (x: string) => Promise<any>[] } }>, false>>,
  // oxlint-disable-next-line typescript/no-explicit-any -- the same, among the arguments
  Expect<Equal<Clean<(x: { y: any }) => void>, false>>,
  Expect<Clean<{ a: unknown; b: Date; c: Promise<string[]> }>>,

  Expect<Equal<AllClean<Known>, true>>,
  Expect<Equal<AllClean<Unknown>, true>>,
  Expect<Equal<AllClean<Task<Jsonified<Unpaid>>>, true>>,
  Expect<Equal<AllClean<TaskInfo<Jsonified<Unpaid>>>, true>>,
  Expect<Equal<AllClean<Task<unknown>>, true>>,
  Expect<Equal<AllClean<TocsinEvents>, true>>,
  Expect<Equal<AllClean<ConfigView>, true>>,
  Expect<Equal<AllClean<Consumer>, true>>,
  Expect<Equal<AllClean<Context>, true>>,
  Expect<Equal<AllClean<Tocsin>, true>>,
  Expect<Equal<AllClean<Pick<TocsinError, 'code' | 'retryable' | 'status' | 'details'>>, true>>,
]
type AllClean<T> = true extends { [K in keyof T]-?: Clean<T[K]> extends true ? false : true }[keyof T]
  ? false
  : true

// The shapes that programs rely on.
export type Shapes = [
  Expect<Equal<Duration, number | string>>,
  Expect<Equal<Priority, 'high' | 'normal' | 'low'>>,
  Expect<Equal<State, 'pending' | 'claimed' | 'done' | 'cancelled' | 'obsolete' | 'dead'>>,
  Expect<Equal<Scheduled['outcome'], 'created' | 'replaced' | 'kept'>>,
  Expect<Equal<Cancelled['outcome'], 'cancelled' | 'in-flight' | 'not-found'>>,
  Expect<Equal<Rescheduled['outcome'], 'rescheduled' | 'in-flight' | 'not-found'>>,
  Expect<Equal<Rescheduled['dueAt'], Date | null>>,
  Expect<Equal<TaskInfo<string>['deadCause'], 'attempts' | 'handler' | 'poison' | 'payload' | 'late' | null>>,
  Expect<Equal<TaskInfo<string>['id'], string | null>>,
  Expect<Equal<TaskInfo<string>['superseded'], boolean | undefined>>,
  Expect<Equal<Extract<keyof TaskInfo<string>, 'latenessMs'>, never>>,
  Expect<
    Equal<
      keyof Task<string>,
      | 'id'
      | 'topic'
      | 'key'
      | 'payload'
      | 'dueAt'
      | 'latenessMs'
      | 'attempt'
      | 'deliveries'
      | 'tags'
      | 'priority'
    >
  >,
  Expect<Equal<keyof TocsinEvents, 'late' | 'retry' | 'dead' | 'config' | 'drift' | 'slots' | 'error'>>,
  Expect<Equal<keyof ConfigView, 'version' | 'effective' | 'live' | 'code' | 'paused'>>,
  Expect<Equal<Extract<keyof LiveConfig, 'slotBy'>, never>>,
  Expect<Equal<Exclude<keyof TopicConfig, keyof LiveConfig>, 'slotBy'>>,
  Expect<Equal<Context['signal'], AbortSignal>>,
]

// Each of these names is part of the package.
export type Names = [
  When,
  Instant,
  NewTask<string>,
  Outcome,
  By,
  Selector,
  Tx,
  ErrorCode,
  BatchHandler<string>,
]

/** An error is told apart by its code. */
export function narrowed(error: unknown): number {
  if (TocsinError.is(error, 'interrupted')) {
    const status: number = error.status
    const accepted = error.details['accepted']
    return typeof accepted === 'number' ? accepted : status
  }
  // @ts-expect-error: an unknown code
  TocsinError.is(error, 'no-such-code')
  return 0
}
