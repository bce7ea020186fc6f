import { describe } from 'vitest'
import { ALL, breaks, DONE_A, due, ended, fine, held } from './expectations.ts'
import { DONE, REJECTED, snooze, Story } from './story.ts'

describe('I1 no loss', () => {
  breaks('I1', 'acknowledged, and never written', () =>
    new Story().call('schedule', 'a', { version: 'v1' }).answer('created', { dueMs: 5 }).ends({}, {}),
  )
  breaks(
    'I1 I12',
    'gone at the end, without a reason',
    (c) => due(c).ends({ a: 'none' }, { scheduled: 1 }),
    ALL,
  )
  breaks('I1', 'gone at the end, and the books pretend', () => due().ends({}, { pending: 1 }))
  breaks('I1', 'another version than the last one', () =>
    due().schedule('a', 'v2', 1e9, 'replaced').ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I1', 'done, and pending nevertheless', () =>
    due().done('a', 'v1', 't1').ends({ a: 'pending v1' }, DONE_A, {}, { dueMs: 1e9 }),
  )
  breaks('I1', 'due at another time than it was rescheduled to', () =>
    due().reschedule('a', 'rescheduled', 1e9).ends({ a: 'pending v1' }, { pending: 1 }, {}, { dueMs: 2e9 }),
  )
  breaks('I1', 'a transaction was committed without one of its writes', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1', tx: 7 })
      .answer('created', { dueMs: 1e9 })
      .call('schedule', 'b', { version: 'v2', tx: 7 })
      .answer('created', { dueMs: 1e9 })
      .write('schedule', 'b', 'created', { version: 'v2', dueMs: 1e9, tx: 7 })
      .ends({ b: 'pending v2' }, { pending: 1 }),
  )
  fine('a transaction that was rolled back', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1', tx: 7 })
      .answer('created', { dueMs: 1e9 })
      .ends({}, {}),
  )
  fine('a transaction that was committed after its task was due', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1', tx: 7 })
      .answer('created', { dueMs: 5 })
      .at(50)
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 5, tx: 7 })
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'an unknown outcome without an effect, and one with',
    (c) =>
      new Story(c)
        .call('schedule', 'a', { version: 'v1' })
        .answer(null, { error: 'unknown-outcome' })
        .call('schedule', 'b', { version: 'v2' })
        .at(9)
        .write('schedule', 'b', 'created', { version: 'v2', dueMs: 9 })
        .answer(null, { error: 'unknown-outcome' })
        .done('b', 'v2', 't1')
        .ends({ b: ended(c, 'done v2') }, DONE_A),
    ALL,
  )
  fine(
    'a process that died before it was answered',
    (c) =>
      new Story(c)
        .call('schedule', 'a', { version: 'v1' })
        .write('schedule', 'a', 'created', { version: 'v1', dueMs: 9 })
        .life('crashes')
        .life('starts', 'n1/2')
        .at(9)
        .claim('a', 'v1', 't1', { life: 'n1/2' })
        .start('a', 'v1', { life: 'n1/2' })
        .end('done', 'n1/2')
        .settle('a', 't1', DONE, { life: 'n1/2' })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'replaced, and the later one purged',
    (c) =>
      due(c)
        .schedule('a', 'v2', 100, 'replaced')
        .claim('a', 'v2', 't1')
        .start('a', 'v2')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .purge('a')
        .ends({ a: 'none' }, { purged: 1 }),
    ALL,
  )
  fine('what runs at the end is given back when all is closed', (c) =>
    held(c)
      .start('a', 'v1')
      .life('closes')
      .settle('a', 't1', snooze(0))
      .life('closed')
      .ends({ a: 'claimed v1' }, { claimed: 1 }, { settledBeforeMs: 50 }),
  )
})
