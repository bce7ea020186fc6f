import { MemoryBoard } from '../../src/boards/memory-board.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { boardContract } from './board.ts'
import { START_MS } from './memory-harness.ts'

boardContract('memory', async () => {
  const clock = new VirtualClock(START_MS)
  const board = new MemoryBoard(clock, true)
  return {
    board,
    // Simulated nodes share the one that there is.
    another: async () => board,
    advance: async (ms) => clock.moveTo(clock.monotonicNow() + ms),
    close: () => board.close(),
  }
})
