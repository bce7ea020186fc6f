import { describe } from 'vitest'
import type { History } from '../../history.ts'
import { breaks, DONE_A, due, fine, held } from './expectations.ts'
import { REJECTED, Story } from './story.ts'

describe('I12 the books balance', () => {
  const done = (books: Parameters<Story['ends']>[1], more: Parameters<Story['ends']>[2] = {}): History =>
    due().done('a', 'v1', 't1').ends({ a: 'done v1' }, books, more)
  breaks('I12', 'one too few', () => done({ scheduled: 2, done: 1 }))
  breaks('I12', 'balanced, and wrong', () => done({ scheduled: 1, cancelled: 1 }))
  breaks('I12', 'one pending that is unknown', () => done({ scheduled: 2, done: 1, pending: 1 }))
  breaks('I12', 'claimed instead of pending', () =>
    new Story().schedule('a', 'v1', 1e9).ends({ a: 'pending v1' }, { claimed: 1 }),
  )
  breaks('I12', 'a grave that was overwritten counts as dead', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .schedule('a', 'v2', 100)
      .claim('a', 'v2', 't2')
      .start('a', 'v2')
      .end('dead')
      .settle('a', 't2', REJECTED)
      .ends({ a: 'dead v2' }, { dead: 2 }, {}, { deadCause: 'handler' }),
  )
  breaks('I12', 'the rows do not agree', () =>
    done(DONE_A, { audit: { balances: false, missing: 0, orphaned: 0 } }),
  )
  fine(
    'a claim whose lease is over at the end: it may or may not have been found',
    (c) => held(c).ends({ a: 'pending v1' }, { pending: 1 }, { settledBeforeMs: 0 }),
    ['redis', 'embedded'],
  )
})

describe('I13 no orphan', () => {
  const audited = (missing: number, orphaned: number): History =>
    due()
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A, { audit: { balances: true, missing, orphaned } })
  breaks('I13', 'a live task that the timetable did not know', () => audited(1, 0))
  fine('an entry too many only rings in vain', () => audited(0, 3))
})
