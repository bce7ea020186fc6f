import { describe, expect, it } from 'vitest'
import { check } from '../check.ts'
import type { History } from '../../history.ts'
import { breaks, DONE_A, due, fine, held } from './expectations.ts'
import { DONE, Story } from './story.ts'

describe('the history itself', () => {
  const seqs = (...all: number[]): History => {
    const history = new Story().ends({}, {})
    const events = all.map(
      (seq) => ({ kind: 'fault', fault: 'x', phase: 'end', life: null, seq, trueMs: 0 }) as const,
    )
    return { ...history, events }
  }
  fine('numbers from anywhere', () => seqs(5, 6, 7))
  breaks('history', 'a gap', () => seqs(5, 7))
  breaks('history', 'true time goes back', () =>
    new Story().at(9).life('starts').at(8).life('starts', 'n2/1').ends({}, {}),
  )
  breaks('history', 'returned twice', () =>
    new Story().get('a', 'not-found').answer('not-found').ends({}, {}),
  )
  breaks('history', 'returned before it was called', () => new Story().answer('not-found').ends({}, {}))
  breaks('history', 'a run that ended and never began', () => new Story().end('done').ends({}, {}))
  breaks('history', 'a handler runs in a process that died', () =>
    held().life('crashes').start('a', 'v1').settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
  )
  breaks('history', 'it ended before its last event', () =>
    new Story().at(9).life('starts').ends({}, {}, { trueMs: 8 }),
  )
})

describe('what it says', () => {
  it('names the key, the version and the event, first things first', () => {
    const history = due()
      .cancel('a')
      .claim('a', 'v1', 't1')
      .settle('a', 't1', DONE)
      .ends({ a: 'none' }, DONE_A)
    const [first, second] = check(history)
    expect(first).toMatchObject({ invariant: 'I4', seq: 6 })
    expect(first?.message).toBe('a v1 was claimed by n1/1 (t1), but it was cancelled (seq 6)')
    expect(second).toMatchObject({ invariant: 'I1', seq: -1 })
  })

  it('tells no more than twenty of a kind', () => {
    const story = new Story()
    for (let n = 0; n < 100; n++) story.schedule(`k${n}`, `v${n}`, 5, 'replaced')
    const told = check(story.ends({}, {}))
    expect(told.filter(({ invariant }) => invariant === 'I6')).toHaveLength(20)
    expect(told.filter(({ invariant }) => invariant === 'I1')).toHaveLength(20)
  })

  it('takes 200,000 events in its stride, also all of one key', () => {
    const story = new Story('center')
    for (let n = 0; n < 20_000; n++) {
      story.at(n * 10).schedule('a', `v${n}`, n * 10)
      story.done('a', `v${n}`, `t${n}`).get('a', 'done', `v${n}`)
    }
    const history = story.ends({ a: 'done v19999' }, { done: 20_000 })
    const from = performance.now()
    expect(check(history)).toEqual([])
    expect(performance.now() - from).toBeLessThan(30_000)
  })
})
