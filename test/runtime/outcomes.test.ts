import { type Outcome, Tocsin, TocsinError } from 'tocsin'
import { describe, expect, it } from 'vitest'
import { quickTocsin } from './harness.ts'

describe('what a handler does', () => {
  it('returns nothing: done', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<number>('t')
    const seen: number[] = []
    topic.consume(async ({ payload }) => void seen.push(payload))
    await topic.schedule({ key: 'a', delay: '1s', payload: 7 })
    await toc.advance('1h')
    expect(seen).toEqual([7])
    expect(await topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 0 })
  })

  it('snoozes, 1,100 times: no failure is counted, and then it is done', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { retry: { maxAttempts: 2 } })
    const attempts: number[] = []
    const ids = new Set<string>()
    topic.consume(async ({ attempt, deliveries, id }): Promise<Outcome | void> => {
      attempts.push(attempt)
      ids.add(id)
      if (deliveries <= 1_100) return { snooze: '1s' }
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('1099s')
    expect((await topic.get('a'))?.deliveries).toBe(1_100)
    await toc.advance('1s')
    expect(attempts.length).toBe(1_101)
    expect(new Set(attempts)).toEqual(new Set([1]))
    expect(ids.size).toBe(1)
    expect(await topic.get('a')).toBeNull()
  })

  it('returns { retry }: a failure, retried after the given delay', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const firedAt: number[] = []
    const start = toc.now().getTime()
    topic.consume(async ({ attempt }): Promise<Outcome | void> => {
      firedAt.push(toc.now().getTime() - start)
      if (attempt === 1) return { retry: '10s', reason: 'not yet' }
    })
    await topic.schedule({ key: 'a', delay: '5s', payload: null })
    await toc.advance('6s')
    expect(await topic.get('a')).toMatchObject({
      attempt: 2,
      deliveries: 1,
      lastError: 'not yet',
      state: 'pending',
    })
    await toc.advance('1m')
    expect(firedAt).toEqual([5_000, 15_000])
  })

  it('throws: retried with backoff, dead at the last attempt, with the last error', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t', { retry: { maxAttempts: 4, min: '1s', max: '3s' } })
    const firedAt: number[] = []
    const start = toc.now().getTime()
    topic.consume(async ({ attempt }) => {
      firedAt.push(toc.now().getTime() - start)
      throw new RangeError(`attempt ${attempt}`)
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('1h')
    expect(firedAt).toEqual([0, 1_000, 3_000, 6_000])
    expect(await topic.get('a')).toMatchObject({
      state: 'dead',
      deadCause: 'attempts',
      lastError: 'RangeError: attempt 4',
      deliveries: 4,
    })
  })

  it.each([
    ['a text', 'oops', "thrown: 'oops'"],
    ['nothing', undefined, 'thrown: undefined'],
    ['null', null, 'thrown: null'],
    ['an object', { a: 1 }, 'thrown: an object'],
  ])('throws %s instead of an error: retried, and described', async (_, thrown, described) => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- what is tested
    topic.consume(() => Promise.reject(thrown))
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance(1)
    expect(await topic.get('a')).toMatchObject({ state: 'pending', attempt: 2, lastError: described })
  })

  it('throws before it returns a promise: a failure', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consume(() => {
      throw new Error('at once')
    })
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance(1)
    expect((await topic.get('a'))?.lastError).toBe('Error: at once')
  })

  it('returns { dead }: no retry', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consume(async () => ({ dead: 'shop closed' }))
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance('1h')
    expect(await topic.get('a')).toMatchObject({
      state: 'dead',
      deadCause: 'handler',
      lastError: 'shop closed',
      attempt: 1,
    })
  })

  it.each([
    ['true', true],
    ['a number', 1],
    ['a text', 'retry'],
    ['an empty object', {}],
    ['a row of a database', { id: 1, lead: 'Ann', retried: false }],
    ['an array', [{ snooze: '1s' }]],
    ['a function', () => {}],
    ['a reason alone', { reason: 'why not' }],
  ])('returns %s, which is no outcome: done', async (_, returned) => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consume((async () => returned) as unknown as () => Promise<void>)
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance(1)
    expect(await topic.get('a')).toBeNull()
    expect(await topic.counts()).toMatchObject({ pending: 0, dead: 0 })
  })

  it('returns values that are no outcomes: one warning for the topic, whatever the number of tasks and consumers', async () => {
    const warnings: { fields: object; message: string }[] = []
    const ignore = () => {}
    const warn = (fields: object, message: string) => void warnings.push({ fields, message })
    const logger = { debug: ignore, info: ignore, warn, error: ignore }
    await using toc = await Tocsin.open({ timetable: 'memory:', logger })
    for (const name of ['one', 'two']) {
      const topic = toc.topic<number>(name)
      const handled: (() => void)[] = []
      const all = [0, 1, 2].map(() => new Promise<void>((resolve) => handled.push(resolve)))
      const handler = (async ({ payload }: { payload: number }) => {
        handled[payload]?.()
        return { rows: 1 }
      }) as unknown as () => Promise<void>
      topic.consume(handler)
      topic.consume(handler)
      await topic.scheduleMany([0, 1, 2].map((payload) => ({ delay: 0, payload })))
      await Promise.all(all)
    }
    await toc.close()
    const ignored = warnings.filter(({ message }) => message.includes('not an outcome'))
    expect(ignored.map(({ fields }) => fields)).toEqual([
      { topic: 'one', returned: 'an object' },
      { topic: 'two', returned: 'an object' },
    ])
  })

  it.each([
    ['two outcomes', { snooze: '1s', dead: 'x' }],
    ['a bad duration', { snooze: '5 min' }],
    ['a typo', { snoze: '1s' }],
    ['a typo with a reason', { rety: '1s', reason: 'why' }],
    ['an outcome in capitals', { Retry: '1s' }],
    ['an outcome without its value', { snooze: undefined }],
  ])('returns %s, which is meant as an outcome: a failure, never taken for done', async (_, returned) => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consume((async () => returned) as unknown as () => Promise<void>)
    await topic.schedule({ key: 'a', delay: 0, payload: null })
    await toc.advance(1)
    const info = await topic.get('a')
    expect(info).toMatchObject({ state: 'pending', attempt: 2 })
    expect(info?.lastError).toMatch(/TocsinError/)
  })
})

