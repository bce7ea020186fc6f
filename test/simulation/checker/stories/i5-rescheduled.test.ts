import { describe } from 'vitest'
import { ALL, breaks, DONE_A, due, ended, fine, held } from './expectations.ts'
import { DONE, RETURN, retry, Story } from './story.ts'

describe('I5 rescheduled means not before', () => {
  fine(
    'before its claim',
    (c) =>
      due(c)
        .reschedule('a', 'rescheduled', 300)
        .at(300)
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I5',
    'started after the caller knew, under a claim from before',
    (c) =>
      held(c)
        .settle('a', 't1', RETURN)
        .reschedule('a', 'rescheduled', 1e9)
        .start('a', 'v1', { dueMs: 100 })
        .ends({ a: 'pending v1' }, { pending: 1 }),
    ALL,
  )
  breaks('I5', 'rescheduled, though it was held', () =>
    held().reschedule('a', 'rescheduled', 1e9).ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I5', 'rescheduled, though there was nothing', () =>
    new Story().reschedule('a', 'rescheduled', 1e9).ends({}, {}),
  )
  breaks('I5', 'rescheduled, though it was cancelled in flight', () =>
    held()
      .cancel('a', 'in-flight')
      .at(2_000)
      .reschedule('a', 'rescheduled', 1e9)
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I5', 'in flight, though it was not held', () =>
    due().reschedule('a', 'in-flight').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I5', 'not found, though it was there', () =>
    due().reschedule('a', 'not-found').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I5', 'to another time than the caller was told', () =>
    due()
      .call('reschedule', 'a')
      .write('reschedule', 'a', 'rescheduled', { dueMs: 1e9 })
      .answer('rescheduled', { dueMs: 2e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  fine(
    'in flight, not found, and after a lost lease',
    (c) =>
      held(c)
        .reschedule('b', 'not-found')
        .reschedule('a', 'in-flight')
        .at(2_000)
        .reschedule('a', 'rescheduled', 2_500)
        .stale('a', 't1', DONE)
        .at(2_500)
        .done('a', 'v1', 't2', { deliveries: 2 })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'failures and lost leases are forgotten',
    (c) =>
      due(c, 2)
        .claim('a', 'v1', 't1')
        .start('a', 'v1')
        .settle('a', 't1', retry(100), { ringMs: 200 })
        .reschedule('a', 'rescheduled', 300)
        .at(300)
        .claim('a', 'v1', 't2', { deliveries: 2 })
        .start('a', 'v1')
        .settle('a', 't2', retry(100), { ringMs: 400 })
        .at(400)
        .claim('a', 'v1', 't3', { ringMs: 400, failures: 1, deliveries: 3 })
        .start('a', 'v1', { attempt: 2 })
        .settle('a', 't3', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
})
