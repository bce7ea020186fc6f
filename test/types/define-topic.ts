import { z } from 'zod'
import { defineTopic, type TopicDefinition } from '../../src/api/topic-definition.ts'
import type { Equal, Expect, IsAny } from './equal.ts'

type In<D> = D extends TopicDefinition<infer I, infer _> ? I : 'no topic'
type Out<D> = D extends TopicDefinition<infer _, infer O> ? O : 'no topic'

const withSchema = defineTopic('order.unpaid', { schema: z.object({ orderId: z.string() }), slots: 16 })

const transforming = defineTopic('order.unpaid', {
  schema: z.object({
    cents: z.string().transform(Number),
    note: z.string().default('none'),
    tags: z.array(z.string()).optional(),
    at: z.iso.datetime().transform((text) => new Date(text)),
  }),
})

const union = defineTopic('order.unpaid', {
  schema: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('a'), n: z.number() }),
    z.object({ kind: z.literal('b') }),
  ]),
})

export type Schemas = [
  Expect<Equal<In<typeof withSchema>, { orderId: string }>>,
  Expect<Equal<Out<typeof withSchema>, { orderId: string }>>,
  Expect<
    Equal<
      In<typeof transforming>,
      { cents: string; at: string; note?: string | undefined; tags?: string[] | undefined }
    >
  >,
  Expect<
    Equal<Out<typeof transforming>, { cents: number; note: string; at: Date; tags?: string[] | undefined }>
  >,
  Expect<Equal<In<typeof union>, { kind: 'a'; n: number } | { kind: 'b' }>>,
  Expect<Equal<Out<typeof union>, { kind: 'a'; n: number } | { kind: 'b' }>>,
]

interface Unpaid {
  orderId: string
  placedAt: Date
  note?: string
}

const typed = defineTopic<Unpaid>('order.unpaid', { slots: 16 })
const typedBare = defineTopic<Unpaid>('order.unpaid')
const text = defineTopic<string>('order.unpaid')
const union2 = defineTopic<{ kind: 'a'; at: Date } | { kind: 'b' }>('order.unpaid', { schema: undefined })

export type Types = [
  Expect<Equal<In<typeof typed>, Unpaid>>,
  Expect<Equal<Out<typeof typed>, { orderId: string; placedAt: string; note?: string }>>,
  Expect<Equal<typeof typedBare, typeof typed>>,
  Expect<Equal<In<typeof text>, string>>,
  Expect<Equal<Out<typeof text>, string>>,
  Expect<Equal<Out<typeof union2>, { kind: 'a'; at: string } | { kind: 'b' }>>,
]

const untyped = defineTopic('order.unpaid')
const untypedWithSettings = defineTopic('order.unpaid', { retry: { maxAttempts: 3 } })

export type NoAny = [
  Expect<Equal<In<typeof untyped>, unknown>>,
  Expect<Equal<Out<typeof untyped>, unknown>>,
  Expect<Equal<In<typeof untypedWithSettings>, unknown>>,
  Expect<Equal<Out<typeof untypedWithSettings>, unknown>>,
  Expect<Equal<IsAny<(typeof untyped)['config']>, false>>,
  Expect<Equal<IsAny<(typeof untyped)['schema']>, false>>,
  Expect<Equal<IsAny<Out<typeof withSchema>['orderId']>, false>>,
]

// Every optional setting also takes undefined, so that `{ slots: process.env.X ? 4 : undefined }` compiles.
defineTopic('a', {
  slots: undefined,
  slotBy: undefined,
  batchSize: undefined,
  linger: undefined,
  lease: undefined,
  timeout: undefined,
  merge: undefined,
  resident: undefined,
  retention: undefined,
  retry: { maxAttempts: undefined, backoff: undefined, min: undefined, max: undefined, jitter: undefined },
  rate: undefined,
  late: undefined,
  objective: undefined,
  fastClaims: undefined,
  schema: undefined,
})
defineTopic('a', undefined)
defineTopic('a', {
  rate: { limit: 1, per: 1_000 },
  late: { after: '1m', then: 'drop' },
  objective: { p99: '1s' },
  fastClaims: true,
})

/** What does not compile. Each line breaks one thing. */
export function refused(): void {
  // @ts-expect-error: a topic has a name
  defineTopic()
  // @ts-expect-error: which is text
  defineTopic(7)
  // @ts-expect-error: settings are not null
  defineTopic('a', null)
  // @ts-expect-error: slots is a number
  defineTopic('a', { slots: '16' })
  // @ts-expect-error: an unknown setting
  defineTopic('a', { slot: 16 })
  // @ts-expect-error: the same, beside a schema
  defineTopic('a', { schema: z.string(), slot: 16 })
  // @ts-expect-error: a wrong setting beside a schema
  defineTopic('a', { schema: z.string(), lease: true })
  // @ts-expect-error: slotBy is 'key' or 'prefix'
  defineTopic('a', { slotBy: 'user' })
  // @ts-expect-error: a duration is a number or text
  defineTopic('a', { lease: new Date(0) })
  // @ts-expect-error: null is for live settings
  defineTopic('a', { lease: null })
  // @ts-expect-error: an unknown setting of retry
  defineTopic('a', { retry: { attempts: 3 } })
  // @ts-expect-error: backoff is 'exponential' or 'fixed'
  defineTopic('a', { retry: { backoff: 'linear' } })
  // @ts-expect-error: a rate has both
  defineTopic('a', { rate: { limit: 1 } })
  // @ts-expect-error: late has both
  defineTopic('a', { late: { after: '1m' } })
  // @ts-expect-error: then is 'fire', 'drop' or 'dead'
  defineTopic('a', { late: { after: '1m', then: 'ignore' } })
  // @ts-expect-error: a shape is not a schema
  defineTopic('a', { schema: { orderId: z.string() } })
  // @ts-expect-error: nor is a function
  defineTopic('a', { schema: (value: unknown) => value })
  // @ts-expect-error: a type and a schema are two answers to one question
  defineTopic<Unpaid>('a', { schema: z.object({ orderId: z.string() }) })
  // @ts-expect-error: a definition is not changed
  withSchema.name = 'b'
  // @ts-expect-error: nor are its settings
  withSchema.config.slots = 4
}
