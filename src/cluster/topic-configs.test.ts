import { describe, expect, it } from 'vitest'
import type { Board, RecordChange } from '../board.ts'
import { TocsinError } from '../errors.ts'
import type { Random } from '../random.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { MemoryBoard } from '../boards/memory-board.ts'
import { TopicConfigs } from './topic-configs.ts'

let made = 0
const random: Random = { fraction: () => 0.5, uniqueId: () => `id-${++made}` }

function cluster(nodes: number, wrap: (board: Board) => Board = (same) => same) {
  const clock = new VirtualClock(0)
  const board = new MemoryBoard(clock, true)
  const all = Array.from(
    { length: nodes },
    (_, n) => new TopicConfigs(wrap(board), clock, random, `n${n + 1}`),
  )
  return { board, clock, all: all as [TopicConfigs, TopicConfigs] }
}

/** Lets time pass until it is over. */
async function passing<T>(clock: VirtualClock, work: Promise<T>): Promise<T> {
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  over.catch(() => {})
  while (!isOver) {
    await clock.turn()
    clock.moveTo(clock.monotonicNow() + 10)
  }
  return over
}

function set(live: RecordChange['live']) {
  return (record: { live: RecordChange['live']; isPaused: boolean }) => ({
    live: { ...record.live, ...live },
    isPaused: record.isPaused,
    patch: live as Record<string, unknown>,
  })
}