describe('what a batch handler does', () => {
  const keys = ['a', 'b', 'c', 'd']

  async function run(returned: unknown) {
    const toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consumeBatch((async () => returned) as () => Promise<void>)
    await topic.scheduleMany(keys.map((key) => ({ key, at: toc.now(), payload: null })))
    await toc.advance(1)
    const states = await Promise.all(keys.map(async (key) => (await topic.get(key))?.attempt ?? 'ended'))
    const errors = await Promise.all(keys.map(async (key) => (await topic.get(key))?.lastError ?? null))
    await toc.close()
    return { states, errors }
  }

  it('returns nothing: all done', async () => {
    expect((await run(undefined)).states).toEqual(['ended', 'ended', 'ended', 'ended'])
  })

  it('gets all tasks that are due at the same time in one call', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    const sizes: number[] = []
    topic.consumeBatch(async (tasks) => void sizes.push(tasks.length))
    await topic.scheduleMany(
      Array.from({ length: 300 }, (_, i) => ({ key: `k${i}`, delay: '1s', payload: null })),
    )
    await toc.advance('2s')
    expect(sizes).toEqual([300])
  })

  it('returns one outcome per task, in order', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<string>('t')
    topic.consumeBatch(async (tasks) =>
      tasks.map(({ payload }): Outcome | void => {
        if (payload === 'snooze') return { snooze: '1h' }
        if (payload === 'retry') return { retry: '1h' }
        if (payload === 'dead') return { dead: 'no' }
      }),
    )
    const payloads = ['done', 'snooze', 'retry', 'dead']
    await topic.scheduleMany(payloads.map((payload) => ({ key: payload, delay: 0, payload })))
    await toc.advance(1)
    expect(await topic.get('done')).toBeNull()
    expect(await topic.get('snooze')).toMatchObject({ state: 'pending', attempt: 1 })
    expect(await topic.get('retry')).toMatchObject({ state: 'pending', attempt: 2 })
    expect(await topic.get('dead')).toMatchObject({ state: 'dead' })
  })

  it('returns settled results, one per task, in order', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<string>('t')
    topic.consumeBatch((tasks) =>
      Promise.allSettled(
        tasks.map(async ({ payload }): Promise<Outcome | void> => {
          if (payload === 'throws') throw new Error('no')
          if (payload === 'snoozes') return { snooze: '1h' }
        }),
      ),
    )
    const payloads = ['works', 'throws', 'snoozes']
    await topic.scheduleMany(payloads.map((payload) => ({ key: payload, delay: 0, payload })))
    await toc.advance(1)
    expect(await topic.get('works')).toBeNull()
    expect(await topic.get('throws')).toMatchObject({ attempt: 2, lastError: 'Error: no' })
    expect(await topic.get('snoozes')).toMatchObject({ attempt: 1, deliveries: 1 })
  })

  it.each([[[]], [[undefined, undefined, undefined]], [new Array(5).fill(undefined)]])(
    'returns a wrong number of outcomes: all are retried, with the code outcome-count',
    async (returned) => {
      const { states, errors } = await run(returned)
      expect(states).toEqual([2, 2, 2, 2])
      expect(errors[0]).toMatch(/outcome-count/)
    },
  )

  it.each([['done'], [4], [{ sent: 4 }]])('returns %o, which is no outcome: all done', async (returned) => {
    expect((await run(returned)).states).toEqual(['ended', 'ended', 'ended', 'ended'])
  })

  it('returns one value per task: those that are no outcomes are done, a misspelt outcome is a failure', async () => {
    const returned = [true, { snoze: '1h' }, { id: 3 }, { status: 'fulfilled', value: { rows: 1 } }]
    const { states, errors } = await run(returned)
    expect(states).toEqual(['ended', 2, 'ended', 'ended'])
    expect(errors[1]).toMatch(/'snoze'; did you mean 'snooze'/)
  })

  it.each([[{ snooze: '1h' }], [{ snoze: '1h' }]])(
    'returns %o, which does not say for which tasks: all are retried',
    async (returned) => {
      const { states, errors } = await run(returned)
      expect(states).toEqual([2, 2, 2, 2])
      expect(errors[0]).toMatch(/one outcome per task/)
    },
  )

  it('throws: all are retried', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    topic.consumeBatch(() => Promise.reject(new Error('down')))
    await topic.scheduleMany(keys.map((key) => ({ key, delay: 0, payload: null })))
    await toc.advance(1)
    for (const key of keys)
      expect(await topic.get(key)).toMatchObject({ attempt: 2, lastError: 'Error: down' })
  })
})

