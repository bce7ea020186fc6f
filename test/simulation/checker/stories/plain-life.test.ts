import { describe } from 'vitest'
import { ALL, DONE_A, due, ended, fine } from './expectations.ts'
import { Story } from './story.ts'

describe('a plain life', () => {
  fine(
    'done',
    (c) =>
      due(c)
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'pending, far away',
    (c) => new Story(c).schedule('a', 'v1', 1e9).ends({ a: 'pending v1' }, { pending: 1 }),
    ALL,
  )
  fine(
    'many, one of them obsolete',
    (c) =>
      due(c)
        .schedule('b', 'v2', 100)
        .done('a', 'v1', 't1')
        .claim('b', 'v2', 't2')
        .settle('b', 't2', { kind: 'obsolete' })
        .ends({ a: ended(c, 'done v1'), b: ended(c, 'obsolete v2') }, { done: 1, obsolete: 1 }),
    ALL,
  )
})