describe('the configuration of a topic', () => {
  it('is the same on every node once it has looked', async () => {
    const { board, all } = cluster(2)
    const [one, two] = all
    await one.create('t', 16, 'key')
    await one.change('t', set({ batchSize: 7 }), undefined)
    expect(two.get('t')).toBeNull()
    await two.refresh('1')
    expect(two.get('t')).toEqual(one.get('t'))
    expect(two.get('t')).toMatchObject({ version: 1, live: { batchSize: 7 } })
    expect((await board.history('t', 10))[0]).toMatchObject({ by: 'n1', version: 1, patch: { batchSize: 7 } })
  })

  it('is not asked for when the revision is the one that was read', async () => {
    let reads = 0
    const counting = (board: Board): Board =>
      new Proxy(board, {
        get: (target, name) => {
          if (name === 'records') reads++
          const value: unknown = Reflect.get(target, name)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    const { all } = cluster(1, counting)
    await all[0].refresh('5')
    await all[0].refresh('5')
    expect(reads).toBe(1)
    await all[0].refresh('6')
    expect(reads).toBe(2)
  })

  it('changes of two nodes at once are both in it, one after the other', async () => {
    const { all, clock } = cluster(2)
    const [one, two] = all
    await one.create('t', 16, 'key')
    await two.refresh()
    await passing(
      clock,
      Promise.all([
        one.change('t', set({ batchSize: 7 }), undefined),
        two.change('t', set({ slots: 4 }), undefined),
      ]),
    )
    await Promise.all([one.refresh(), two.refresh()])
    expect(one.get('t')).toMatchObject({ version: 2, live: { batchSize: 7, slots: 4 } })
    expect(two.get('t')).toEqual(one.get('t'))
  })

  it('of one version changes once: the other one is told so', async () => {
    const { all } = cluster(2)
    const [one, two] = all
    await one.create('t', 16, 'key')
    await two.refresh()
    const ends = await Promise.allSettled([
      one.change('t', set({ batchSize: 7 }), 0),
      two.change('t', set({ batchSize: 8 }), 0),
    ])
    expect(ends.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const refused = ends.find(({ status }) => status === 'rejected') as PromiseRejectedResult
    expect(refused.reason).toMatchObject({ code: 'version-conflict', details: { expected: 0, version: 1 } })
  })

  it('may be changed by a version that only another node has heard of', async () => {
    const { all } = cluster(2)
    const [one, two] = all
    await one.create('t', 16, 'key')
    await two.refresh()
    await one.change('t', set({ batchSize: 7 }), undefined)
    await two.change('t', set({ batchSize: 8 }), 1)
    expect(two.get('t')).toMatchObject({ version: 2, live: { batchSize: 8 } })
  })

  it('is changed once when the answer to a change is lost', async () => {
    let lost = 2
    const losing = (board: Board): Board =>
      new Proxy(board, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name)
          if (name !== 'change') return typeof value === 'function' ? value.bind(target) : value
          return async (...args: Parameters<Board['change']>) => {
            const answer = await target.change(...args)
            if (lost-- > 0) throw new TocsinError('ledger-unavailable', 'the answer is lost')
            return answer
          }
        },
      })
    const { all, clock } = cluster(1, losing)
    await all[0].create('t', 16, 'key')
    const changing = all[0].change('t', set({ batchSize: 7 }), 0)
    expect(await passing(clock, changing)).toMatchObject({ version: 1 })
    expect(await all[0].history('t', 10)).toHaveLength(1)
  })

  it('is forgotten where the board forgot it, and a reading that was overtaken takes nothing back', async () => {
    const { all, board } = cluster(2)
    const [one] = all
    await one.create('t', 16, 'key')
    await one.change('t', set({ batchSize: 7 }), undefined)
    const old = await board.records()
    await one.change('t', set({ batchSize: 8 }), undefined)
    const heard: (number | undefined)[] = []
    one.onChange('t', () => heard.push(one.get('t')?.version))
    // The answer was under way while the topic was changed here.
    board.records = async () => {
      await one.change('t', set({ batchSize: 9 }), undefined)
      return old
    }
    await one.refresh('x')
    expect(one.get('t')).toMatchObject({ version: 3, live: { batchSize: 9 } })
    // Wiped, and created again.
    board.records = async () => [{ ...old[0]!, version: 0, live: {} }]
    await one.refresh('y')
    expect(one.get('t')).toMatchObject({ version: 0, live: {} })
    board.records = async () => []
    await one.refresh('z')
    expect(one.get('t')).toBeNull()
    expect(heard).toEqual([3, 0, undefined])
  })
})

describe('a change', () => {
  it('of which the first reply was lost, and whose repetition is refused, has an unknown outcome', async () => {
    const errors = [
      new TocsinError('unknown-outcome', 'the reply was lost'),
      new TocsinError('bad-option', 'the board refuses'),
    ]
    const losing = (board: Board): Board =>
      new Proxy(board, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name, target)
          if (name === 'change') return () => Promise.reject(errors.shift() as Error)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
    const { clock, all } = cluster(1, losing)
    await all[0].create('t', 16, 'key')
    const changed = all[0].change('t', set({ batchSize: 7 }), undefined)
    await expect(passing(clock, changed)).rejects.toMatchObject({ code: 'unknown-outcome' })
  })

  it('waits for the one before it: two of one caller take effect in their order', async () => {
    let underWay = 0
    let most = 0
    const counting = (board: Board): Board =>
      new Proxy(board, {
        get: (target, name) => {
          const value: unknown = Reflect.get(target, name, target)
          if (typeof value !== 'function') return value
          if (name !== 'change') return value.bind(target)
          return async (...args: unknown[]) => {
            most = Math.max(most, ++underWay)
            await Promise.resolve()
            underWay--
            return value.apply(target, args)
          }
        },
      })
    const { clock, all } = cluster(1, counting)
    const [one] = all
    await one.create('t', 16, 'key')
    const changes = [1, 2, 3].map((batchSize) => one.change('t', set({ batchSize }), undefined))
    const records = await passing(clock, Promise.all(changes))
    expect(records.map(({ live }) => live.batchSize)).toEqual([1, 2, 3])
    expect(most).toBe(1)
  })
})

it('a topic that the board has lost is created again', async () => {
  const seen = { isWiped: false, creations: 0 }
  const losing = (board: Board): Board =>
    new Proxy(board, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name, target)
        if (name === 'create') seen.creations++
        if (name === 'records' && seen.isWiped) return async () => []
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  const { all } = cluster(1, losing)
  const [one] = all
  await one.create('t', 16, 'key')
  await one.recreate()
  expect(seen.creations).toBe(1)
  seen.isWiped = true
  await one.refresh('another revision')
  expect(one.get('t')).toBeNull()
  await one.recreate()
  expect(seen.creations).toBe(2)
  expect(one.get('t')).toMatchObject({ topic: 't', slots: 16 })
})
