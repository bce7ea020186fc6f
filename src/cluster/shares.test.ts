import { describe, expect, it } from 'vitest'
import type { NodeCard, TopicShare } from '../board.ts'
import { Shares } from './shares.ts'

const NO_OTHERS: readonly NodeCard[] = []

function card(id: string, topics: readonly TopicShare[]): NodeCard {
  const figures = { inFlight: 0, handled: 0, clockAheadMs: null }
  return { id, edition: 1, name: id, host: 'h', pid: 1, version: '1', startedMs: 0, topics, figures }
}

function sharesOf(slots = 16) {
  const seen = { owned: [] as (readonly number[])[], crowds: [] as [number, number, number][], slots }
  const shares = new Shares({
    id: 'b',
    slotsOf: () => seen.slots,
    onOwned: (_, owned) => seen.owned.push(owned),
    onTooMany: (_, nodes, has, toSet) => seen.crowds.push([nodes, has, toSet]),
  })
  return { shares, seen }
}

const nothing = () => {}

describe('the share of a node', () => {
  it('is nothing before the first beat, and everything if there is no other node', () => {
    const { shares } = sharesOf(4)
    shares.consume('t', 8, nothing)
    expect(shares.shareOf('t').owned).toEqual([])
    shares.deal(NO_OTHERS)
    expect(shares.shareOf('t')).toMatchObject({ owned: [0, 1, 2, 3], slots: 4 })
  })

  it('is whole where the board cannot be read, unless it was known before', () => {
    const { shares } = sharesOf(4)
    shares.consume('t', 8, nothing)
    shares.dealBlind()
    expect(shares.shareOf('t').owned).toEqual([0, 1, 2, 3])
    shares.deal([card('a', [{ topic: 't', capacity: 8, slots: 4, owned: [0, 1] }])])
    shares.dealBlind()
    expect(shares.shareOf('t').owned).toEqual([2, 3])
  })

  it.each([[[0, 1]], [[2, 3]]])(
    'takes no account of slots %j of a node with another number of slots',
    (owned) => {
      const shareBeside = (theirs: readonly number[]) => {
        const { shares } = sharesOf(4)
        shares.consume('t', 8, nothing)
        shares.deal([card('a', [{ topic: 't', capacity: 8, slots: 64, owned: theirs }])])
        return shares.shareOf('t').owned
      }
      expect(shareBeside(owned)).toEqual(shareBeside([]))
    },
  )

  it('leaves the slots that other nodes pull to them, and takes the free ones', () => {
    const { shares, seen } = sharesOf(4)
    let told = 0
    shares.consume('t', 8, () => told++)
    shares.deal([card('a', [{ topic: 't', capacity: 8, slots: 4, owned: [1, 2, 3, 0] }])])
    expect(shares.shareOf('t').owned).toEqual([2, 3])
    const { edition } = shares
    shares.deal([card('a', [{ topic: 't', capacity: 8, slots: 4, owned: [0, 1] }])])
    expect({ told, edition: shares.edition }).toEqual({ told: 1, edition })
    shares.deal(NO_OTHERS)
    expect(told).toBe(2)
    expect(shares.edition).toBeGreaterThan(edition)
    expect(seen.owned).toEqual([
      [2, 3],
      [0, 1, 2, 3],
    ])
  })

  it('goes by capacity', () => {
    const { shares } = sharesOf(16)
    shares.consume('t', 24, nothing)
    shares.consume('t', 24, nothing)
    shares.deal([card('a', [{ topic: 't', capacity: 16, slots: 16, owned: [] }])])
    expect(shares.shareOf('t').owned).toHaveLength(12)
  })

  it('is dealt anew when the topic has other slots; numbers of one who has not heard mean nothing', () => {
    const { shares, seen } = sharesOf(4)
    shares.consume('t', 8, nothing)
    shares.deal(NO_OTHERS)
    seen.slots = 8
    shares.deal([card('a', [{ topic: 't', capacity: 8, slots: 4, owned: [0, 1, 2, 3] }])])
    expect(shares.shareOf('t')).toMatchObject({ slots: 8 })
    expect(shares.shareOf('t').owned).toHaveLength(4)
  })

  it('ends with its last consumer, and the card says so', () => {
    const { shares } = sharesOf(4)
    const ends = [shares.consume('t', 8, nothing), shares.consume('t', 8, nothing)]
    shares.deal(NO_OTHERS)
    expect(shares.topics).toEqual([{ topic: 't', capacity: 16, slots: 4, owned: [0, 1, 2, 3] }])
    const { edition } = shares
    ends[0]?.()
    ends[0]?.()
    expect(shares.topics[0]?.capacity).toBe(8)
    expect(shares.edition).toBe(edition + 1)
    ends[1]?.()
    expect(shares.topics).toEqual([])
    expect(shares.shareOf('t').owned).toEqual([])
  })

  it('is nothing for some where there are more nodes than slots: said once, with what to set', () => {
    const { shares, seen } = sharesOf(2)
    shares.consume('t', 8, nothing)
    const crowd = ['a', 'c', 'd', 'e'].map((id) =>
      card(id, [{ topic: 't', capacity: 8, slots: 2, owned: [] }]),
    )
    shares.deal(crowd)
    shares.deal(crowd)
    expect(seen.crowds).toEqual([[5, 2, 8]])
    shares.deal(crowd.slice(0, 1))
    shares.deal(crowd.slice(0, 2))
    expect(seen.crowds.at(-1)).toEqual([3, 2, 4])
  })
})
