/** Bulk calls are limited by the size of payloads as well as by the number of tasks. */
import { describe, expect, it } from 'vitest'
import type { NewTask } from 'tocsin'
import { systemClock } from '../../src/clock.ts'
import { BATCH_BYTES_MAX } from '../../src/lib/batch-max.ts'
import type { TaskStore } from '../../src/store.ts'
import { PAYLOAD_BYTES_MAX } from '../../src/values/payload.ts'
import { faultyTocsin, gate, wrapped } from '../runtime/harness.ts'

const NOTE = 'x'.repeat(60_000)
const COUNT = 400
/** A batch ends with the task that fills it. */
const BATCH_MAX = BATCH_BYTES_MAX + PAYLOAD_BYTES_MAX
const UNANSWERED_MAX = 8 * BATCH_BYTES_MAX + BATCH_MAX

/** A Tocsin whose store keeps its answers until `answer` is called, and what its store was given. */
function hesitantTocsin() {
  const given = { sizes: [] as number[], unanswered: 0 }
  const answers = gate()
  const toc = faultyTocsin((timetable) => {
    const schedule: TaskStore['schedule'] = async (topic, entries, mergeMs) => {
      const bytes = entries.reduce((sum, { body }) => sum + Buffer.byteLength(body), 0)
      given.sizes.push(bytes)
      given.unanswered += bytes
      await answers.opened
      given.unanswered -= bytes
      return timetable.schedule(topic, entries, mergeMs)
    }
    return wrapped(timetable, { schedule })
  })
  return { toc, topic: toc.topic<string>('t'), given, answer: () => answers.open() }
}

/** Resolves when `count` no longer changes: everything that could act in a turn of the event loop has acted. */
async function settled(count: () => number): Promise<void> {
  for (let before = -1, calmTurns = 0; calmTurns < 10;) {
    await systemClock.turn()
    calmTurns = count() === before ? calmTurns + 1 : 0
    before = count()
  }
}

function* tasks(read: { count: number }): Generator<NewTask<string>> {
  for (let n = 0; n < COUNT; n++) {
    read.count++
    yield { key: `k${n}`, delay: '1d', payload: NOTE }
  }
}

async function* slowly<T>(items: Iterable<T>): AsyncGenerator<T> {
  for (const item of items) yield item
}

describe('tasks of 60 KB', () => {
  it.each([
    ['an iterable', (read: { count: number }) => tasks(read)],
    ['an async iterable', (read: { count: number }) => slowly(tasks(read))],
  ])(
    'from %s are sent in batches of a bounded size, and few of them ahead of the answers',
    async (_, from) => {
      const { toc, topic, given, answer } = hesitantTocsin()
      await using _toc = toc
      const read = { count: 0 }
      const scheduled = topic.scheduleMany(from(read))
      await settled(() => read.count)
      expect(read.count * NOTE.length).toBeLessThan(UNANSWERED_MAX + BATCH_MAX)
      expect(given.unanswered).toBeLessThan(UNANSWERED_MAX)
      answer()
      expect(await scheduled).toEqual({ created: COUNT, replaced: 0, kept: 0 })
      expect(Math.max(...given.sizes)).toBeLessThan(BATCH_MAX)
      // Few calls, too: all but the last are full.
      expect(Math.min(...given.sizes.slice(0, -1))).toBeGreaterThanOrEqual(BATCH_BYTES_MAX)
    },
  )

  it('from an array are sent in batches of a bounded size, in order', async () => {
    const { toc, topic, given, answer } = hesitantTocsin()
    await using _toc = toc
    const scheduled = topic.scheduleMany([...tasks({ count: 0 })])
    await settled(() => given.sizes.length)
    expect(given.unanswered).toBeLessThan(UNANSWERED_MAX)
    answer()
    expect((await scheduled).map(({ key }) => key)).toEqual(Array.from({ length: COUNT }, (_, n) => `k${n}`))
    expect(Math.max(...given.sizes)).toBeLessThan(BATCH_MAX)
  })

  it('are measured in bytes, not in characters', async () => {
    const { toc, topic, given, answer } = hesitantTocsin()
    await using _toc = toc
    answer()
    const payload = '€'.repeat(20_000)
    await topic.scheduleMany(Array.from({ length: 40 }, () => ({ delay: '1d', payload })).values())
    expect(Math.max(...given.sizes)).toBeLessThan(BATCH_MAX)
  })

  it('of which one is invalid: the batches before it are in, and nothing after it is read', async () => {
    const { toc, topic, answer } = hesitantTocsin()
    await using _toc = toc
    answer()
    let isClosed = false
    function* withInvalid(): Generator<NewTask<string>> {
      try {
        for (let n = 0; n < 40; n++) yield { key: `k${n}`, delay: '1d', payload: NOTE }
        yield { key: '', delay: '1d', payload: NOTE }
        throw new Error('read on')
      } finally {
        isClosed = true
      }
    }
    const perBatch = Math.ceil(BATCH_BYTES_MAX / NOTE.length)
    const accepted = 2 * perBatch
    await expect(topic.scheduleMany(withInvalid())).rejects.toMatchObject({
      code: 'interrupted',
      details: { accepted },
      message: expect.stringContaining('tasks[40]'),
    })
    expect(isClosed).toBe(true)
    expect(await topic.counts()).toMatchObject({ pending: accepted })
  })
})
