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
  const net = { kind: 'net', life: 'n1/1', net: 'look', count: 1 } as const
  breaks('L9', 'a safety net finds something, and nothing went wrong', () =>
    new Story().tell(net).ends({}, {}),
  )
  fine('a safety net finds something after a fault', () =>
    new Story().tell({ kind: 'fault', fault: 'wipe', phase: 'begin', life: null }).tell(net).ends({}, {}),
  )
  fine('a safety net finds something after a process died', () =>
    new Story()
      .life('crashes')
      .tell({ ...net, life: 'n1/2' })
      .ends({}, {}),
  )
  const leaves = { kind: 'fault', fault: 'leave', phase: 'begin', life: 'n1/1' } as const
  breaks('L9', 'a process that closed left a lease behind', () =>
    new Story()
      .tell(leaves)
      .tell({ ...net, net: 'lease', life: 'n2/1' })
      .ends({}, {}),
  )
  fine('a look finds something after a process closed', () => new Story().tell(leaves).tell(net).ends({}, {}))
  breaks('L7', 'a timer is left', () => new Story().ends({}, {}, { timersLeft: 1 }))
})
