import { describe } from 'vitest'
import type { Composition } from '../../history.ts'
import { ALL, breaks, CANCELLED_A, DONE_A, due, ended, fine, held, LEDGERS } from './expectations.ts'
import { DONE, RETURN, retry, Story } from './story.ts'

describe('I4 cancelled means never delivered', () => {
  const cancelledA = (c: Composition) => ({ a: ended(c, 'cancelled v1') })
  fine('before its claim', (c) => due(c).cancel('a').ends(cancelledA(c), CANCELLED_A), ALL)
  breaks(
    'I4',
    'claimed nevertheless',
    (c) =>
      due(c)
        .cancel('a')
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I4',
    'started after the caller knew, under a claim from before',
    (c) => held(c).settle('a', 't1', RETURN).cancel('a').start('a', 'v1').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  breaks(
    'I4',
    'cancelled, though it was held',
    (c) => held(c).cancel('a').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  breaks('I4', 'in flight, though it was not held', () =>
    due().cancel('a', 'in-flight').ends({ a: 'pending v1' }, { pending: 1 }, { settledBeforeMs: 50 }),
  )
  breaks(
    'I4',
    'in flight, though the lease was over',
    (c) =>
      held(c)
        .at(2_000)
        .cancel('a', 'in-flight')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    // A file decides by the moment at which it was asked, which the history does not have.
    ['redis', 'center', 'alone'],
  )
  breaks('I4', 'not found, though it was there', () =>
    due().cancel('a', 'not-found').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I4', 'claimed again after it was cancelled in flight', () =>
    held()
      .cancel('a', 'in-flight')
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I4', 'acknowledged, and the truth knows nothing of it', () =>
    due().call('cancel', 'a').answer('cancelled').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'in flight, and the attempt ends well',
    (c) =>
      held(c)
        .cancel('a', 'in-flight')
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'in flight, and the attempt fails',
    (c) =>
      held(c)
        .start('a', 'v1')
        .cancel('a', 'in-flight')
        .settle('a', 't1', retry(5))
        .ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'in flight, and its lease expires: no event need follow',
    (c) => held(c).cancel('a', 'in-flight').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'in flight, its lease runs out, and it is not found',
    (c) =>
      held(c).cancel('a', 'in-flight').at(2_000).cancel('a', 'not-found').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'in flight, its lease runs out, and a call that moves it ends it',
    (c) =>
      held(c)
        .cancel('a', 'in-flight')
        .at(2_000)
        .reschedule('a', 'not-found')
        .ends(cancelledA(c), CANCELLED_A),
    LEDGERS,
  )
  fine(
    'after the lease was over',
    (c) => held(c).at(2_000).cancel('a').stale('a', 't1', DONE).ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'scheduled anew after it was cancelled',
    (c) =>
      due(c)
        .cancel('a')
        .schedule('a', 'v2', 100)
        .done('a', 'v2', 't1')
        .ends({ a: ended(c, 'done v2') }, { done: 1, cancelled: 1 }),
    ALL,
  )
  fine('what was replaced in flight may start after its successor was cancelled', () =>
    held()
      .schedule('a', 'v2', 1e9, 'replaced', true)
      .cancel('a')
      .start('a', 'v1', { dueMs: 100 })
      .end('done')
      .stale('a', 't1', DONE)
      .ends({ a: 'cancelled v2' }, CANCELLED_A),
  )
  fine('cancelled by tag, without a call for this key', () =>
    due().write('cancel', 'a', 'cancelled').ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('of a transaction, which answers before it commits', () =>
    due()
      .call('cancel', 'a', { tx: 3 })
      .answer('cancelled')
      .at(120)
      .write('cancel', 'a', 'cancelled', { tx: 3 })
      .ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('of a transaction that found nothing, and when it commits there is something', () =>
    new Story()
      .call('cancel', 'a', { tx: 3 })
      .answer('not-found')
      .schedule('a', 'v1', 1e9)
      .write('cancel', 'a', 'not-found', { tx: 3 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
})
