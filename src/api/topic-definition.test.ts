import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { defineTopic } from './topic-definition.ts'

const refusal = (code: string, field: string, says: string | RegExp) =>
  expect.objectContaining({
    code,
    details: expect.objectContaining({ field: expect.stringMatching(new RegExp(`${field}$`)) }),
    message: expect.stringMatching(says),
  })

const SCHEMA = z.object({ orderId: z.string() })

describe('defineTopic', () => {
  test('is plain data: a name, checked settings, no schema unless given', () => {
    expect(defineTopic('order.unpaid')).toStrictEqual({ name: 'order.unpaid', config: {}, schema: null })
    expect(defineTopic('order.unpaid', { slots: 4, lease: '90s', schema: undefined })).toStrictEqual({
      name: 'order.unpaid',
      config: { slots: 4, lease: '1m30s' },
      schema: null,
    })
  })

  test('keeps the schema apart from the settings', () => {
    const topic = defineTopic('order.unpaid', { schema: SCHEMA, slots: 4 })
    expect(topic.schema).toBe(SCHEMA)
    expect(topic.config).toStrictEqual({ slots: 4 })
  })

  test('a schema may be a function, as those of arktype are', () => {
    const callable = Object.assign(() => true, { '~standard': SCHEMA['~standard'] })
    expect(defineTopic('order.unpaid', { schema: callable }).schema).toBe(callable)
  })

  test('cannot be changed afterwards, nor through what it was made of', () => {
    const config = { slots: 4, retry: { maxAttempts: 3 } }
    const topic = defineTopic('order.unpaid', config)
    config.slots = 8
    config.retry.maxAttempts = 5
    expect(topic.config).toStrictEqual({ slots: 4, retry: { maxAttempts: 3 } })
    expect(Object.isFrozen(topic)).toBe(true)
  })

  test.each(['Order', '', 'a b'])('refuses the name %j before it looks at the rest', (name) =>
    expect(() => defineTopic(name, { slots: 3 })).toThrow(
      expect.objectContaining({ code: 'bad-topic', message: expect.stringContaining('is not a topic name') }),
    ),
  )

  test.each<[unknown, string, RegExp, string?]>([
    [{ slots: 3 }, 'slots', /32 or 64, got 3/],
    [{ slot: 4 }, 'slot', /did you mean 'slots'\?/],
    [{ lease: '30' }, 'lease', /which unit/, 'bad-duration'],
    [{ retry: { min: '10m' } }, 'retry', /min \(10m\) is longer than max \(5m\)/],
    [{ Schema: SCHEMA }, 'Schema', /unknown option 'Schema'/],
  ])('refuses %o and names the topic', (config, field, says, code = 'bad-config') => {
    expect(() => defineTopic('order.unpaid', config as object)).toThrow(refusal(code, field, says))
    expect(() => defineTopic('order.unpaid', config as object)).toThrow(/order\.unpaid/)
  })

  test.each<[string, unknown]>([
    ['null', null],
    ['text', 'slots'],
    ['a number', 4],
    ['a schema in place of the settings', SCHEMA],
    ['an array', [{ slots: 4 }]],
    ['an empty array', []],
    ['a Map', new Map([['slots', 4]])],
    ['a promise', Promise.resolve({ slots: 4 })],
  ])('refuses %s in place of settings', (_, config) =>
    expect(() => defineTopic('order.unpaid', config as object)).toThrow(
      expect.objectContaining({ code: 'bad-config' }),
    ),
  )

  test.each<[string, unknown]>([
    ['null', null],
    ['an object', {}],
    ['text', 'zod'],
    ['a shape that is not a schema yet', { orderId: z.string() }],
    ['a standard without validate', { '~standard': { version: 1, vendor: 'x' } }],
    ['a function', () => true],
  ])('refuses %s in place of a schema', (_, schema) =>
    expect(() => defineTopic('order.unpaid', { schema } as object)).toThrow(
      refusal(
        'bad-config',
        'schema',
        /schema: expected a Standard Schema \(zod, valibot, arktype, …\), got /,
      ),
    ),
  )
})
