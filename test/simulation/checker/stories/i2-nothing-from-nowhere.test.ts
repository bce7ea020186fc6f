import { describe } from 'vitest'
import type { History } from '../../history.ts'
import { breaks, DONE_A, due, held } from './expectations.ts'
import { DONE, snooze, Story } from './story.ts'

describe('I2 nothing from nowhere', () => {
  const told = (more: Parameters<Story['start']>[2]): History =>
    held().start('a', 'v1', more).end('done').settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A)
  breaks('I2', 'another body', () => told({ body: 'body of v2' }))
  breaks('I2', 'other tags', () => told({ tags: ['red'] }))
  breaks('I2', 'another priority', () => told({ priority: 'low' }))
  breaks('I2', 'another due time', () => told({ dueMs: 99 }))
  breaks('I2', 'a version that was never written', () =>
    due().done('a', 'v1', 't1').start('a', 'v9').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I2', 'a claim of a version that was never written', () =>
    due()
      .done('a', 'v1', 't1')
      .claim('b', 'v9', 't2')
      .settle('b', 't2', DONE)
      .ends({ a: 'done v1', b: 'done v9' }, { done: 2 }),
  )
  breaks('I2', 'under the key of another', () =>
    due()
      .done('a', 'v1', 't1')
      .schedule('b', 'v2', 100)
      .claim('b', 'v2', 't2')
      .start('b', 'v1')
      .start('b', 'v2')
      .settle('b', 't2', DONE)
      .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
  )
  breaks('I2', 'its id changed between attempts', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', snooze(10), { ringMs: 110 })
      .at(110)
      .claim('a', 'v1', 't2', { ringMs: 110, deliveries: 2 })
      .start('a', 'v1', { id: 'another' })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I2', 'the id of another', () =>
    due()
      .done('a', 'v1', 't1')
      .schedule('b', 'v2', 100)
      .claim('b', 'v2', 't2')
      .start('b', 'v2', { id: 'id of v1' })
      .settle('b', 't2', DONE)
      .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
  )
  breaks('I2', 'written without a call', () =>
    new Story()
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I2', 'a task is there at the end that was never written', () =>
    new Story().ends({ a: 'done v1' }, {}),
  )
})
