import { describe, expect, it } from 'vitest'
import { TocsinError } from '../errors.ts'
import { retryAfterSeconds } from './api-error.ts'

describe('Retry-After', () => {
  it.each([
    [0, 1],
    [1, 1],
    [999, 1],
    [1_000, 1],
    [1_001, 2],
    [1_999, 2],
    [59_000.5, 60],
  ])(
    'for an error that ends in %d ms is %d s: never earlier than a retry can succeed',
    (retryInMs, seconds) => {
      expect(retryAfterSeconds(new TocsinError('rate-limited', 'x', { retryInMs }))).toBe(seconds)
    },
  )

  it('is a second if the error does not say when', () => {
    expect(retryAfterSeconds(new TocsinError('unreachable', 'x'))).toBe(1)
    expect(retryAfterSeconds(new TocsinError('rate-limited', 'x', { retryInMs: 'soon' }))).toBe(1)
  })

  it('is absent if a retry cannot succeed', () => {
    expect(retryAfterSeconds(new TocsinError('bad-key', 'x', { retryInMs: 5_000 }))).toBeNull()
  })
})
