import { describe, expect, test, vi } from 'vitest'
import { Heap, type HeapMember } from './heap.ts'

const member = (key: string): HeapMember => ({ key, position: -1 })

/** Whole numbers below `limit`; the same at every run of a seed. */
function dice(seed: number): (limit: number) => number {
  let state = seed
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit)
  }
}

type Row = { member: HeapMember; score: number }
const byScoreThenKey = (a: Row, b: Row): number =>
  a.score - b.score || (a.member.key < b.member.key ? -1 : a.member.key > b.member.key ? 1 : 0)

/** What a heap must do, done slowly: an array that is sorted after every change. */
class Model {
  rows: Row[] = []
  set(changed: HeapMember, score: number): void {
    this.remove(changed)
    this.rows.push({ member: changed, score })
    this.rows.sort(byScoreThenKey)
  }
  remove(gone: HeapMember): void {
    this.rows = this.rows.filter((row) => row.member !== gone)
  }
}

function drain(heap: Heap<HeapMember>): string[] {
  const keys: string[] = []
  for (let head = heap.pop(); head !== undefined; head = heap.pop()) keys.push(head.key)
  return keys
}

test('an empty heap has no head and no end to wait for', () => {
  const heap = new Heap()
  expect(heap.size).toBe(0)
  expect(heap.head()).toBeUndefined()
  expect(heap.pop()).toBeUndefined()
  expect(heap.headScore()).toBe(Number.POSITIVE_INFINITY)
  expect(heap.countUpTo(Number.POSITIVE_INFINITY)).toBe(0)
  expect([...heap.entries()]).toEqual([])
})

describe('against a sorted array', () => {
  // Few scores: many ties. Many pushes first, then many removals: it grows and shrinks.
  test.each([
    { seed: 1, scores: 5 },
    { seed: 2, scores: 50 },
    { seed: 3, scores: 1_000_000 },
    { seed: 4, scores: 1 },
  ])('4,000 random changes, seed $seed, $scores scores', ({ seed, scores }) => {
    const roll = dice(seed)
    const heap = new Heap<HeapMember>()
    const model = new Model()
    const any = (): HeapMember | undefined => model.rows[roll(model.rows.length)]?.member
    for (let step = 0; step < 4_000; step++) {
      const pushing = step % 1_000 < 500 ? 6 : 2
      const what = roll(10)
      const [chosen, score] = [any(), roll(scores)]
      if (what < pushing || chosen === undefined) {
        const added = member(`k${roll(1_000_000)}-${step}`)
        heap.push(added, score)
        model.set(added, score)
      } else if (what === 9) {
        heap.move(chosen, score)
        model.set(chosen, score)
      } else if (what === 8) {
        expect(heap.pop()).toBe(model.rows[0]?.member)
        model.rows.shift()
      } else {
        heap.remove(chosen)
        model.remove(chosen)
      }

      const [first] = model.rows
      expect(heap.size).toBe(model.rows.length)
      expect(heap.head()).toBe(first?.member)
      expect(heap.headScore()).toBe(first?.score ?? Number.POSITIVE_INFINITY)
      const limit = roll(scores)
      expect(heap.countUpTo(limit)).toBe(model.rows.filter((row) => row.score <= limit).length)
      const one = model.rows[roll(model.rows.length)]
      if (one !== undefined) expect(heap.scoreOf(one.member)).toBe(one.score)
    }
    const entries = [...heap.entries()].map(([held, score]): Row => ({ member: held, score }))
    expect(entries.toSorted(byScoreThenKey)).toEqual(model.rows)
    expect(drain(heap)).toEqual(model.rows.map((row) => row.member.key))
  })
})

