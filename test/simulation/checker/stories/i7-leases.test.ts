import { describe } from 'vitest'
import { ALL, breaks, DONE_A, ended, fine, held } from './expectations.ts'
import { DONE } from './story.ts'

describe('I7 valid leases do not overlap', () => {
  breaks(
    'I7',
    'claimed by another one before the lease was over',
    (c) =>
      held(c)
        .at(1_000)
        .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I7', 'claimed by another one after the lease was extended', () =>
    held()
      .at(1_000)
      .extend('t1', ['a'])
      .at(1_500)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I7',
    'started when the lease was over',
    (c) =>
      held(c)
        .at(1_100)
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'a claim whose answer was lost is repeated under its token',
    (c) =>
      held(c)
        .at(600)
        .claim('a', 'v1', 't1', { leaseEndTrueMs: 1_100 })
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'claimed by another one when the lease was over, and in the last millisecond of it',
    (c) =>
      held(c)
        .at(1_099.5)
        .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
        .at(3_000)
        .claim('a', 'v1', 't3', { life: 'n3/1', isAlone: true, deliveries: 3 })
        .start('a', 'v1', { life: 'n3/1' })
        .settle('a', 't3', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine('a start under an extended lease', () =>
    held()
      .at(1_000)
      .extend('t1', ['a'])
      .at(1_500)
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine('taken anew under a token that lost it before: until when is unknown', () =>
    held()
      .at(2_000)
      .claim('a', 'v1', 't1', { deliveries: 2, leaseEndTrueMs: 1_100 })
      .cancel('a', 'in-flight')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'a process that has the file for itself takes what its predecessor held',
    (c) =>
      held(c)
        .life('crashes')
        .life('starts', 'n1/2')
        .at(200)
        .claim('a', 'v1', 't2', { life: 'n1/2', deliveries: 2 })
        .start('a', 'v1', { life: 'n1/2' })
        .settle('a', 't2', DONE)
        .ends({ a: 'done v1' }, DONE_A),
    ['embedded'],
  )
  breaks(
    'I7',
    'a process takes what its predecessor held, and others could have',
    (c) =>
      held(c)
        .life('crashes')
        .life('starts', 'n1/2')
        .at(200)
        .claim('a', 'v1', 't2', { life: 'n1/2', deliveries: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ['redis', 'center', 'alone'],
  )
})
