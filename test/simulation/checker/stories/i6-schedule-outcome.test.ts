import { describe } from 'vitest'
import { ALL, breaks, DONE_A, due, ended, fine, held } from './expectations.ts'
import { DONE, Story } from './story.ts'

describe('I6 the outcome of a schedule says what happened', () => {
  const pending = { pending: 1 }
  breaks('I6', 'created, though one was alive', () =>
    due().schedule('a', 'v2', 1e9, 'created').ends({ a: 'pending v2' }, { pending: 1 }),
  )
  breaks('I6', 'replaced, though there was none', () =>
    new Story().schedule('a', 'v1', 1e9, 'replaced').ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'kept, though there was none', () => new Story().schedule('a', 'v1', 1e9, 'kept').ends({}, {}))
  breaks('I6', 'kept, though it was cancelled in flight', () =>
    held()
      .cancel('a', 'in-flight')
      .schedule('a', 'v2', 100, 'kept', true)
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I6', 'kept with another due time', () =>
    due().schedule('a', 'v2', 101, 'kept').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I6', 'in flight, though it was not held', () =>
    due().schedule('a', 'v2', 1e9, 'replaced', true).ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'not in flight, though it was held', () =>
    held().schedule('a', 'v2', 1e9, 'replaced').ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'claimed after another took its place', () =>
    due()
      .schedule('a', 'v2', 1e9, 'replaced')
      .claim('a', 'v1', 't1', { dueMs: 100, ringMs: 100 })
      .ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'it took effect after the caller was told that its outcome is unknown', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .answer(null, { error: 'unknown-outcome' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'the caller was told another outcome', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .answer('replaced', { dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'the caller was told another due time', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .answer('created', { dueMs: 1e9 + 1 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'the caller was not told that it was in flight', () =>
    held()
      .call('schedule', 'a', { version: 'v2' })
      .write('schedule', 'a', 'replaced', { version: 'v2', dueMs: 1e9, inFlight: true })
      .answer('replaced', { dueMs: 1e9 })
      .ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'acknowledged before it took effect', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .answer('created', { dueMs: 1e9 })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'sent twice', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .write('schedule', 'a', 'replaced', { version: 'v1', dueMs: 1e9 })
      .answer('created', { dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'failed, and took effect later', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .answer(null, { error: 'timetable-unavailable' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  fine(
    'kept, replaced, and replaced in flight',
    (c) =>
      due(c)
        .schedule('a', 'v2', 100, 'kept')
        .claim('a', 'v1', 't1')
        .schedule('a', 'v3', 100, 'kept', true)
        .schedule('a', 'v4', 200, 'replaced', true)
        .start('a', 'v1', { dueMs: 100 })
        .end('done')
        .stale('a', 't1', DONE)
        .at(200)
        .done('a', 'v4', 't2')
        .ends({ a: ended(c, 'done v4') }, DONE_A),
    ALL,
  )
  fine(
    'what was cancelled in flight is not kept',
    (c) =>
      held(c)
        .cancel('a', 'in-flight')
        .schedule('a', 'v2', 1e9, 'replaced', true)
        .stale('a', 't1', DONE)
        .ends({ a: 'pending v2' }, pending),
    ALL,
  )
  fine(
    'a lease that is over may count as in flight, or not',
    (c) =>
      held(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't2')
        .at(2_000)
        .schedule('a', 'v3', 1e9, 'replaced', true)
        .schedule('b', 'v4', 1e9, 'replaced', false)
        .ends({ a: 'pending v3', b: 'pending v4' }, { pending: 2 }),
    ALL,
  )
  fine('a call that failed without an effect, and one that would have kept', () =>
    due()
      .call('schedule', 'a', { version: 'v2' })
      .answer(null, { error: 'timetable-full' })
      .call('schedule', 'a', { version: 'v3' })
      .answer(null, { error: 'ledger-unavailable' })
      .write('schedule', 'a', 'kept', { version: 'v3', dueMs: 100 })
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine('a transaction that would have kept what is gone when it commits', () =>
    due()
      .call('schedule', 'a', { version: 'v2', tx: 1 })
      .answer('kept', { dueMs: 100 })
      .done('a', 'v1', 't1')
      .write('schedule', 'a', 'kept', { version: 'v2', dueMs: 100, tx: 1 })
      .ends({ a: 'done v1' }, DONE_A),
  )
})
