import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { TocsinError } from 'tocsin'
import { describe, expect, it } from 'vitest'
import { gate, quickTocsin } from './harness.ts'

describe('stop', () => {
  it('waits for running handlers and counts them', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const end = gate()
    const consumer = topic.consume(() => end.opened)
    await topic.scheduleMany(['a', 'b', 'c'].map((key) => ({ key, delay: 0, payload: null })))
    await toc.advance(1)
    const stopped = consumer.stop()
    end.open()
    expect(await stopped).toEqual({ finished: 3, released: 0 })
    expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0 })
  })

  it('aborts handlers after its timeout and gives their tasks back: due at once, no failure', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const reasons: unknown[] = []
    const consumer = topic.consume(async (_, { signal }) => {
      signal.addEventListener('abort', () => reasons.push((signal.reason as { code: string }).code))
      await new Promise(() => {})
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance(1)
    const stopped = consumer.stop({ timeout: '5s' })
    await toc.advance('4s')
    expect(reasons).toEqual([])
    await toc.advance('1s')
    expect(await stopped).toEqual({ finished: 0, released: 1 })
    expect(reasons).toEqual(['closed'])
    expect(await topic.get('a')).toMatchObject({
      state: 'pending',
      attempt: 1,
      deliveries: 1,
      lastError: null,
    })
    const attempts: number[] = []
    topic.consume(async ({ attempt }) => void attempts.push(attempt))
    await toc.advance(1)
    expect(attempts).toEqual([1])
  })

  it('gives back prefetched tasks that never started, as if they had not been claimed', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { slots: 1 })
    const end = gate()
    let started = 0
    const consumer = topic.consume(
      async () => {
        if (++started > 200) await end.opened
      },
      { concurrency: 2 },
    )
    await topic.scheduleMany(
      Array.from({ length: 1_000 }, (_, i) => ({ key: `k${i}`, delay: 0, payload: null })),
    )
    // Fast handlers at first, so that a prefetch builds up; then they hang.
    for (let i = 0; i < 40; i++) await toc.advance(25)
    const claimed = (await topic.counts()).claimed
    const stopped = consumer.stop({ timeout: 0 })
    await toc.advance(1)
    expect(await stopped).toEqual({ finished: 0, released: claimed })
    expect(await topic.counts()).toMatchObject({ pending: 800, claimed: 0 })
    end.open()
  })

  it('called twice returns the same report, also while the first call is under way', async () => {
    await using toc = quickTocsin()
    const consumer = toc.topic('t').consume(async () => {})
    const both = await Promise.all([consumer.stop(), consumer.stop()])
    expect(both[0]).toEqual(both[1])
    expect(await consumer.stop()).toEqual(both[0])
  })

  it('works without its consumer: const { stop } = topic.consume(…)', async () => {
    await using toc = quickTocsin()
    // oxlint-disable-next-line typescript/unbound-method -- the point of this test
    const { stop } = toc.topic('t').consume(async () => {})
    expect(await stop()).toEqual({ finished: 0, released: 0 })
  })

  it('of one consumer does not stop the other consumers of the topic', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const seen: string[] = []
    const first = topic.consume(async ({ key }) => void seen.push(key))
    topic.consume(async ({ key }) => void seen.push(key))
    await first.stop()
    await topic.schedule({ key: 'a', delay: '1s', payload: null })
    await toc.advance('2s')
    expect(seen).toEqual(['a'])
  })
})

describe('two consumers of one topic', () => {
  it('compete: each task goes to one', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const seen: string[] = []
    topic.consume(async ({ key }) => void seen.push(key), { concurrency: 3 })
    topic.consume(async ({ key }) => void seen.push(key), { concurrency: 3 })
    await topic.scheduleMany(
      Array.from({ length: 500 }, (_, i) => ({ key: `k${i}`, delay: '1s', payload: null })),
    )
    await toc.advance('2s')
    expect(seen.length).toBe(500)
    expect(new Set(seen).size).toBe(500)
  })
})

describe('close', () => {
  it('stops every consumer, rejects later calls, and can be called again', async () => {
    const toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consume(async () => {})
    await toc.close()
    await toc.close()
    const calls = [
      () => topic.schedule({ delay: 0, payload: null }),
      () => topic.scheduleMany([]),
      () => topic.cancel('a'),
      () => topic.cancelBy({ tag: 'x' }),
      () => topic.reschedule('a', { delay: 0 }),
      () => topic.get('a'),
      () => topic.list(),
      () => topic.counts(),
      () => topic.config(),
      () => topic.configure({}),
      () => topic.pause(),
      () => topic.dead.replay({ all: true }),
      async () => topic.consume(async () => {}),
      async () => toc.topic('other'),
    ]
    for (const call of calls)
      expect(TocsinError.is(await call().catch((error: unknown) => error), 'closed')).toBe(true)
  })

  it('leaves no timer on the clock', async () => {
    const toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consume(() => new Promise(() => {}))
    topic.consumeBatch(async () => {})
    await topic.scheduleMany(
      Array.from({ length: 100 }, (_, i) => ({ key: `k${i}`, delay: i, payload: null })),
    )
    await toc.advance(50)
    const closed = toc.close({ timeout: '1s' })
    await toc.advance('1s')
    await closed
    expect(toc.waitingTimers).toBe(0)
  })

  it('lets the process end by itself', async () => {
    const script = `
      import { Tocsin } from 'tocsin'
      const toc = await Tocsin.open({ timetable: 'memory:' })
      const topic = toc.topic('t')
      const fired = new Promise((resolve) => topic.consume(async () => resolve()))
      await topic.schedule({ delay: 20, payload: null })
      await topic.schedule({ delay: '30d', payload: null })
      await fired
      await toc.close()
      process.stdout.write('closed')`
    const root = fileURLToPath(new URL('../..', import.meta.url))
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      cwd: root,
      timeout: 15_000,
    })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    expect([output, code, signal]).toEqual(['closed', 0, null])
  })
})
