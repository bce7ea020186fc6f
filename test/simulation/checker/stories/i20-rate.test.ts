import { describe } from 'vitest'
import { breaks, fine } from './expectations.ts'
import { Story } from './story.ts'

const RATE = { limit: 2, perMs: 1_000 }
const CREATED = {
  kind: 'record',
  life: 'n1/1',
  op: 'create',
  isOurs: false,
  version: 0,
  isPaused: false,
  content: '{}',
  asked: null,
} as const

/** Tasks a, b, c, … of a topic with so many slots, handled at these times by these processes in turn. */
function handledAt(times: readonly number[], lives: readonly string[] = ['n1/1'], slots = 1) {
  const story = new Story('center').withRate(RATE).tell({ ...CREATED, slots })
  const keys = times.map((_, n) => 'abcdef'[n] as string)
  for (const key of keys) story.schedule(key, `v${key}`, 100)
  for (const [n, key] of keys.entries()) {
    const life = lives[n % lives.length] as string
    story
      .at(times[n] as number)
      .claim(key, `v${key}`, `t${key}`, { life })
      .start(key, `v${key}`, { life })
      .end('done', life)
      .settle(key, `t${key}`, { kind: 'done' }, { life })
  }
  return story.ends(Object.fromEntries(keys.map((key) => [key, `done v${key}`])), { done: keys.length })
}

describe('I20 the rate holds when handlers start', () => {
  fine('as many as the limit in each span', () => handledAt([4_000, 4_900, 5_000, 5_900]))
  breaks('I20', 'one too many in a span, wherever it begins', () => handledAt([4_000, 4_900, 4_950]))
  breaks('I20', 'one too many by two processes together', () =>
    handledAt([4_000, 4_100, 4_200], ['n1/1', 'n2/1']),
  )
  fine('two processes together, while the slots change owners', () =>
    handledAt([1_000, 1_100, 1_200], ['n1/1', 'n2/1']),
  )
  fine('two processes together, with fewer starts than slots', () =>
    handledAt([4_000, 4_100, 4_200], ['n1/1', 'n2/1'], 4),
  )
})
