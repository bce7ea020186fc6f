import { describe } from 'vitest'
import { ALL, breaks, due, fine, held } from './expectations.ts'
import { retry, Story } from './story.ts'

describe('liveness', () => {
  breaks(
    'L1',
    'pending, though it was due long ago',
    (c) => due(c).ends({ a: 'pending v1' }, { pending: 1 }),
    ALL,
  )
  breaks('L1', 'claimed, though it was due long ago', () =>
    held().extend('t1', ['a'], { leaseEndTrueMs: 1e9 }).ends({ a: 'claimed v1' }, { claimed: 1 }),
  )
  fine(
    'a retry that is due after the end',
    (c) =>
      held(c)
        .start('a', 'v1')
        .settle('a', 't1', retry(1e6), { ringMs: c === 'redis' ? null : 1_000_100 })
        .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 1 }),
    ALL,
  )
  breaks(
    'L1',
    'a retry that was due before the end',
    (c) =>
      held(c)
        .start('a', 'v1')
        .settle('a', 't1', retry(1_000), { ringMs: c === 'redis' ? null : 1_100 })
        .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 1 }),
    ALL,
  )
  breaks('L6', 'an unhandled rejection', () =>
    new Story().tell({ kind: 'trouble', what: 'unhandled' }).ends({}, {}),
  )
  breaks('L6', 'a call that was never answered', () => new Story().call('cancel', 'a').ends({}, {}))
  fine('a call whose process died', () => new Story().call('cancel', 'a').life('crashes').ends({}, {}))
  breaks('L7', 'a timer is left', () => new Story().ends({}, {}, { timersLeft: 1 }))
})
