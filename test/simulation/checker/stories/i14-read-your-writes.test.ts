import { describe, expect } from 'vitest'
import { check } from '../check.ts'
import type { History } from '../../history.ts'
import { ALL, breaks, CANCELLED_A, DONE_A, due, ended, fine, held, LEDGERS } from './expectations.ts'
import { DONE, REJECTED, Story } from './story.ts'

describe('I14 read your writes', () => {
  fine(
    'pending, claimed, gone',
    (c) =>
      new Story(c)
        .get('a', 'not-found')
        .schedule('a', 'v1', 100)
        .get('a', 'pending', 'v1')
        .at(100)
        .claim('a', 'v1', 't1')
        .get('a', 'claimed', 'v1')
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .get('a', ...((c === 'redis' ? ['not-found'] : ['done', 'v1']) as [string, string?]))
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I14',
    'not found after it was acknowledged',
    (c) =>
      due(c)
        .get('a', 'not-found')
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I14',
    'not found after it was done, and a ledger remembers',
    (c) => due(c).done('a', 'v1', 't1').get('a', 'not-found').ends({ a: 'done v1' }, DONE_A),
    LEDGERS,
  )
  breaks('I14', 'the older one after it was replaced', () =>
    due()
      .schedule('a', 'v2', 1e9, 'replaced')
      .get('a', 'pending', 'v1')
      .ends({ a: 'pending v2' }, { pending: 1 }),
  )
  breaks('I14', 'pending after it was cancelled', () =>
    due().cancel('a').get('a', 'pending', 'v1').ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('whichever of the states that it had meanwhile', () => {
    const looked = (outcome: string): History =>
      new Story()
        .call('get', 'a')
        .tell({
          kind: 'call',
          call: 90,
          life: 'n1/1',
          op: 'schedule',
          key: 'a',
          version: 'v1',
          tx: null,
          delayMs: null,
          onConflict: null,
        })
        .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
        .tell({
          kind: 'return',
          call: 90,
          outcome: 'created',
          dueMs: 1e9,
          inFlight: false,
          error: null,
          version: null,
        })
        .answer(outcome, { version: outcome === 'not-found' ? null : 'v1' })
        .ends({ a: 'pending v1' }, { pending: 1 })
    expect(check(looked('not-found'))).toEqual([])
    return looked('pending')
  })
  fine('one that failed saw nothing', () =>
    due()
      .call('get', 'a')
      .answer(null, { error: 'ledger-unavailable' })
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'not found after it was dead and purged',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .get('a', 'dead', 'v1')
        .purge('a')
        .get('a', 'not-found')
        .ends({}, { purged: 1 }),
    ALL,
  )
  fine('a ledger whose clock was set back may take another one for the last', () =>
    due()
      .tell({ kind: 'fault', fault: 'step-ledger', phase: 'begin', life: null })
      .done('a', 'v1', 't1')
      .at(500)
      .schedule('a', 'v2', 500)
      .cancel('a')
      .ends({ a: 'done v1' }, { done: 1, cancelled: 1 }),
  )
})
