import { describe, expect, it } from 'vitest'
import { DONE, failure, OBSOLETE, settleOutcomeOf, verdictOf, verdictsOf } from './verdict.ts'

const failed = (error: unknown, delayMs: number | null = null) =>
  expect.objectContaining({ kind: 'failed', delayMs, error })

describe('the verdict for what a handler returned', () => {
  it.each([
    [undefined, DONE],
    [null, DONE],
    [{ snooze: '5m' }, { kind: 'snooze', delayMs: 300_000 }],
    [{ snooze: 0 }, { kind: 'snooze', delayMs: 0 }],
    [{ retry: 250 }, { kind: 'failed', delayMs: 250, error: 'its handler asked for a retry' }],
    [
      { retry: '1s', reason: 'é' },
      { kind: 'failed', delayMs: 1_000, error: 'é' },
    ],
    [{ dead: 'no such user' }, { kind: 'dead', error: 'no such user' }],
    [{ dead: true }, { kind: 'dead', error: 'true' }],
    [
      { snooze: undefined, dead: 'x' },
      { kind: 'dead', error: 'x' },
    ],
  ])('%j', (returned, verdict) => {
    expect(verdictOf(returned)).toEqual(verdict)
  })

  it.each([
    [
      'two outcomes',
      { snooze: 1, dead: 'x' },
      "the handler returned 'snooze' and 'dead' at once; return one of them",
    ],
    [
      'a misspelt outcome',
      { snoze: '5m' },
      "the handler returned an object with 'snoze'; did you mean 'snooze'?",
    ],
    [
      'an outcome without its value',
      { retry: undefined },
      'return nothing, { snooze }, { retry } or { dead }',
    ],
    ['a time that is none', { snooze: 'soon' }, 'snooze: '],
    ['a delay that is none', { retry: 'soon' }, 'retry: '],
  ])('is a failure for %s', (_, returned, message) => {
    expect(verdictOf(returned)).toEqual(failed(expect.stringContaining(message)))
  })

  it('is a failure if the value throws when it is read', () => {
    const hostile = Object.defineProperty({}, 'snooze', {
      get: () => {
        throw new Error('boom')
      },
    })
    expect(verdictOf(hostile)).toEqual(failed('Error: boom'))
  })
})

describe('the verdict for what a handler threw', () => {
  it('has the message and the stack', () => {
    const error = new Error('boom')
    expect(failure(error)).toEqual({
      kind: 'failed',
      delayMs: null,
      error: 'Error: boom',
      stack: error.stack,
    })
    expect(failure('just text')).toMatchObject({
      kind: 'failed',
      error: expect.stringContaining('just text'),
    })
    expect(failure('just text')).toMatchObject({ stack: undefined })
  })

  it('has no stack if the error hides it', () => {
    const hidden = Object.defineProperty(new Error('boom'), 'stack', {
      get: () => {
        throw new Error('inner')
      },
    })
    expect(failure(hidden)).toMatchObject({ error: 'Error: boom', stack: undefined })
    expect(failure(Object.assign(new Error('boom'), { stack: 5 }))).toMatchObject({ stack: undefined })
  })
})

describe('the verdicts for what a batch handler returned', () => {
  it('are all done if it returned nothing', () => {
    expect(verdictsOf(undefined, 2)).toEqual([DONE, DONE])
    expect(verdictsOf(null, 1)).toEqual([DONE])
  })

  it('are one per task, in order, also from Promise.allSettled', async () => {
    const settled = await Promise.allSettled([Promise.resolve(), Promise.reject(new Error('boom'))])
    expect(verdictsOf([...settled, { dead: 'x' }, undefined], 4)).toEqual([
      DONE,
      failed('Error: boom'),
      { kind: 'dead', error: 'x' },
      DONE,
    ])
  })

  it('of a sparse array are done where nothing was returned', () => {
    // oxlint-disable-next-line eslint/no-sparse-arrays
    expect(verdictsOf([, { dead: 'x' }], 2)).toEqual([DONE, { kind: 'dead', error: 'x' }])
  })

  it('are failures of all tasks if the array has another length', () => {
    for (const returned of [[], [undefined], [1, 2, 3]])
      expect(verdictsOf(returned, 2)).toEqual([
        failed(expect.stringContaining('outcome-count')),
        failed(expect.stringContaining('for 2 tasks')),
      ])
  })

  it('are failures of all tasks for one outcome that is in no array', () => {
    expect(verdictsOf({ dead: 'x' }, 2)).toEqual([failed(expect.any(String)), failed(expect.any(String))])
  })
})

describe('the outcome of a verdict', () => {
  const retry = { maxAttempts: 3, backoff: 'fixed', minMs: 100, maxMs: 1_000, jitter: 0 } as const
  const failedOnce = { kind: 'failed', delayMs: null, error: 'boom' } as const

  it('is the verdict itself if nothing failed', () => {
    const snooze = { kind: 'snooze', delayMs: 5 } as const
    expect(settleOutcomeOf(DONE, 0, retry, 0)).toEqual({ kind: 'done' })
    expect(settleOutcomeOf(OBSOLETE, 0, retry, 0)).toEqual({ kind: 'obsolete' })
    expect(settleOutcomeOf(snooze, 0, retry, 0)).toEqual(snooze)
  })

  it('is dead if the handler says so, which counts no failure', () => {
    expect(settleOutcomeOf({ kind: 'dead', error: 'x' }, 0, retry, 0)).toEqual({
      kind: 'dead',
      cause: 'handler',
      error: 'x',
      failed: false,
    })
  })

  it('is a retry until the last allowed attempt has failed', () => {
    expect(settleOutcomeOf(failedOnce, 0, retry, 0)).toEqual({ kind: 'retry', delayMs: 100, error: 'boom' })
    expect(settleOutcomeOf(failedOnce, 1, retry, 0)).toMatchObject({ kind: 'retry' })
    expect(settleOutcomeOf(failedOnce, 2, retry, 0)).toEqual({
      kind: 'dead',
      cause: 'attempts',
      error: 'boom',
      failed: true,
    })
  })

  it('waits as long as the handler asked for, or by the backoff', () => {
    const growing = { ...retry, backoff: 'exponential', maxAttempts: 9 } as const
    expect(settleOutcomeOf({ ...failedOnce, delayMs: 0 }, 0, growing, 0)).toMatchObject({ delayMs: 0 })
    expect(settleOutcomeOf(failedOnce, 2, growing, 0)).toMatchObject({ delayMs: 400 })
    expect(settleOutcomeOf(failedOnce, 0, { ...retry, jitter: 0.2 }, 0)).toMatchObject({ delayMs: 80 })
  })
})
