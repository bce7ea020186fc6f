import { expect, it } from 'vitest'
import { VirtualClock } from '../testing/virtual-clock.ts'
import type { Place } from '../timetable.ts'
import { CommitFeed } from './commit-feed.ts'

it('reads all pages at once, not one per second', async () => {
  const pages: Place[][] = [[{ key: 'a', cell: 0 }], [{ key: 'b', cell: 0 }], []]
  const told: string[] = []
  const feed = new CommitFeed(
    new VirtualClock(0),
    async () => pages.shift() ?? [],
    async (places) => void told.push(...places.map(({ key }) => key)),
    (error) => {
      throw error
    },
  )
  feed.start()
  await expect.poll(() => told).toEqual(['a', 'b'])
  await feed.stop()
})
