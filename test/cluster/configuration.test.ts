/** One configuration for all nodes: each `Tocsin.open` is a node, wherever it runs. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type LiveConfig,
  type Logger,
  Tocsin,
  type TocsinError,
  type TocsinEvents,
  type Topic,
  type TopicConfig,
} from 'tocsin'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { TopicHandle } from '../../src/api/topic-handle.ts'
import { token } from '../contract/board/helpers.ts'
import { eventually } from '../fault/helpers.ts'
import { quantile } from '../fault/records.ts'
import { refusal } from '../library/helpers.ts'
import { connected } from '../real-servers/postgres-server.ts'
import { COMPOSITIONS, Servers } from './compositions.ts'

const TOPIC = 'order.unpaid'
/** A change is notified at once where the storage can notify, and seen with the next beat otherwise. The rest is slack. */
const EVERYWHERE_WITHIN_MS = 5_000
const CHANGES = 6
const RACERS = 20
/** By node, as the nodes of one process see it: what another machine's clock says is not asked here. */
const CLOCK_SLACK_MS = 1_000

const names = (count: number): string[] => Array.from({ length: count }, (_, n) => `node-${n}`)

let servers: Servers
beforeAll(async () => {
  servers = await Servers.start({ withBouncer: true })
}, 60_000)
afterAll(() => servers.stop())

/** What each of them runs by, once all agree on the version. */
async function agreed(topics: readonly Topic<unknown, unknown>[], version: number): Promise<void> {
  await eventually(
    `version ${version} everywhere`,
    async () =>
      (await Promise.all(topics.map((topic) => topic.config()))).every((view) => view.version === version),
    EVERYWHERE_WITHIN_MS,
  )
  const [first, ...rest] = await Promise.all(topics.map((topic) => topic.config()))
  for (const { live, paused } of rest)
    expect({ live, paused }).toEqual({ live: first!.live, paused: first!.paused })
}