describe('a guard', () => {
  it('ends obsolete tasks without an attempt, and gets many tasks per call', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<number>('t')
    const asked: number[] = []
    const handled: number[] = []
    topic.consume(async ({ payload }) => void handled.push(payload), {
      guard: async (tasks) => {
        asked.push(tasks.length)
        return tasks.map(({ payload }) => payload % 2 === 0)
      },
    })
    await topic.scheduleMany(
      Array.from({ length: 40 }, (_, i) => ({ key: `k${i}`, delay: '1s', payload: i })),
    )
    await toc.advance('2s')
    expect(handled.sort((a, b) => a - b)).toEqual(Array.from({ length: 20 }, (_, i) => i * 2))
    expect(asked.reduce((sum, n) => sum + n)).toBe(40)
    expect(Math.max(...asked)).toBeGreaterThan(1)
    expect(await topic.counts()).toMatchObject({ pending: 0, claimed: 0, dead: 0 })
  })

  it('works before a batch handler as well', async () => {
    await using toc = quickTocsin()
    const topic = toc.topic<number>('t')
    const handled: number[] = []
    topic.consumeBatch(async (tasks) => void handled.push(...tasks.map(({ payload }) => payload)), {
      guard: async (tasks) => tasks.map(({ payload }) => payload > 2),
    })
    await topic.scheduleMany([1, 2, 3, 4].map((n) => ({ key: `k${n}`, delay: 0, payload: n })))
    await toc.advance(1)
    expect(handled.sort((a, b) => a - b)).toEqual([3, 4])
  })

  it.each([
    ['throws', () => Promise.reject(new Error('guard down'))],
    ['returns too few answers', async () => [true]],
    ['returns no booleans', async () => [1, 1, 1] as unknown as boolean[]],
  ])('that %s fails the attempts of all its tasks', async (_, guard) => {
    await using toc = quickTocsin()
    const topic = toc.topic<null>('t')
    let handled = 0
    topic.consumeBatch(async (tasks) => void (handled += tasks.length), { guard })
    await topic.scheduleMany(['a', 'b', 'c'].map((key) => ({ key, delay: 0, payload: null })))
    await toc.advance(1)
    expect(handled).toBe(0)
    for (const key of ['a', 'b', 'c'])
      expect(await topic.get(key)).toMatchObject({ state: 'pending', attempt: 2 })
  })
})

it('a TocsinError that a handler throws becomes the last error of the task', async () => {
  await using toc = quickTocsin()
  const topic = toc.topic<null>('t')
  topic.consume(() => Promise.reject(new TocsinError('closed', 'the other one was closed')))
  await topic.schedule({ key: 'a', delay: 0, payload: null })
  await toc.advance(1)
  expect((await topic.get('a'))?.lastError).toBe('TocsinError: the other one was closed')
})

it('a guard that hangs times out like a handler, and its permits are free again', async () => {
  await using toc = quickTocsin()
  const topic = toc.topic<string>('t', { timeout: '10s', retry: { min: '1m' } })
  const handled: string[] = []
  topic.consume(async ({ key }) => void handled.push(key), {
    concurrency: 1,
    guard: (tasks) =>
      tasks[0]?.attempt === 1 ? new Promise(() => {}) : Promise.resolve(tasks.map(() => true)),
  })
  await topic.schedule({ key: 'a', delay: 0, payload: 'x' })
  await toc.advance('10s')
  expect(await topic.get('a')).toMatchObject({ state: 'pending', attempt: 2 })
  await toc.advance('1m')
  expect(handled).toEqual(['a'])
})
