import { describe } from 'vitest'
import { breaks, fine } from './expectations.ts'
import { Story } from './story.ts'

type Start = readonly [atMs: number, batch: number]

const ALMOST_FULL = Array.from({ length: 15 }, (): Start => [1_000, 1])
const TWO_CALLS: readonly Start[] = [
  [1_000, 1],
  [1_002, 2],
]

/** A task a, b, c, … is claimed at each of these times, and started by the call of a batch handler with this number. */
function batches(starts: readonly Start[], story = new Story('center')) {
  const keys = starts.map((_, n) => `k${n}`)
  for (const key of keys) story.schedule(key, `v${key}`, 100)
  for (const [n, [atMs, batch]] of starts.entries()) {
    const key = keys[n] as string
    story
      .at(atMs)
      .claim(key, `v${key}`, `t${key}`)
      .start(key, `v${key}`, { batch })
      .end('done')
      .settle(key, `t${key}`, { kind: 'done' })
  }
  return story.ends(Object.fromEntries(keys.map((key) => [key, `done v${key}`])), { done: keys.length })
}

/** A topic with these settings. */
const created = (live: string) =>
  new Story('center').tell({
    kind: 'record',
    life: 'n1/1',
    op: 'create',
    asked: null,
    isOurs: false,
    version: 0,
    slots: 16,
    isPaused: false,
    content: `{"live":${live}}`,
  })

describe('I22 a batch handler gets what comes within the linger in one call', () => {
  fine('one call with all of them', () => batches(TWO_CALLS.map(([atMs]) => [atMs, 1])))
  fine('calls that are a linger apart', () =>
    batches(TWO_CALLS.map(([, batch]) => [1_000 + 5 * batch, batch])),
  )
  breaks('I22', 'a call for each', () => batches(TWO_CALLS))
  fine('a full batch, and the rest', () => batches([...ALMOST_FULL, [1_001, 2]]))
  fine('a call for each, if the size of batches is set', () =>
    batches(TWO_CALLS, created('[["batchSize",1]]')),
  )
  breaks('I22', 'a call for each, if another setting is set', () =>
    batches(TWO_CALLS, created('[["lease","2s"]]')),
  )
  fine('a call for each, if the topic has a rate', () =>
    batches(TWO_CALLS, new Story('center').withRate({ limit: 10, perMs: 1_000 })),
  )
  fine('a call for each, while a link is faulty', () =>
    batches(
      TWO_CALLS,
      new Story('center').tell({ kind: 'fault', fault: 'noise-ledger', phase: 'begin', life: 'n1/1' }),
    ),
  )
})
