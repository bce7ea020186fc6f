import { expect, it } from 'vitest'
import { isBatchFull } from './batch-max.ts'

it('a batch is full with 1,000 tasks, or with a mebibyte of payloads', () => {
  expect([isBatchFull(999, 1_048_575), isBatchFull(1_000, 0), isBatchFull(1, 1_048_576)]).toEqual([
    false,
    true,
    true,
  ])
})
