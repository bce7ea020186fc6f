import { describe } from 'vitest'
import { ALL, breaks, DONE_A, due, ended, fine, held, LEDGERS } from './expectations.ts'
import { DONE, LOST } from './story.ts'

describe('I8 stale tokens change nothing', () => {
  breaks('I8', 'settled by one who had lost it to another', () =>
    held()
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I8',
    'settled twice',
    (c) =>
      held(c)
        .settle('a', 't1', DONE)
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I8', 'settled after it was replaced', () =>
    held()
      .schedule('a', 'v2', 1e9, 'replaced', true)
      .settle('a', 't1', DONE)
      .ends({ a: 'pending v2' }, { pending: 1 }),
  )
  breaks(
    'I8',
    'stale, though it held it',
    (c) =>
      held(c)
        .stale('a', 't1', DONE)
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I8',
    'stale, though its lease had been extended',
    (c) =>
      held(c)
        .at(900)
        .extend('t1', ['a'])
        .at(1_500)
        .stale('a', 't1', DONE)
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I8',
    'stale when the lease was over, though no process had found it',
    (c) => held(c).at(2_000).stale('a', 't1', DONE).settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
    LEDGERS,
  )
  breaks(
    'I8',
    'lost, though the lease was not over',
    (c) => held(c).settle('a', 't1', LOST, { ringMs: 1e9 }).ends({ a: 'pending v1' }, { pending: 1 }),
    LEDGERS,
  )
  breaks('I8', 'extended by one who did not hold it', () =>
    held()
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .extend('t1', ['a'])
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I8',
    'not extended, though it held it',
    (c) =>
      held(c)
        .extend('t1', [])
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I8',
    'of two that it held only one was extended',
    (c) =>
      held(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't1')
        .extend('t1', ['b'])
        .settle('a', 't1', DONE)
        .settle('b', 't1', DONE)
        .ends({ a: 'none', b: 'none' }, { done: 2 }),
    ['redis'],
  )
  breaks('I8', 'a start was recorded for one who did not hold it', () =>
    due().begin('a', 't9').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I8', 'a start was refused to one who held it', () =>
    held().begin('a', 't1', false).settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'settled after the lease was over, before a process found it',
    (c) =>
      held(c)
        .start('a', 'v1')
        .at(2_000)
        .settle('a', 't1', DONE)
        .stale('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'stale after the lease was over: a rescue found it, without an event',
    (c) =>
      held(c)
        .at(2_000)
        .stale('a', 't1', DONE)
        .extend('t1', [])
        .begin('a', 't1', false)
        .at(2_500)
        .done('a', 'v1', 't2', { ringMs: 2_400, deliveries: 2 })
        .ends({ a: 'none' }, DONE_A),
    ['redis'],
  )
  fine(
    'of two, one was settled before: the other one is extended',
    (c) =>
      held(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't1')
        .settle('a', 't1', DONE)
        .at(900)
        .extend('t1', ['b'])
        .at(1_500)
        .settle('b', 't1', DONE)
        .ends({ a: ended(c, 'done v1'), b: ended(c, 'done v2') }, { done: 2 }),
    ALL,
  )
  fine(
    'reported as lost by the process that found it, with a late settle',
    (c) =>
      held(c)
        .at(900)
        .stale('a', 't1', LOST)
        .at(2_000)
        .settle('a', 't1', LOST, { ringMs: 2_300 })
        .stale('a', 't1', DONE)
        .at(2_300)
        .done('a', 'v1', 't2', { ringMs: 2_300, deliveries: 2 })
        .ends({ a: 'done v1' }, DONE_A),
    LEDGERS,
  )
  fine('not extended while a transaction that may have locked it was open', () =>
    held()
      .call('cancel', 'a', { tx: 4 })
      .answer('in-flight')
      .extend('t1', [])
      .write('cancel', 'a', 'in-flight', { tx: 4 })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine('a suspect was freed, and its batch extended: which of them is not recorded', () =>
    due()
      .claim('a', 'v1', 't0')
      .at(2_000)
      .schedule('b', 'v2', 100)
      .claim('a', 'v1', 't1', { deliveries: 2, dueMs: 100, ringMs: 100 })
      .claim('b', 'v2', 't1')
      .at(3_500)
      .extend('t1', ['a', 'b'])
      .claim('a', 'v1', 't2', { isAlone: true, deliveries: 3 })
      .settle('a', 't2', DONE)
      .settle('b', 't1', DONE)
      .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
  )
})
