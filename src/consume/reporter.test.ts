import { expect, it } from 'vitest'
import { silentLogger } from '../telemetry/logger.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { Announcer } from '../telemetry/events.ts'
import { noMeter } from '../telemetry/meter.ts'
import { effectiveConfig, settingsOf } from '../values/config.ts'
import { Reporter } from './reporter.ts'

it('logs the first failed attempt at once with its stack, then at most one per second with the number of the others', () => {
  const clock = new VirtualClock(0)
  const logged: Record<string, unknown>[] = []
  const logger = {
    ...silentLogger,
    warn: (fields: object) => void logged.push(fields as Record<string, unknown>),
  }
  const settings = settingsOf(effectiveConfig({}, {}), 'topic')
  const reporter = new Reporter({
    topic: 'order.unpaid',
    clock,
    logger,
    announcer: new Announcer(logger),
    meter: noMeter,
    settings: () => settings,
  })
  const task = { key: 'order-42', id: 'order.unpaid/order-42/1', failures: 2 }
  for (let i = 0; i < 100; i++)
    reporter.attemptFailed(task, { error: 'Error: no', stack: new Error('no').stack })
  expect(logged.length).toBe(1)
  expect(logged[0]).toMatchObject({
    topic: 'order.unpaid',
    key: 'order-42',
    attempt: 3,
    error: 'Error: no',
    alsoFailed: 0,
  })
  expect(logged[0]?.['stack']).toContain('reporter.test.ts')
  clock.moveTo(1_000)
  reporter.attemptFailed(task, { error: 'timeout' })
  expect(logged[1]).toMatchObject({ error: 'timeout', alsoFailed: 99 })
})
