/** Costs in Redis commands (INFO commandstats): figures that do not depend on the machine. */
import { CELLS } from '../../src/values/cell.ts'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin, type Topic } from 'tocsin'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { BATCH_BYTES_MAX } from '../../src/lib/batch-max.ts'
import type { Priority } from '../../src/task.ts'
import type { NewEntry, SettleOutcome } from '../../src/timetable.ts'
import { Connection } from '../../src/timetables/redis/connection.ts'
import { PAYLOAD_BYTES_MAX } from '../../src/values/payload.ts'
import { openOnRealClock } from '../contract/redis-harness.ts'
import type { TimetableHarness } from '../contract/timetable/helpers.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { allCalls, callsDuring, commandStats, scriptCalls } from './command-stats.ts'

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

const times = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n))

describe('calls made at the same time share script calls', () => {
  it.each([
    { count: 1_000, atMost: 200 },
    { count: 10_000, atMost: 400 },
  ])('$count times schedule(): at most $atMost', async ({ count, atMost }) => {
    await using toc = await Tocsin.open({ timetable: server.url, logger: false })
    const topic = toc.topic<number>(`together-${count}`)
    const stats = await callsDuring(server, () =>
      Promise.all(times(count, (n) => topic.schedule({ key: `k${n}`, delay: '1h', payload: n }))),
    )
    expect(scriptCalls(stats)).toBeLessThanOrEqual(atMost)
    expect(await topic.counts()).toMatchObject({ pending: count })
  })
})

describe('calls with large payloads', () => {
  it('share script calls of a bounded size', async () => {
    await using toc = await Tocsin.open({ timetable: server.url, logger: false })
    const topic = toc.topic<string>('large', { slotBy: 'prefix' })
    const send = vi.spyOn(Connection.prototype, 'send')
    try {
      // All in one cell.
      await Promise.all(
        times(100, (n) => topic.schedule({ key: `p:${n}`, delay: '1h', payload: 'x'.repeat(60_000) })),
      )
      const sizes = send.mock.calls.map(([args]) =>
        args.reduce((sum, arg) => sum + Buffer.byteLength(arg), 0),
      )
      expect(Math.max(...sizes)).toBeLessThan(BATCH_BYTES_MAX + PAYLOAD_BYTES_MAX)
      expect(sizes.filter((size) => size > 60_000).length).toBeLessThan(10)
    } finally {
      send.mockRestore()
    }
    expect(await topic.counts()).toMatchObject({ pending: 100 })
  })
})

const FEW = 1
const MANY = 500
/** A lane, an index or a list of retries is touched by one task as by many, but not by each task. */
const SPARE = 4

interface Kind {
  readonly tags: (n: number) => readonly string[] | null
  readonly priority: (n: number) => Priority
}

const KINDS: Record<string, Kind> = {
  plain: { tags: () => null, priority: () => 'normal' },
  tagged: { tags: (n) => ['all', `of-${n}`], priority: () => 'high' },
}

/** The steps of a batch on a cell of its own. */
class Batch {
  readonly #harness: TimetableHarness
  readonly #kind: Kind
  readonly #size: number
  readonly #at: { topic: string; cell: number }

  constructor(harness: TimetableHarness, kind: Kind, size: number, topic: string) {
    this.#harness = harness
    this.#kind = kind
    this.#size = size
    this.#at = { topic, cell: 7 }
  }

  get #places(): { key: string; cell: number }[] {
    return times(this.#size, (n) => ({ key: `key-${n}`, cell: this.#at.cell }))
  }

