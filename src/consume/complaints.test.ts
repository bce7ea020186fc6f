import { expect, it } from 'vitest'
import { silentLogger } from '../telemetry/logger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { ClaimedTask } from '../timetable.ts'
import { Complaints } from './complaints.ts'

it('says the first failure at once with its stack, then at most one a second with the count of the others', () => {
  const clock = new VirtualClock(0)
  const said: Record<string, unknown>[] = []
  const logger = {
    ...silentLogger,
    warn: (fields: object) => void said.push(fields as Record<string, unknown>),
  }
  const complaints = new Complaints(clock, logger, 'order.unpaid')
  const entry = { key: 'order-42', failures: 2 } as ClaimedTask
  for (let i = 0; i < 100; i++) complaints.hear(entry, { error: 'Error: no', stack: new Error('no').stack })
  expect(said.length).toBe(1)
  expect(said[0]).toMatchObject({
    topic: 'order.unpaid',
    key: 'order-42',
    attempt: 3,
    error: 'Error: no',
    alsoFailed: 0,
  })
  expect(said[0]?.['stack']).toContain('complaints.test.ts')
  clock.moveTo(1_000)
  complaints.hear(entry, { error: 'timeout' })
  expect(said[1]).toMatchObject({ error: 'timeout', alsoFailed: 99 })
})
