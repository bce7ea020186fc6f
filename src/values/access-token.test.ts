import { expect, it } from 'vitest'
import { type AccessToken, byCreation } from './access-token.ts'

it('lists the oldest token first, and those of one millisecond by id', () => {
  const tokens = [
    { createdMs: 1, id: 'z' },
    { createdMs: 2, id: 'a' },
    { createdMs: 2, id: 'b' },
    { createdMs: 3, id: 'a' },
  ] as AccessToken[]
  expect(tokens.toReversed().toSorted(byCreation)).toEqual(tokens)
  expect(byCreation(tokens[1]!, tokens[1]!)).toBe(0)
})