describe('order', () => {
  test('ties go by key, whatever the order they came in', () => {
    const keys = ['b:2', 'a:1', 'b:1', 'c', 'a:2', 'a:10', 'B']
    for (const given of [keys, keys.toReversed(), keys.toSorted()]) {
      const heap = new Heap()
      for (const key of given) heap.push(member(key), 7)
      expect(drain(heap)).toEqual(['B', 'a:1', 'a:10', 'a:2', 'b:1', 'b:2', 'c'])
    }
  })

  test('a score comes before a key', () => {
    const heap = new Heap()
    heap.push(member('a'), 2)
    heap.push(member('b'), 1)
    expect(drain(heap)).toEqual(['b', 'a'])
  })

  test('scores keep all their digits', () => {
    const heap = new Heap()
    const [late, early] = [member('a'), member('b')]
    heap.push(late, Number.MAX_SAFE_INTEGER)
    heap.push(early, Number.MAX_SAFE_INTEGER - 1)
    expect(heap.scoreOf(late)).toBe(Number.MAX_SAFE_INTEGER)
    expect(drain(heap)).toEqual(['b', 'a'])
  })

  test('moving takes a member forward, back, and nowhere', () => {
    const heap = new Heap()
    const members = Array.from({ length: 100 }, (_, i) => member(String(i).padStart(3, '0')))
    for (const [i, each] of members.entries()) heap.push(each, i)
    heap.move(members[99]!, -1)
    heap.move(members[0]!, 1_000)
    heap.move(members[50]!, 50)
    expect(heap.head()).toBe(members[99])
    expect(heap.size).toBe(100)
    const middle = members.slice(1, 99).map((each) => each.key)
    expect(drain(heap)).toEqual(['099', ...middle, '000'])
  })

  test('a member that was removed can be pushed again', () => {
    const heap = new Heap()
    const [first, second] = [member('a'), member('b')]
    heap.push(first, 1)
    heap.push(second, 2)
    heap.remove(first)
    heap.push(first, 3)
    expect(drain(heap)).toEqual(['b', 'a'])
  })
})

describe('countUpTo', () => {
  test('counts the limit itself, and none or all beyond the ends', () => {
    const heap = new Heap()
    for (let i = 0; i < 1_000; i++) heap.push(member(`k${i}`), (i * 7) % 100)
    expect(heap.countUpTo(-1)).toBe(0)
    expect(heap.countUpTo(0)).toBe(10)
    expect(heap.countUpTo(49)).toBe(500)
    expect(heap.countUpTo(49.5)).toBe(500)
    expect(heap.countUpTo(99)).toBe(1_000)
    expect(heap.countUpTo(Number.POSITIVE_INFINITY)).toBe(1_000)
    expect(heap.size).toBe(1_000)
  })
})

describe('memory', () => {
  /** The lengths of the typed arrays that are made while `work` runs. */
  function capacitiesDuring(work: () => void): number[] {
    const made: number[] = []
    const watched = new Proxy(Float64Array, {
      construct(target, args: unknown[]) {
        if (typeof args[0] === 'number') made.push(args[0])
        return Reflect.construct(target, args) as object
      },
    })
    vi.stubGlobal('Float64Array', watched)
    try {
      work()
    } finally {
      vi.unstubAllGlobals()
    }
    return made
  }

  test('is given back as members leave, and what is left is in order', () => {
    const heap = new Heap()
    const members = Array.from({ length: 10_000 }, (_, i) => member(`k${String(i).padStart(5, '0')}`))
    const grown = capacitiesDuring(() => {
      for (const [i, each] of members.entries()) heap.push(each, i % 100)
    })
    expect(grown.at(-1)).toBeGreaterThanOrEqual(10_000)
    const shrunk = capacitiesDuring(() => {
      for (const each of members.slice(20)) heap.remove(each)
    })
    expect(shrunk.at(-1)).toBeLessThanOrEqual(128)
    expect(shrunk).toEqual(shrunk.toSorted((a, b) => b - a))
    expect(drain(heap)).toEqual(members.slice(0, 20).map((each) => each.key))
  })

  test('is not copied back and forth at the edge of a size', () => {
    const heap = new Heap()
    for (let i = 0; i < 1_025; i++) heap.push(member(`k${i}`), i)
    const copies = capacitiesDuring(() => {
      for (let round = 0; round < 1_000; round++) {
        const head = heap.pop()!
        heap.push(head, 10_000 + round)
      }
      while (heap.size > 512) heap.pop()
      for (let round = 0; round < 1_000; round++) {
        heap.pop()
        heap.push(member(`r${round}`), round)
      }
    })
    expect(copies.length).toBeLessThanOrEqual(2)
  })
})
