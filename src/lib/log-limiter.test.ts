import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { LogLimiter } from './log-limiter.ts'

it('writes the first line at once, then at most one per second with the number of suppressed lines', () => {
  const clock = new VirtualClock(0)
  const limiter = new LogLimiter(clock)
  const written: number[] = []
  const log = () => limiter.log((suppressed) => void written.push(suppressed))
  for (let i = 0; i < 100; i++) log()
  expect(written).toEqual([0])
  clock.moveTo(999)
  log()
  expect(written).toEqual([0])
  clock.moveTo(1_000)
  log()
  expect(written).toEqual([0, 100])
  clock.moveTo(2_000)
  log()
  expect(written).toEqual([0, 100, 0])
})
