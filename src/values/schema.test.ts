import type { StandardSchemaV1 } from '@standard-schema/spec'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { checkAgainst, decodeBody, inTime } from './schema.ts'

const order = z.object({ id: z.number(), name: z.string().default('é') })

/** A schema that answers anything, as one of a faulty library may. */
function answering(validate: (value: unknown) => unknown): StandardSchemaV1 {
  return { '~standard': { version: 1, vendor: 'test', validate } } as unknown as StandardSchemaV1
}

describe('the payload of a task', () => {
  it('is the parsed JSON without a schema', () => {
    expect(decodeBody(null, '{"a":"é"}')).toEqual({ payload: { a: 'é' } })
    expect(checkAgainst(null, '{}')).toBeUndefined()
  })

  it('is what the schema makes of it', () => {
    expect(decodeBody(order, '{"id":5}')).toEqual({ payload: { id: 5, name: 'é' } })
    expect(checkAgainst(order, '{"id":5}')).toBeUndefined()
  })

  it('may be undefined, if the schema says so', () => {
    expect(
      decodeBody(
        answering(() => ({ value: undefined })),
        '{}',
      ),
    ).toEqual({ payload: undefined })
  })

  it('is refused with the path of each problem', () => {
    const issues = [
      { message: 'too small', path: ['lines', 0, { key: 'count' }] },
      { message: 'not whole' },
      { message: 'empty path', path: [] },
    ]
    const problem = 'the schema refuses it: lines.0.count: too small; not whole; empty path'
    expect(
      decodeBody(
        answering(() => ({ issues })),
        '{}',
      ),
    ).toEqual({ problem })
    expect(() =>
      checkAgainst(
        answering(() => ({ issues })),
        '{}',
      ),
    ).toThrow(
      expect.objectContaining({
        code: 'bad-payload',
        message: expect.stringContaining(`payload: ${problem}.`),
        details: { field: 'payload' },
      }),
    )
  })

  it.each<[string, () => unknown]>([
    [
      'throws',
      () => {
        throw new Error('boom')
      },
    ],
    ['rejects', () => Promise.reject(new Error('boom'))],
    ['answers nothing', () => undefined],
    ['answers neither a value nor issues', () => ({})],
    ['answers so later', () => Promise.resolve({})],
  ])('is refused by a schema that %s', async (_, validate) => {
    expect(await decodeBody(answering(validate), '{}')).toEqual({
      problem: expect.stringMatching(/^the schema refuses it: \S+/),
    })
    await expect((async () => checkAgainst(answering(validate), '{}'))()).rejects.toMatchObject({
      code: 'bad-payload',
    })
  })

  it('may be checked by a promise of any library', async () => {
    const thenable = { then: (resolve: (result: unknown) => void) => resolve({ value: 'later' }) }
    expect(
      await decodeBody(
        answering(() => thenable),
        '{}',
      ),
    ).toEqual({ payload: 'later' })
    expect(
      await checkAgainst(
        answering(() => thenable),
        '{}',
      ),
    ).toBeUndefined()
  })
})

describe('an answer in time', () => {
  it('is given within ten seconds, or it is too late', async () => {
    const clock = new VirtualClock(0)
    expect(await inTime(clock, Promise.resolve('soon'))).toBe('soon')
    const late = inTime(clock, new Promise(() => {}))
    let isLate = false
    void late.catch(() => (isLate = true))
    clock.moveTo(9_999)
    await new Promise((resolve) => setImmediate(resolve))
    expect(isLate).toBe(false)
    clock.moveTo(10_000)
    await expect(late).rejects.toMatchObject({ code: 'timeout' })
  })
})
