import { expect, it } from 'vitest'
import { readTries } from './tries.ts'

// Written by lua/shared/tries.lua.
it.each([
  ['none', '500|1700|2|3|0|0|1800|', null],
  ['one', '500|1700|2|3|0|0|1800|boom é', 'boom é'],
  ['one that contains the separator', '500|1700|2|3|1|1|1800|a|b|', 'a|b|'],
])('reads the record of earlier claims, with %s error', (_, text, error) => {
  expect(readTries(text)).toEqual({
    dueMs: 500,
    firstStamp: 1_700,
    failures: 2,
    deliveries: 3,
    updatedMs: 1_800,
    error,
  })
})
