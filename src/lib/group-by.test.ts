import { expect, it } from 'vitest'
import { groupBy } from './group-by.ts'

it('groups items by key, in order of appearance', () => {
  const groups = groupBy(['apple', 'bean', 'avocado', 'beet', 'corn'], (word) => word[0])
  expect([...groups]).toEqual([
    ['a', ['apple', 'avocado']],
    ['b', ['bean', 'beet']],
    ['c', ['corn']],
  ])
})
