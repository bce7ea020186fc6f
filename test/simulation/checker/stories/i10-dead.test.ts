import { describe } from 'vitest'
import type { Composition, History } from '../../history.ts'
import { ALL, breaks, DONE_A, due, ended, fine, held, LEDGERS } from './expectations.ts'
import { DONE, EXHAUSTED, LOST, REJECTED, RETURN, retry, snooze, type Story } from './story.ts'

/** Lost twice in a row, so that only a claim of its own may have it; time stands at 4000. */
const suspect = (c: Composition): Story =>
  held(c).at(2_000).claim('a', 'v1', 't2', { deliveries: 2 }).at(4_000)

describe('I10 dead if and only if', () => {
  const dead = (story: Story, cause: 'attempts' | 'handler' | 'poison' | 'payload', failures = 0): History =>
    story.ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: cause, failures })
  const failsTwice = (c: Composition): Story =>
    held(c)
      .start('a', 'v1')
      .settle('a', 't1', retry(100), { ringMs: 200 })
      .at(200)
      .claim('a', 'v1', 't2', { ringMs: 200, failures: 1, deliveries: 2 })
      .start('a', 'v1', { attempt: 2 })
      .settle('a', 't2', retry(100), { ringMs: 300 })
      .at(300)
  fine(
    'after as many failures as it may have',
    (c) =>
      dead(
        failsTwice(c)
          .claim('a', 'v1', 't3', { ringMs: 300, failures: 2, deliveries: 3 })
          .start('a', 'v1', { attempt: 3 })
          .settle('a', 't3', EXHAUSTED)
          .tell({ kind: 'dead', life: 'n1/1', key: 'a', cause: 'attempts' }),
        'attempts',
        3,
      ),
    ALL,
  )
  breaks(
    'I10',
    'after fewer',
    (c) => dead(held(c).start('a', 'v1').settle('a', 't1', EXHAUSTED), 'attempts', 1),
    ALL,
  )
  breaks('I10', 'retried after as many', () =>
    failsTwice('center')
      .claim('a', 'v1', 't3', { ringMs: 300, failures: 2, deliveries: 3 })
      .start('a', 'v1', { attempt: 3 })
      .settle('a', 't3', retry(1e9), { ringMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 3 }),
  )
  breaks('I10', 'a claim does not know its failures', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', retry(100), { ringMs: 200 })
      .at(200)
      .claim('a', 'v1', 't2', { ringMs: 200, failures: 0, deliveries: 2 })
      .start('a', 'v1')
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I10',
    'a lost lease counted as a failure',
    (c) =>
      held(c)
        .at(2_000)
        .claim('a', 'v1', 't2', { failures: 1, deliveries: 2 })
        .start('a', 'v1', { attempt: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I10', 'a handler was told another attempt', () =>
    held().start('a', 'v1', { attempt: 2 }).settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I10',
    'rejected without a handler',
    (c) => dead(held(c).start('a', 'v1').end('throw').settle('a', 't1', REJECTED), 'handler'),
    ALL,
  )
  breaks('I10', 'its payload did not fit, after a handler had it', () =>
    dead(
      held()
        .start('a', 'v1')
        .settle('a', 't1', { kind: 'dead', cause: 'payload', error: 'no', failed: false }),
      'payload',
    ),
  )
  breaks('I10', 'too late, which was not requested', () =>
    dead(
      held().settle('a', 't1', { kind: 'dead', cause: 'late', error: 'no', failed: false }),
      'late' as never,
    ),
  )
  breaks('I10', 'a rejection counted as a failure', () =>
    dead(
      held()
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', { kind: 'dead', cause: 'handler', error: 'no', failed: true }),
      'handler',
      1,
    ),
  )
  fine('its payload did not fit, or was damaged', () =>
    held()
      .settle('a', 't1', { kind: 'dead', cause: 'payload', error: 'no', failed: false })
      .schedule('b', 'v2', 100)
      .buried('b', 'payload')
      .ends({ a: 'dead v1', b: 'dead v2' }, { dead: 2 }, {}, { deadCause: 'payload' }),
  )
  fine(
    'poison: three leases in a row, the last one alone and started',
    (c) =>
      dead(
        suspect(c)
          .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
          .begin('a', 't3')
          .start('a', 'v1')
          .at(6_000)
          .buried('a', 'poison')
          .tell({ kind: 'dead', life: 'n2/1', key: 'a', cause: 'poison' })
          .stale('a', 't3', DONE),
        'poison',
      ),
    ALL,
  )
  fine(
    'poison, found by a settle, whichever is told first',
    (c) =>
      suspect(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't4')
        .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3, dueMs: 100, ringMs: 100 })
        .begin('a', 't3')
        .at(6_000)
        .claim('b', 'v2', 't5', { deliveries: 2 })
        .at(8_000)
        .claim('b', 'v2', 't6', { isAlone: true, deliveries: 3 })
        .begin('b', 't6')
        .settle('a', 't3', LOST)
        .buried('a', 'poison')
        .at(10_000)
        .buried('b', 'poison')
        .settle('b', 't6', LOST)
        .ends({ a: 'dead v1', b: 'dead v2' }, { dead: 2 }, {}, { deadCause: 'poison' }),
    LEDGERS,
  )
  fine(
    'poison, found by a rescue of a process that was not told, and scheduled anew before any is',
    (c) =>
      suspect(c)
        .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
        .begin('a', 't3')
        .at(6_000)
        .schedule('a', 'v2', 1e9)
        .buried('a', 'poison')
        .ends({ a: 'pending v2' }, { pending: 1, dead: 1 }),
    ['redis'],
  )
  breaks(
    'I10',
    'poison after one lost lease',
    (c) =>
      dead(
        due(c).claim('a', 'v1', 't1', { isAlone: true }).begin('a', 't1').at(2_000).buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'poison, though it was not started',
    (c) =>
      dead(
        suspect(c).claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 }).at(6_000).buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'poison, though its lease was not over',
    (c) =>
      dead(
        suspect(c)
          .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
          .begin('a', 't3')
          .at(4_500)
          .buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'poison, after a snooze in between',
    (c) =>
      dead(
        suspect(c)
          .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
          .settle('a', 't3', snooze(100), { ringMs: 4_100 })
          .at(4_100)
          .claim('a', 'v1', 't4', { isAlone: true, deliveries: 4, ringMs: 4_100 })
          .begin('a', 't4')
          .at(6_000)
          .buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'claimed again, though it is poison',
    (c) =>
      suspect(c)
        .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
        .begin('a', 't3')
        .at(6_000)
        .claim('a', 'v1', 't4', { isAlone: true, deliveries: 4 })
        .settle('a', 't4', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I10',
    'a suspect was claimed among others',
    (c) =>
      suspect(c)
        .claim('a', 'v1', 't3', { deliveries: 3 })
        .settle('a', 't3', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I10', 'a death was announced that did not happen', () =>
    held()
      .tell({ kind: 'dead', life: 'n1/1', key: 'a', cause: 'attempts' })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I10', 'at the end with other failures', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', retry(1e9), { ringMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 2 }),
  )
  breaks('I10', 'at the end of another cause', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'poison' }),
  )
  fine(
    'given back, snoozed and crashed as often as you like: no failure',
    (c) =>
      held(c)
        .settle('a', 't1', RETURN)
        .claim('a', 'v1', 't2')
        .start('a', 'v1')
        .settle('a', 't2', snooze(50), { ringMs: 150 })
        .at(150)
        .claim('a', 'v1', 't3', { ringMs: 150, deliveries: 2 })
        .life('crashes')
        .life('starts', 'n1/2')
        .at(2_000)
        .claim('a', 'v1', 't4', { ringMs: c === 'redis' ? 1_900 : 150, life: 'n1/2', deliveries: 3 })
        .start('a', 'v1', { life: 'n1/2' })
        .settle('a', 't4', DONE, { life: 'n1/2' })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
})