  async schedule(): Promise<void> {
    const { tags, priority } = this.#kind
    const entries = this.#places.map((place, n): NewEntry => ({
      ...place,
      body: '{}',
      when: { kind: 'delay', ms: 0 },
      priority: priority(n),
      tags: tags(n),
      onConflict: 'replace',
    }))
    expect(await this.#harness.timetable.schedule(this.#at.topic, entries, 0)).toHaveLength(this.#size)
  }

  async cancel(): Promise<void> {
    const answers = await this.#harness.timetable.cancel(this.#at.topic, this.#places)
    expect(new Set(answers)).toEqual(new Set(['cancelled']))
  }

  async claim(): Promise<number> {
    const request = { limit: this.#size, leaseMs: 60_000, from: 'lanes', wholePrefixes: false } as const
    const req = `${this.#at.topic}/${performance.now()}`
    const { stamp, tasks } = await this.#harness.timetable.claim(this.#at, { ...request, req })
    expect(tasks).toHaveLength(this.#size)
    return stamp
  }

  async settle(stamp: number, outcome: SettleOutcome): Promise<void> {
    const settlements = this.#places.map(({ key }) => ({ key, stamp, outcome }))
    const answers = await this.#harness.timetable.settle(this.#at, settlements)
    expect(new Set(answers)).toEqual(new Set(['settled']))
  }

  /** Runs every step of a task's life and returns the number of commands of each. */
  async costs(): Promise<Record<string, number>> {
    const costs: Record<string, number> = {}
    const measured = async <T>(step: string, work: () => Promise<T>): Promise<T> => {
      let answer!: T
      const stats = await callsDuring(server, async () => {
        answer = await work()
      })
      costs[step] = allCalls(stats)
      return answer
    }
    await measured('schedule', () => this.schedule())
    await measured('replace', () => this.schedule())
    await measured('cancel', () => this.cancel())
    await this.schedule()
    const first = await measured('claim', () => this.claim())
    await measured('retry', () => this.settle(first, { kind: 'retry', delayMs: 0, error: 'no' }))
    const second = await measured('claim again', () => this.claim())
    await measured('return', () => this.settle(second, { kind: 'return' }))
    const third = await this.claim()
    await measured('replace in flight', () => this.schedule())
    expect(third).toBeGreaterThan(second)
    const fourth = await this.claim()
    await measured('done', () => this.settle(fourth, { kind: 'done' }))
    await this.schedule()
    const fifth = await this.claim()
    await measured('dead', () =>
      this.settle(fifth, { kind: 'dead', cause: 'handler', error: 'no', failed: true }),
    )
    return costs
  }
}

describe.each(Object.keys(KINDS))('what a step costs does not grow with the batch: %s tasks', (name) => {
  it(`${MANY} tasks cost what ${FEW} costs`, async () => {
    const harness = await openOnRealClock(server)
    const costsOf = (size: number, topic: string) =>
      new Batch(harness, KINDS[name] as Kind, size, `${topic}-${name}`).costs()
    // Once before, so that Redis knows the scripts.
    await costsOf(1, 'first')
    const few = await costsOf(FEW, 'few')
    const many = await costsOf(MANY, 'many')
    await harness.close()
    for (const [step, calls] of Object.entries(many))
      expect(calls, `${step}: ${JSON.stringify({ few, many })}`).toBeLessThanOrEqual((few[step] ?? 0) + SPARE)
    // The absolute number is small, too.
    expect(Math.max(...Object.values(many)), JSON.stringify(many)).toBeLessThan(40)
  })
})

const TOPICS = 100
const COMMANDS_PER_SECOND_MAX = 1_000
/** All cells are looked at together every 10 s: twice at most in this time. */
const WATCHED_MS = 13_500
const SETTLED_WITHIN_MS = 60_000

describe.concurrent('idle topics cost next to nothing', () => {
  it.each([
    { what: 'with nothing to do', pending: false },
    { what: 'with a task that waits for next year', pending: true },
  ])(
    `${TOPICS} topics $what, each with a consumer: under ${COMMANDS_PER_SECOND_MAX} commands a second`,
    async ({ pending }) => {
      await using own = await startRedis()
      await using toc = await Tocsin.open({ timetable: own.url, logger: false })
      const topics = times(TOPICS, (n) => toc.topic<null>(`idle-${n}`))
      if (pending) for (const topic of topics) await scheduleFar(topic)
      let handled = 0
      for (const topic of topics) topic.consume(async () => void handled++)
      await untilSettled(own)
      const before = await commandsProcessed(own)
      const startMs = performance.now()
      // Real time: commands are counted while nothing happens.
      await sleep(WATCHED_MS)
      const commands = (await commandsProcessed(own)) - before
      const perSecond = (commands * 1_000) / (performance.now() - startMs)
      expect(perSecond).toBeLessThan(COMMANDS_PER_SECOND_MAX)
      // The consumers still work: new tasks are handled.
      for (const topic of topics) await topic.schedule({ key: 'now', delay: 0, payload: null })
      // A loop, because `expect.poll` cannot tell concurrent tests apart.
      while (handled < TOPICS) await sleep(10)
    },
    SETTLED_WITHIN_MS + 4 * WATCHED_MS,
  )
})

async function scheduleFar(topic: Topic<null, unknown>): Promise<void> {
  await topic.schedule({ key: 'far', delay: '365d', payload: null })
}

/** Waits until the consumers have polled all their cells once and are subscribed: then Redis is idle. */
async function untilSettled(own: RedisServer): Promise<void> {
  const deadlineMs = performance.now() + SETTLED_WITHIN_MS
  let subscribed = 0
  for (let before = -1; performance.now() < deadlineMs;) {
    const now = await commandsProcessed(own)
    subscribed = (await commandStats(own)).get('ssubscribe') ?? 0
    // The commands of this function are counted, too.
    if (subscribed >= TOPICS && now > TOPICS * CELLS && now - before < 50) return
    before = now
    await sleep(500)
  }
  throw new Error(`100 idle topics still send commands; ${subscribed} subscriptions`)
}

async function commandsProcessed(own: RedisServer): Promise<number> {
  return Number(/total_commands_processed:(\d+)/.exec(await own.cli('INFO', 'stats'))?.[1])
}
