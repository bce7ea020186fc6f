import { describe } from 'vitest'
import { ALL, breaks, DONE_A, ended, fine, held } from './expectations.ts'
import { DONE } from './story.ts'

describe('I11 every start has a cause', () => {
  breaks(
    'I11',
    'started twice under one claim',
    (c) =>
      held(c)
        .start('a', 'v1')
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I11',
    'started by a process that did not claim it',
    (c) =>
      held(c)
        .start('a', 'v1', { life: 'n2/1' })
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I11',
    'started after its claim was settled',
    (c) =>
      held(c)
        .settle('a', 't1', DONE)
        .start('a', 'v1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'a lease ran out, and both handlers run',
    (c) =>
      held(c)
        .start('a', 'v1')
        .at(2_000)
        .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
        .start('a', 'v1', { life: 'n2/1' })
        .stale('a', 't1', DONE)
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine('a process starts the older of two versions that it claimed', () =>
    held()
      .schedule('a', 'v2', 100, 'replaced', true)
      .claim('a', 'v2', 't2')
      .start('a', 'v1')
      .start('a', 'v2')
      .stale('a', 't1', DONE)
      .settle('a', 't2', DONE)
      .ends({ a: 'done v2' }, DONE_A),
  )
})
