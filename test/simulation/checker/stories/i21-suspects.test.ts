import { describe } from 'vitest'
import { breaks, fine } from './expectations.ts'
import { LOST, Story } from './story.ts'

/** Two suspects: the first one runs from 5,000 to 5,100, the second one starts at this time. */
function secondAt(trueMs: number) {
  const story = new Story('center')
  for (const key of ['a', 'b']) story.schedule(key, `v${key}`, 100)
  for (const [n, at] of [200, 2_000].entries()) {
    for (const key of ['a', 'b']) story.at(at).claim(key, `v${key}`, `t${key}${n}`, { deliveries: n + 1 })
    for (const key of ['a', 'b']) story.at(at + 1_500).settle(key, `t${key}${n}`, LOST)
  }
  for (const [key, at] of [
    ['a', 5_000],
    ['b', trueMs],
  ] as const)
    story
      .at(at)
      .claim(key, `v${key}`, `t${key}`, { isAlone: true, deliveries: 3 })
      .begin(key, `t${key}`)
      .start(key, `v${key}`, { deliveries: 3 })
      .at(at + 100)
      .end('done')
      .settle(key, `t${key}`, { kind: 'done' })
  return story.ends({ a: 'done va', b: 'done vb' }, { done: 2 })
}

describe('I21 suspects take at most a fifth of the time', () => {
  fine('the next one starts four times as long after as the first one took', () => secondAt(5_500))
  breaks('I21', 'the next one starts sooner', () => secondAt(5_400))
})