function keepingLogger(): { logger: Logger; lines: [string, string, Record<string, unknown>][] } {
  const lines: [string, string, Record<string, unknown>][] = []
  const log = (level: string) => (fields: object, message: string) =>
    void lines.push([level, message, { ...fields }])
  return { lines, logger: { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') } }
}

describe.each(COMPOSITIONS)('%s', { timeout: 60_000 }, (composition) => {
  test('a change on one node is on every node', async () => {
    await using place = await servers.place(composition)
    const nodes = await place.nodes(...names(4))
    // The last one knows the name alone, as a producer may.
    const topics = nodes.map((toc, n) => toc.topic(TOPIC, ...(n === 3 ? [] : [{ batchSize: 10 }])))
    const heard = nodes.map(() => new Map<number, number>())
    for (const [n, toc] of nodes.entries())
      toc.on('config', ({ version, effective, paused }) => {
        expect({ batchSize: effective.batchSize, paused }).toEqual({
          batchSize: 100 + version,
          paused: false,
        })
        heard[n]!.set(version, performance.now())
      })
    const tookMs: number[] = []
    for (let version = 1; version <= CHANGES; version++) {
      const askedMs = performance.now()
      const view = await topics[version % 4]!.configure({ batchSize: 100 + version })
      expect(view).toMatchObject({ version, live: { batchSize: 100 + version } })
      await agreed(topics, version)
      tookMs.push(...heard.map((versions) => versions.get(version)! - askedMs))
      // Real time: changes at moments that do not coincide with the heartbeats.
      await sleep(137 * version)
    }
    const figures = { p50: quantile(tookMs, 0.5), max: Math.max(...tookMs) }
    console.log(
      `${composition}: a change is on all of 4 nodes: p50 ${figures.p50.toFixed(0)} ms, max ${figures.max.toFixed(0)} ms`,
    )
    expect(figures.max).toBeLessThan(EVERYWHERE_WITHIN_MS)
  })

  test.concurrent(`${RACERS} nodes race for one version, and one wins; without a version all of them do`, async () => {
    await using place = await servers.place(composition)
    const nodes = await place.nodes(...names(RACERS))
    const topics = nodes.map((toc) => toc.topic(TOPIC))
    await topics[0]!.configure({ lease: '1m' })
    const raced = await Promise.allSettled(
      topics.map((topic, n) => topic.configure({ batchSize: n + 1 }, { ifVersion: 1 })),
    )
    const winners = raced.flatMap((one, n) => (one.status === 'fulfilled' ? [n] : []))
    expect(winners.length).toBe(1)
    for (const one of raced)
      if (one.status === 'rejected')
        expect(one.reason).toMatchObject({ code: 'version-conflict', status: 412, retryable: false })
    await agreed(topics, 2)
    expect((await topics[0]!.config()).live).toEqual({ lease: '1m', batchSize: winners[0]! + 1 })

    // Each changes another field: a change that another node overwrote unseen would be missing afterwards.
    const patches: LiveConfig[] = [
      { slots: 64 },
      { batchSize: 7 },
      { lease: '2m' },
      { timeout: '3m' },
      { merge: '10ms' },
      { linger: '20ms' },
      { resident: '2h' },
      { retention: '2d' },
      { rate: { limit: 9, per: '1s' } },
      { late: { after: '1h', then: 'drop' } },
      { objective: { p99: '1s' } },
      { retry: { maxAttempts: 3 } },
      { retry: { backoff: 'fixed' } },
      { retry: { min: '2s' } },
      { retry: { max: '3m' } },
      { retry: { jitter: 0 } },
    ]
    const all = await Promise.all(patches.map((patch, n) => topics[n]!.configure(patch)))
    expect(all.map(({ version }) => version).toSorted((a, b) => a - b)).toEqual(patches.map((_, n) => 3 + n))
    await agreed(topics, 2 + patches.length)
    expect((await topics[19]!.config()).live).toEqual({
      ...Object.assign({}, ...patches),
      retry: { maxAttempts: 3, backoff: 'fixed', min: '2s', max: '3m', jitter: 0 },
    })
    const history = await topics[7]!.configHistory()
    expect(history.map(({ version }) => version)).toEqual(
      Array.from({ length: 2 + patches.length }, (_, n) => 2 + patches.length - n),
    )
    expect(history[patches.length]).toMatchObject({ by: `node-${winners[0]}` })
  })

  test.concurrent('the history tells who changed what, when, newest first', async () => {
    await using place = await servers.place(composition)
    const [anna, berta] = (await place.nodes('anna', 'berta')) as [Tocsin, Tocsin]
    const [a, b] = [anna.topic(TOPIC), berta.topic(TOPIC)]
    expect(await a.configHistory()).toEqual([])
    const fromMs = Date.now()
    await a.configure({ lease: '90s', retry: { jitter: 0.5 } })
    await b.configure({ lease: null, slots: 8 })
    await agreed([a, b], 2)
    await b.pause()
    await agreed([a, b], 3)
    await a.resume()
    const toMs = Date.now()
    for (const topic of [a, b]) {
      const history = await topic.configHistory()
      expect(history.map(({ version, by }) => [version, by])).toEqual([
        [4, 'anna'],
        [3, 'berta'],
        [2, 'berta'],
        [1, 'anna'],
      ])
      expect(history.map(({ patch }) => patch)).toEqual([
        { paused: false },
        { paused: true },
        { lease: null, slots: 8 },
        { lease: '90s', retry: { jitter: 0.5 } },
      ])
      const times = history.map(({ at }) => at.getTime())
      expect(times).toEqual(times.toSorted((x, y) => y - x))
      expect(Math.min(...times)).toBeGreaterThan(fromMs - CLOCK_SLACK_MS)
      expect(Math.max(...times)).toBeLessThan(toMs + CLOCK_SLACK_MS)
    }
    expect((await b.configHistory({ limit: 2 })).map(({ version }) => version)).toEqual([4, 3])
    expect(await refusal(() => b.configHistory({ limit: 0 }))).toMatchObject({ code: 'bad-option' })
  })

  test.concurrent('settings outlive all nodes', async () => {
    await using place = await servers.place(composition)
    const [one] = (await place.nodes('one')) as [Tocsin]
    const topic = one.topic(TOPIC, { slots: 4, lease: '1m' })
    await topic.configure({ batchSize: 33, slots: 32 })
    await topic.pause()
    const before = await topic.config()
    const past = await topic.configHistory()
    await place.closeNodes()

    const [again] = (await place.nodes('two')) as [Tocsin]
    const later = again.topic(TOPIC, { slots: 4, lease: '1m' })
    // Known as soon as it is open: no node runs with outdated settings meanwhile.
    expect(await later.config()).toEqual(before)
    expect(before).toMatchObject({ version: 2, paused: true, live: { batchSize: 33, slots: 32 } })
    expect(await later.configHistory()).toEqual(past)
    await later.configure({ slots: null })
    expect((await later.config()).effective.slots).toBe(4)
  })

  test.concurrent('what is wrong is refused with its reason, and nothing changes', async () => {
    await using place = await servers.place(composition)
    const nodes = await place.nodes('one', 'two')
    const topics = nodes.map((toc) => toc.topic(TOPIC, { retry: { min: '1m' } }))
    await topics[0]!.configure({ batchSize: 9 })
    await agreed(topics, 1)
    const before = await Promise.all(topics.map((topic) => topic.config()))
    const bad: [unknown, RegExp][] = [
      [{ slots: 3 }, /slots: expected 1, 2, 4, 8, 16, 32 or 64, got 3/],
      [{ batchSize: 5, lease: '1ms' }, /lease: expected at least 10ms/],
      [{ batchSize: 0 }, /batchSize: expected a whole number from 1 to 10000/],
      [{ batchsize: 5 }, /did you mean 'batchSize'\?/],
      [{ retry: { max: '30s' } }, /min \(1m\) is longer than max \(30s\)/],
      [{ rate: { limit: 5 } }, /'per' is missing/],
      [{ slotBy: 'prefix' }, /slotBy places the tasks and is fixed/],
      [null, /expected an object/],
    ]
    for (const [patch, reason] of bad) {
      const error = await refusal(() => topics[1]!.configure(patch as LiveConfig))
      expect(error.code).toBe('bad-config')
      expect(error.message).toMatch(reason)
    }
    expect(await refusal(() => topics[1]!.configure({}, { ifVersion: 7 }))).toMatchObject({
      code: 'version-conflict',
      message: expect.stringContaining('version 7 was expected, 1 is in force'),
    })
    expect(await Promise.all(topics.map((topic) => topic.config()))).toEqual(before)
    expect(await topics[0]!.configHistory()).toMatchObject([{ version: 1, by: 'one' }])
  })

  test.concurrent('a node whose code says otherwise is told, and goes by what is in force', async () => {
    await using place = await servers.place(composition)
    const { logger, lines } = keepingLogger()
    const [one, other] = await Promise.all([place.node('one'), place.node('other', { logger })])
    const drifts: (TocsinEvents['drift'] & { by: string })[] = []
    for (const [toc, by] of [[one, 'one'] as const, [other, 'other'] as const])
      toc.on('drift', (event) => void drifts.push({ ...event, by }))
    const plain = one.topic(TOPIC, { slots: 4 })
    // Created by now: it counts what the first one said.
    await plain.schedule({ key: 'k', delay: '1h', payload: null })
    const stubborn = other.topic(TOPIC, { slots: 32, batchSize: 10, retry: { maxAttempts: 3 } })
    await eventually('slots drift', () => drifts.length === 1, EVERYWHERE_WITHIN_MS)
    expect(drifts).toEqual([{ by: 'other', topic: TOPIC, field: 'slots', code: 32, effective: 4 }])
    expect((await stubborn.config()).effective.slots).toBe(4)

    drifts.length = 0
    await plain.configure({ batchSize: 77, retry: { maxAttempts: 5, jitter: 0 } })
    await agreed([plain, stubborn], 1)
    await eventually('drift', () => drifts.length === 3, EVERYWHERE_WITHIN_MS)
    const byField = drifts.toSorted((a, b) => (a.field < b.field ? -1 : 1))
    expect(byField.map(({ by, field, code, effective }) => [by, field, code, effective])).toEqual([
      ['other', 'batchSize', 10, 77],
      ['other', 'retry.maxAttempts', 3, 5],
      ['other', 'slots', 32, 4],
    ])
    const warned = lines.filter(([level, message]) => level === 'warn' && message.includes('overrides'))
    expect(warned.map(([, , fields]) => fields)).toContainEqual({
      topic: TOPIC,
      field: 'batchSize',
      code: 10,
      effective: 77,
    })
    expect((await stubborn.config()).effective).toMatchObject({ batchSize: 77, retry: { maxAttempts: 5 } })

    // Live it counts at any time, for both.
    await stubborn.configure({ slots: 8 })
    await agreed([plain, stubborn], 2)
    for (const topic of [plain, stubborn]) expect((await topic.config()).effective.slots).toBe(8)
    await stubborn.configure({ slots: null })
    await agreed([plain, stubborn], 3)
    for (const topic of [plain, stubborn]) expect((await topic.config()).effective.slots).toBe(4)
  })

  test.concurrent('what is declared for all holds on every node without code, and outlives them; so do tokens', async () => {
    await using place = await servers.place(composition)
    const [one, two] = (await place.nodes('one', 'two')) as [Tocsin, Tocsin]
    const [declaring, bare] = [one.topic(TOPIC) as TopicHandle<unknown, unknown>, two.topic<null>(TOPIC)]
    const view = await declaring.declareForAll({ slots: 4, slotBy: 'prefix', batchSize: 7 })
    await agreed([declaring, bare], 1)
    expect(await bare.config()).toEqual(view)
    expect(view.effective).toMatchObject({ slots: 4, slotBy: 'prefix', batchSize: 7 })
    expect([two.knows(TOPIC), two.topicNames()]).toEqual([true, [TOPIC]])
    await bare.schedule({ key: 'a:1', delay: '1h', payload: null })
    expect((await bare.list({ prefix: 'a' })).tasks).toHaveLength(1)
    await one.accessTokenBoard.putToken(token('a'))
    expect(await two.accessTokenBoard.tokens()).toEqual([token('a')])
    await place.closeNodes()

    const [later] = (await place.nodes('later')) as [Tocsin]
    expect(await later.topic(TOPIC).config()).toEqual(view)
    expect(await later.accessTokenBoard.tokens()).toEqual([token('a')])
    expect(await later.topic(TOPIC).configHistory()).toMatchObject([
      { by: 'one', patch: { declared: view.code } },
    ])
  })

  test.concurrent('a program that would place tasks otherwise is refused', async () => {
    await using place = await servers.place(composition)
    const [one, early] = (await place.nodes('one', 'early')) as [Tocsin, Tocsin]
    const placed = one.topic<null>(TOPIC, { slotBy: 'prefix' })
    await placed.schedule({ key: 'a:1', delay: '1h', payload: null })

    // Opened before it was created: perhaps it has heard of it, perhaps not. Neither way is anything written.
    const call = async () =>
      early.topic<null>(TOPIC, { slotBy: 'key' }).schedule({ key: 'a:2', delay: '1h', payload: null })
    expect(await refusal(call)).toMatchObject({ code: 'bad-topic' })
    const late = await place.node('late')
    const error = await refusal(() => late.topic(TOPIC, { lease: '1m' }))
    expect(error).toMatchObject({ code: 'bad-topic' })
    expect(error.message).toContain("was created with slotBy 'prefix'")
    expect(error.message).toContain("declared with 'key'")
    // By its name alone it goes by what is there.
    const bare = late.topic<null>(TOPIC)
    expect((await bare.config()).effective.slotBy).toBe('prefix')
    await bare.schedule({ key: 'a:3', delay: '1h', payload: null })
    const { tasks } = await placed.list({ prefix: 'a' })
    expect(tasks.map(({ key }) => key).toSorted()).toEqual(['a:1', 'a:3'])
    expect(await placed.cancelBy({ prefix: 'a' })).toMatchObject({ cancelled: 2 })
  })

  test.concurrent('two programs that say so at the same moment: one of them is refused, whatever it calls', async () => {
    await using place = await servers.place(composition)
    const [one, other] = (await place.nodes('one', 'other')) as [Tocsin, Tocsin]
    const calls = await Promise.allSettled([
      one.topic<null>(TOPIC, { slotBy: 'prefix' }).schedule({ key: 'a:1', delay: '1h', payload: null }),
      other.topic<null>(TOPIC, { slotBy: 'key' }).scheduleMany([{ key: 'a:2', delay: '1h', payload: null }]),
    ])
    expect(calls.map(({ status }) => status).toSorted()).toEqual(['fulfilled', 'rejected'])
    const refused = calls.find((call) => call.status === 'rejected') as PromiseRejectedResult
    expect(refused.reason).toMatchObject({ code: 'bad-topic' })
    const bare = (await place.node('bare')).topic(TOPIC)
    expect((await bare.list()).tasks.length).toBe(1)
  })

  test.concurrent('a task that was written to an undeclared topic is found by a process that declares it later', async () => {
    await using place = await servers.place(composition)
    const schedule = async (key: string, ...config: [TopicConfig?]) => {
      const toc = await place.node(key)
      const outcome = await Promise.resolve()
        .then(() => toc.topic<null>(TOPIC, ...config).schedule({ key, delay: '1h', payload: null }))
        .then(
          () => 'written',
          (error: unknown) => (error as TocsinError).code,
        )
      return { key, outcome }
    }
    const tried = [
      await schedule('a:1'),
      await schedule('a:2', { slotBy: 'prefix' }),
      await schedule('a:3', { slotBy: 'key' }),
      await schedule('a:4'),
    ]
    // Which of the two wins is decided once. The one that is refused leaves nothing behind that would get others refused.
    expect([tried[1]!.outcome, tried[2]!.outcome].toSorted()).toEqual(['bad-topic', 'written'])
    const written = tried.filter(({ outcome }) => outcome === 'written').map(({ key }) => key)
    expect(written.length).toBe(3)
    const topic = (await place.node('last')).topic(TOPIC)
    const found = await Promise.all(
      written.map(async (key) => ({ key, state: (await topic.get(key))?.state })),
    )
    expect(found).toEqual(written.map((key) => ({ key, state: 'pending' })))
    expect(await topic.cancelBy({ prefix: 'a' })).toEqual({ cancelled: 3, inFlight: 0 })
  })

  test.concurrent('paused and resumed on the whole cluster', async () => {
    await using place = await servers.place(composition)
    const nodes = await place.nodes('one', 'two', 'three')
    const topics = nodes.map((toc) => toc.topic<null>(TOPIC))
    const handled: string[] = []
    const consume = (topic: Topic<null, null>) =>
      topic.consume(async ({ key }) => {
        handled.push(key)
      })
    // The third one only schedules.
    for (const topic of topics.slice(0, 2)) consume(topic)
    const dueSoon = (name: string) =>
      Array.from({ length: 50 }, (_, n) => ({ key: `${name}-${n}`, delay: 200 + n, payload: null }))
    await topics[2]!.scheduleMany(dueSoon('before'))
    await eventually('handled', () => handled.length === 50)

    await topics[2]!.pause()
    await agreed(topics, 1)
    await topics[0]!.scheduleMany(dueSoon('meanwhile'))
    // Who comes now is paused from its first moment on.
    const late = (await place.node('late')).topic<null>(TOPIC)
    expect((await late.config()).paused).toBe(true)
    consume(late)
    // Real time: no paused node may handle anything, although all 50 are due.
    await sleep(1_500)
    expect(handled.length).toBe(50)
    expect(await late.counts()).toMatchObject({ pending: 50, due: 50, claimed: 0 })

    const askedMs = performance.now()
    await topics[1]!.resume()
    await eventually('all handled', () => handled.length === 100)
    console.log(
      `${composition}: 50 overdue handled ${(performance.now() - askedMs).toFixed(0)} ms after resume()`,
    )
    expect(new Set(handled).size).toBe(100)
    await agreed([...topics, late], 2)
    // Nothing to do, nothing written.
    await topics[0]!.resume()
    expect((await topics[0]!.configHistory()).length).toBe(2)
  })

  test.concurrent('who has not heard of a pause yet can end it', async () => {
    await using place = await servers.place(composition)
    const [a, b] = (await place.nodes('one', 'other')).map((toc) => toc.topic(TOPIC)) as [
      Topic<unknown, unknown>,
      Topic<unknown, unknown>,
    ]
    for (let round = 0; round < 5; round++) {
      await a.pause()
      await b.resume()
      await agreed([a, b], 2 * round + 2)
      expect(await a.config()).toMatchObject({ paused: false })
    }
  })
})

test(
  'a transaction does not write before it is known how the topic is placed',
  { timeout: 60_000 },
  async () => {
    await using place = await servers.place('PostgreSQL')
    const [one, other] = (await place.nodes('one', 'other')) as [Tocsin, Tocsin]
    await using client = await connected(place.ledger!)
    for (let round = 0; round < 10; round++) {
      const name = `${TOPIC}-${round}`
      await client.query('BEGIN')
      const settled = await Promise.allSettled([
        one.topic<null>(name, { slotBy: 'prefix' }).schedule({ key: 'a:1', delay: '1h', payload: null }),
        // Its cell by key is another one than by prefix.
        other
          .topic<null>(name, { slotBy: 'key' })
          .schedule({ key: 'x:7', delay: '1h', payload: null }, { tx: client }),
      ])
      await client.query('COMMIT')
      const written = ['a:1', 'x:7'].filter((_, n) => settled[n]!.status === 'fulfilled')
      const last = await place.node(`last-${round}`)
      const found = await Promise.all(written.map(async (key) => (await last.topic(name).get(key))?.key))
      expect({ round, found }).toEqual({ round, found: written })
      const reasons = settled.map((one) => (one.status === 'rejected' ? String(one.reason) : null))
      expect(written, reasons.join(' | ')).toHaveLength(1)
    }
  },
)

test('a wiped Redis takes no settings along where there is a ledger', { timeout: 60_000 }, async () => {
  await using place = await servers.place('Redis + PostgreSQL')
  const nodes = await place.nodes('one', 'two')
  const topics = nodes.map((toc) => toc.topic(TOPIC, { slots: 2 }))
  await topics[0]!.configure({ batchSize: 12 })
  await agreed(topics, 1)
  await place.redis!.cli('FLUSHALL')
  // Real time: every node beats on the wiped Redis. Its settings must survive that.
  await sleep(2_000)
  await topics[1]!.configure({ lease: '7s' })
  await agreed(topics, 2)
  expect((await topics[0]!.config()).live).toEqual({ batchSize: 12, lease: '7s' })
  await place.closeNodes()
  await place.redis!.cli('FLUSHALL')
  const [again] = (await place.nodes('three')) as [Tocsin]
  const topic = again.topic(TOPIC, { slots: 64 })
  expect(await topic.config()).toMatchObject({
    version: 2,
    live: { batchSize: 12, lease: '7s' },
    effective: { slots: 2 },
  })
  expect((await topic.configHistory()).map(({ by }) => by)).toEqual(['two', 'one'])
})

test(
  'a Redis without a ledger that was wiped: the code counts again, and changes go on',
  { timeout: 60_000 },
  async () => {
    await using place = await servers.place('Redis')
    const nodes = await place.nodes('one', 'two')
    const topics = nodes.map((toc) => toc.topic(TOPIC, { slots: 2, batchSize: 5 }))
    await topics[0]!.configure({ batchSize: 12 })
    await topics[0]!.pause()
    await agreed(topics, 2)
    await place.redis!.cli('FLUSHALL')
    await agreed(topics, 0)
    expect(await topics[1]!.config()).toMatchObject({
      paused: false,
      live: {},
      effective: { batchSize: 5, slots: 2 },
    })
    await topics[1]!.configure({ batchSize: 13 })
    await agreed(topics, 1)
    expect(await topics[0]!.configHistory()).toMatchObject([{ version: 1, by: 'two' }])
  },
)

test('a reopened SQLite file has its settings', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-cluster-'))
  const ledger = `sqlite:${join(folder, 'tocsin.db')}` as const
  try {
    const code = { slots: 4, slotBy: 'prefix' } as const
    let before
    let past
    {
      await using toc = await Tocsin.open({ ledger, logger: false, node: 'first' })
      const topic = toc.topic(TOPIC, code)
      await topic.configure({ batchSize: 21 })
      await topic.pause()
      expect(await refusal(() => topic.configure({ batchSize: 1 }, { ifVersion: 1 }))).toMatchObject({
        code: 'version-conflict',
      })
      before = await topic.config()
      past = await topic.configHistory()
      expect(past.map(({ by, patch }) => [by, patch])).toEqual([
        ['first', { paused: true }],
        ['first', { batchSize: 21 }],
      ])
      expect(await toc.nodes()).toMatchObject([{ name: 'first', isSelf: true, pid: process.pid }])
    }
    await using toc = await Tocsin.open({ ledger, logger: false, node: 'second' })
    expect(await refusal(() => toc.topic(TOPIC, { slotBy: 'key' }))).toMatchObject({ code: 'bad-topic' })
    const topic = toc.topic(TOPIC, code)
    expect(await topic.config()).toEqual(before)
    expect(await topic.configHistory()).toEqual(past)
    await topic.resume()
    expect(await topic.config()).toMatchObject({ version: 3, paused: false, live: { batchSize: 21 } })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})
