import { expect, it } from 'vitest'
import type { NodeCard } from '../board.ts'
import { NodeList } from './node-list.ts'

const CARD: NodeCard = {
  id: 'n1',
  edition: 1,
  name: 'n1',
  host: 'h',
  pid: 1,
  version: '1',
  startedMs: 0,
  topics: [],
  figures: { inFlight: 0, handled: 0, clockAheadMs: null },
}

it('a node that comes back after its burial never has an old count again, which a late burial would name', () => {
  const nodes = new NodeList()
  const [first] = nodes.beat(CARD, 0)
  nodes.bury('n1', first?.beats ?? 0)
  nodes.beat(CARD, 1)
  nodes.bury('n1', first?.beats ?? 0)
  expect(nodes.cards()).toHaveLength(1)
})
