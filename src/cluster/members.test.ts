import { describe, expect, it } from 'vitest'
import type { Board, NodeCard } from '../board.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { MemoryBoard } from '../boards/memory-board.ts'
import { Members } from './members.ts'
import { BEAT_MS } from './liveness.ts'

function cardOf(id: string, edition: number): NodeCard {
  const figures = { inFlight: 0, handled: 0, clockAheadMs: null }
  return { id, edition, name: id, host: 'h', pid: 1, version: '1', startedMs: 0, topics: [], figures }
}

function cluster() {
  const clock = new VirtualClock(0)
  const board = new MemoryBoard(clock, true)
  const reads = { cards: 0 }
  const counted: Board = new Proxy(board, {
    get: (target, name) => {
      if (name === 'cards') reads.cards++
      const value: unknown = Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
  const join = (id: string) => {
    const node = {
      edition: 1,
      seen: [] as string[][],
      gone: [] as string[],
      errors: [] as unknown[],
      members: undefined as unknown as Members,
    }
    node.members = new Members({
      board: counted,
      clock,
      card: () => cardOf(id, node.edition),
      onBeat: async (alive) => void node.seen.push(alive.map(({ name }) => name).toSorted()),
      onGone: ({ name }) => node.gone.push(name),
      onError: (error) => node.errors.push(error),
    })
    return node
  }
  const pass = async (ms: number) => {
    const untilMs = clock.monotonicNow() + ms
    for (;;) {
      for (let turn = 0; turn < 5; turn++) await clock.turn()
      const nextMs = clock.nextTimerMs()
      if (nextMs > untilMs) break
      clock.moveTo(nextMs)
    }
    clock.moveTo(untilMs)
  }
  return { clock, board, reads, join, pass }
}

describe('members', () => {
  it('see each other when one joins, at once, and not when nothing happens', async () => {
    const { join, pass, reads } = cluster()
    const [a, b] = [join('a'), join('b')]
    a.members.start()
    await pass(BEAT_MS / 2)
    b.members.start()
    // Before its next beat would have been due.
    await pass(1)
    expect(a.seen.at(-1)).toEqual(['a', 'b'])
    expect(b.seen.at(-1)).toEqual(['a', 'b'])
    const { cards } = reads
    await pass(20 * BEAT_MS)
    expect(reads.cards, 'cards are read when one is new, not with every beat').toBe(cards)
    b.edition++
    b.members.hurry()
    await pass(1)
    expect(reads.cards).toBeGreaterThan(cards)
    await Promise.all([a.members.stop(), b.members.stop()])
  })

  it('that stop beating are gone within five seconds, are told of once, and buried', async () => {
    const { join, pass, board } = cluster()
    const [a, b] = [join('a'), join('b')]
    a.members.start()
    b.members.start()
    await pass(3 * BEAT_MS)
    // Dead: it beats no more, and its card stays.
    await b.members.stop()
    await pass(3_000)
    expect(a.seen.at(-1)).toEqual(['a', 'b'])
    await pass(2_000)
    expect(a.seen.at(-1)).toEqual(['a'])
    expect(a.gone).toEqual(['b'])
    expect((await board.cards()).map(({ id }) => id)).toEqual(['a'])
    await a.members.stop()
  })

  it('report a board that fails for a while, and bury no node because of it', async () => {
    const { join, pass, board } = cluster()
    const [a, b] = [join('a'), join('b')]
    a.members.start()
    b.members.start()
    await pass(3 * BEAT_MS)
    const beat = board.beat.bind(board)
    board.beat = async () => {
      throw new Error('away')
    }
    await pass(60_000)
    board.beat = beat
    await pass(3 * BEAT_MS)
    expect(a.errors.length).toBeGreaterThan(10)
    expect([a.gone, b.gone]).toEqual([[], []])
    expect(a.seen.at(-1)).toEqual(['a', 'b'])
    await Promise.all([a.members.stop(), b.members.stop()])
  })
})
