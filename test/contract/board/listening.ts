import { card, change, changed, Ears, theme } from './helpers.ts'

const TOPIC = 'order.unpaid'

export const listening = theme('listening', [
  {
    name: 'a node that came, took another share or left is news',
    async run({ board, another }) {
      const other = await another()
      const ears = await Ears.open(board, other)
      await ears.expectNews('a new node', () => other.beat(card('a')))
      await ears.expectNews('another share', () => other.beat(card('a', { edition: 2 })))
      await ears.expectNews('a node that leaves', () => other.leave('a'))
      await ears.expectNews('a node that comes back', () => other.beat(card('a', { edition: 2 })))
      ears.stop()
    },
  },
  {
    name: 'a node that was buried and beats is news',
    async run({ board, another }) {
      const other = await another()
      const ears = await Ears.open(board, other)
      const { heartbeats } = await other.beat(card('a'))
      await other.bury('a', heartbeats[0]?.beats ?? 0)
      await ears.expectNews('a node that was buried', () => other.beat(card('a')))
      ears.stop()
    },
  },
  {
    name: 'a topic that is created or changed is news',
    async run({ board, another }) {
      const other = await another()
      const ears = await Ears.open(board, other)
      await ears.expectNews('a new topic', () => other.create(TOPIC, 16, 'key'))
      await ears.expectNews('a change', () => changed(other, TOPIC, 0))
      await ears.expectNews('a second change', () => changed(other, TOPIC, 1))
      ears.stop()
    },
  },
  {
    name: 'a beat that says nothing new is no news',
    async run({ board, another }) {
      const other = await another()
      const ears = await Ears.open(board, other)
      await ears.expectNews('a new node', () => other.beat(card('a')))
      await ears.expectSilence('plain beats', async () => {
        for (let handled = 0; handled < 5; handled++)
          await other.beat(card('a', { figures: { inFlight: 1, handled, clockAheadMs: 0 } }))
      })
      await ears.expectHearing()
      ears.stop()
    },
  },
  {
    name: 'what changes nothing is no news',
    async run({ board, another }) {
      const other = await another()
      const ears = await Ears.open(board, other)
      await ears.expectNews('a new topic', () => other.create(TOPIC, 16, 'key'))
      await ears.expectSilence('what is there, or is not', async () => {
        await other.create(TOPIC, 32, 'key')
        await other.change(TOPIC, 7, change())
        await other.change('unknown', 0, change())
        await other.leave('nobody')
        await other.bury('nobody', 1)
        await other.cards()
        await other.records()
        await other.history(TOPIC, 1)
      })
      await ears.expectHearing()
      ears.stop()
    },
  },
  {
    name: 'several of one process hear it, and each ends for itself',
    async run({ board, another }) {
      const other = await another()
      const one = await Ears.open(board, other)
      const two = await Ears.open(board, other)
      await two.expectNews('a new node', () => one.expectNews('a new node', () => other.beat(card('a'))))
      one.stop()
      await one.expectSilence('anything', () => other.beat(card('a', { edition: 2 })))
      await two.expectNews('another share', () => other.beat(card('a', { edition: 3 })))
      two.stop()
      two.stop()
      await two.expectSilence('anything', () => other.beat(card('a', { edition: 4 })))
    },
  },
  {
    name: 'who stopped listening can begin again',
    async run({ board, another }) {
      const other = await another()
      const first = await Ears.open(board, other)
      first.stop()
      const second = await Ears.open(board, other)
      await second.expectNews('a new node', () => other.beat(card('a')))
      await first.expectSilence('anything', () => other.beat(card('a', { edition: 2 })))
      second.stop()
    },
  },
])
