/** What a consumer does when it may have missed that a task was cancelled. */
import { expect, it } from 'vitest'
import type { Watcher } from '../../src/timetable.ts'
import { faultyTocsin, gate, wrapped } from './harness.ts'

it('queued tasks are given back when messages may have been missed: one of them may be cancelled', async () => {
  const watchers: Watcher[] = []
  const toc = faultyTocsin((timetable) =>
    wrapped(timetable, {
      // As a repeated claim may: it takes more tasks than there are permits.
      claim: (at, request) => timetable.claim(at, { ...request, limit: 10 }),
      watch(topic, watcher) {
        watchers.push(watcher)
        // No fence arrives, as on a lost subscription.
        return timetable.watch(topic, { ...watcher, fence: () => {} })
      },
    }),
  )
  const topic = toc.topic<null>('missed', { slotBy: 'prefix' })
  const running = gate()
  const started: string[] = []
  topic.consume(
    async ({ key }) => {
      started.push(key)
      if (started.length === 1) await running.opened
    },
    { concurrency: 1 },
  )
  const keys = ['p:a', 'p:b', 'p:c']
  await topic.scheduleMany(keys.map((key) => ({ key, delay: 0, payload: null })))
  await toc.advance(1)
  expect(started).toHaveLength(1)
  expect(await topic.counts()).toMatchObject({ claimed: 3 })
  const waiting = keys.filter((key) => !started.includes(key))
  await topic.cancelMany(waiting)
  for (const watcher of watchers) watcher.missed()
  await toc.advance(1)
  running.open()
  await toc.advance(10)
  expect(started).toHaveLength(1)
  await toc.close()
})

it('a task that is cancelled while its failure is being recorded is not said to be retried', async () => {
  const recording = gate()
  let settles = 0
  const toc = faultyTocsin((timetable) =>
    wrapped(timetable, {
      async settle(...args) {
        settles++
        await recording.opened
        return timetable.settle(...args)
      },
    }),
  )
  const topic = toc.topic<null>('cancelled', { retry: { maxAttempts: 3 } })
  const retries: string[] = []
  toc.on('retry', ({ key }) => void retries.push(key))
  topic.consume(async () => {
    throw new Error('no')
  })
  await topic.schedule({ key: 'a', delay: 0, payload: null })
  await toc.advance(1)
  expect(settles).toBe(1)
  expect((await topic.cancel('a')).outcome).toBe('in-flight')
  recording.open()
  await toc.advance(1)
  expect(retries).toEqual([])
  await toc.close()
})
