import { describe } from 'vitest'
import type { Composition, History } from '../../history.ts'
import { ALL, breaks, DONE_A, due, ended, fine, held } from './expectations.ts'
import { REJECTED, type Story } from './story.ts'

describe('I9 one final state', () => {
  const again = (story: Story, c: Composition): History =>
    story.done('a', 'v1', 't2', { deliveries: 2 }).ends({ a: ended(c, 'done v1') }, DONE_A)
  breaks('I9', 'claimed after it was done', (c) => again(due(c).done('a', 'v1', 't1'), c), ALL)
  breaks(
    'I9',
    'claimed after it was obsolete',
    (c) => again(held(c).settle('a', 't1', { kind: 'obsolete' }), c),
    ALL,
  )
  breaks(
    'I9',
    'claimed after it was dead',
    (c) => again(held(c).start('a', 'v1').end('dead').settle('a', 't1', REJECTED), c),
    ALL,
  )
  breaks('I9', 'buried after it was done', () =>
    due().done('a', 'v1', 't1').buried('a', 'poison').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I9', 'replayed, though it was not dead', () =>
    due().done('a', 'v1', 't1').replay('a').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I9', 'not replayed, though it was dead', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .replay('a', 'not-found')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  breaks('I12 I9', 'replayed over a live task, which is gone', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .schedule('a', 'v2', 1e9)
      .call('replay', 'a')
      .write('replay', 'a', 'replayed', { dueMs: 1e9 })
      .answer('replayed')
      .ends({ a: 'pending v1' }, { pending: 1, scheduled: 2 }),
  )
  breaks('I9', 'live, though it was not', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .replay('a', 'live')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  breaks('I9', 'purged, though there was no grave', () =>
    due().purge('a').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I9', 'replayed twice for one call', () => {
    const story = held().start('a', 'v1').end('dead').settle('a', 't1', REJECTED).call('replay', 'a')
    return story
      .write('replay', 'a', 'replayed', { dueMs: 100 })
      .write('replay', 'a', 'not-found')
      .answer('replayed')
      .done('a', 'v1', 't2', { deliveries: 2 })
      .ends({ a: 'done v1' }, DONE_A)
  })
  breaks('I9', 'a replay was acknowledged that never happened', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .call('replay', 'a')
      .answer('replayed')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  fine(
    'dead, replayed, done',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .replay('a')
        .replay('a', 'not-found')
        .done('a', 'v1', 't2', { deliveries: 2 })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'dead twice: the second grave takes the place of the first, which a live task protects',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .schedule('a', 'v2', 100)
        .replay('a', 'live')
        .claim('a', 'v2', 't2')
        .start('a', 'v2')
        .end('dead')
        .settle('a', 't2', REJECTED)
        .ends({ a: 'dead v2' }, { dead: 1, purged: 1 }, {}, { deadCause: 'handler' }),
    ALL,
  )
  const superseded = (c: Composition): Story =>
    held(c)
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .at(500)
      .schedule('a', 'v2', 500)
      .done('a', 'v2', 't2')
  breaks(
    'I9',
    'a sweep of the dead brought back what a newer one of its key superseded',
    (c) =>
      superseded(c)
        .write('replay-newest', 'a', 'replayed', { dueMs: 500 })
        .done('a', 'v1', 't3', { deliveries: 2 })
        .ends({ a: ended(c, 'done v1') }, { done: 2 }),
    ALL,
  )
  breaks(
    'I9',
    'a sweep of the dead passed over the newest of its key',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .write('replay-newest', 'a', 'superseded')
        .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
    ALL,
  )
  fine(
    'superseded: a sweep of the dead passes it over, and its key by name brings it back',
    (c) =>
      superseded(c)
        .write('replay-newest', 'a', 'superseded')
        .replay('a')
        .done('a', 'v1', 't3', { deliveries: 2 })
        .ends({ a: ended(c, 'done v1') }, { done: 2 }),
    ALL,
  )
  fine(
    'dead, and another one of the key done after that',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .at(500)
        .schedule('a', 'v2', 500)
        .done('a', 'v2', 't2')
        .ends(
          { a: c === 'redis' ? 'dead v1' : 'done v2' },
          { dead: 1, done: 1 },
          {},
          { deadCause: c === 'redis' ? 'handler' : null },
        ),
    ALL,
  )
})
