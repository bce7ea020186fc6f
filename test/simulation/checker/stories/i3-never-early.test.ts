import { describe } from 'vitest'
import { ALL, breaks, DONE_A, due, ended, fine, held } from './expectations.ts'
import { DONE, retry } from './story.ts'

describe('I3 never early', () => {
  breaks('I3', 'started before its time', () =>
    due()
      .at(90)
      .claim('a', 'v1', 't1')
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I3', 'claimed as if it rang earlier', () =>
    due()
      .claim('a', 'v1', 't1', { ringMs: 99 })
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I3', 'before the time it was rescheduled to', () =>
    due()
      .reschedule('a', 'rescheduled', 500)
      .at(400)
      .claim('a', 'v1', 't1')
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I3', 'before a retry was due', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', retry(300), { ringMs: 400 })
      .at(399)
      .claim('a', 'v1', 't2', { ringMs: 400, failures: 1, deliveries: 2 })
      .start('a', 'v1', { attempt: 2 })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'on the dot, and again after a retry',
    (c) =>
      held(c)
        .start('a', 'v1')
        .settle('a', 't1', retry(300), { ringMs: c === 'redis' ? null : 400 })
        .at(400)
        .claim('a', 'v1', 't2', { ringMs: 400, failures: 1, deliveries: 2 })
        .start('a', 'v1', { attempt: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine('early by the true time, and not by the clock that rang', () =>
    due()
      .at(90)
      .claim('a', 'v1', 't1')
      .start('a', 'v1', { recordMs: 100 })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
})
