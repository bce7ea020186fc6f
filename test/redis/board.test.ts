/** A board in Redis, besides the contract: its cost in commands, and its behaviour when Redis fails. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import type { Board } from '../../src/board.ts'
import { systemClock } from '../../src/clock.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { systemRandom } from '../../src/random.ts'
import { openRedis } from '../../src/timetables/redis/open.ts'
import type { RedisTimetable } from '../../src/timetables/redis/timetable.ts'
import { card, change, changed, Ears, heartbeatOf, token } from '../contract/board/helpers.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { startProxy } from '../real-servers/tcp-proxy.ts'
import { allCalls, callsDuring, type CommandStats } from './command-stats.ts'

const opened: RedisTimetable[] = []
afterEach(() => Promise.all(opened.splice(0).map((timetable) => timetable.close())))

async function openBoard(url: string, callTimeoutMs = 5_000): Promise<Board> {
  const settings = { prefix: 'toc', callTimeoutMs, waitReplicas: 0 }
  const surroundings = { clock: systemClock, random: systemRandom, logger: silentLogger }
  const timetable = await openRedis({ url }, settings, surroundings)
  opened.push(timetable)
  return timetable.board
}

const beatAll = async (board: Board, nodes: number): Promise<void> => {
  for (let n = 0; n < nodes; n++) await board.beat(card(`node-${n}`))
}

describe('what it costs', () => {
  /** The commands of one call, on boards of one node and of fifty. */
  async function costs(act: (board: Board) => Promise<unknown>): Promise<CommandStats[]> {
    const found: CommandStats[] = []
    for (const nodes of [1, 50]) {
      await using server = await startRedis()
      const board = await openBoard(server.url)
      await board.create('t', 16, 'key')
      await beatAll(board, nodes)
      // Once before, so that Redis knows the script.
      await act(board)
      found.push(await callsDuring(server, () => act(board)))
      await Promise.all(opened.splice(0).map((timetable) => timetable.close()))
    }
    return found
  }

  it('a beat is one script of five commands, however many nodes there are', async () => {
    const [one, fifty] = await costs((board) => board.beat(card('node-0')))
    expect(fifty).toEqual(one)
    expect(Object.fromEntries(one!)).toEqual({ evalsha: 1, time: 1, hmget: 1, hgetall: 1, hset: 2 })
  })

  it('each other call has its number of commands, however many nodes there are', async () => {
    const calls: Record<string, (board: Board) => Promise<unknown>> = {
      cards: (board) => board.cards(),
      leave: (board) => board.leave('unknown'),
      bury: (board) => board.bury('node-0', 1),
      records: (board) => board.records(),
      create: (board) => board.create('t', 16, 'key'),
      change: (board) => board.change('t', 99, change()),
      history: (board) => board.history('t', 100),
      tokens: (board) => board.tokens(),
      putToken: (board) => board.putToken(token('a')),
      dropToken: (board) => board.dropToken('a'),
    }
    for (const [name, act] of Object.entries(calls)) {
      const [one, fifty] = await costs(act)
      expect(fifty, name).toEqual(one)
      expect(allCalls(one!), name).toBeLessThanOrEqual(6)
    }
  })

  it('all of it is under one hash tag', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    await board.beat(card('a'))
    await board.create('t', 16, 'key')
    await changed(board, 't', 0)
    await board.putToken(token('a'))
    const keys = (await server.cli('KEYS', '*')).split('\n').toSorted()
    expect(keys).toEqual(
      ['beats', 'cards', 'changes:t', 'meta', 'tokens', 'topics'].map((name) => `toc:{board}:${name}`),
    )
  })
})

describe('a Redis in trouble', () => {
  it('is full: nodes still beat, leave and are buried, and what is there can be read', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    const record = await board.create('t', 16, 'key')
    await board.putToken(token('withdrawn'))
    await server.cli('CONFIG', 'SET', 'maxmemory', '1')
    await board.beat(card('a'))
    await board.beat(card('a', { edition: 2 }))
    await board.beat(card('b'))
    const { beats } = heartbeatOf(await board.beat(card('c')), 'c')
    await board.leave('b')
    await board.bury('c', beats)
    expect((await board.cards()).map(({ id, edition }) => ({ id, edition }))).toEqual([
      { id: 'a', edition: 2 },
    ])
    expect(await board.create('t', 32, 'key')).toEqual(record)
    await expect(board.create('another', 16, 'key')).rejects.toMatchObject({ code: 'timetable-full' })
    await expect(board.change('t', 0, change())).rejects.toMatchObject({ code: 'timetable-full' })
    expect(await board.records()).toEqual([record])
    expect(await board.history('t', 10)).toEqual([])
    await expect(board.putToken(token('new'))).rejects.toMatchObject({ code: 'timetable-full' })
    expect(await board.dropToken('withdrawn')).toBe(true)
    expect(await board.tokens()).toEqual([])
    await server.cli('CONFIG', 'SET', 'maxmemory', '0')
    await changed(board, 't', 0)
  })

  it('has forgotten the scripts: they are sent again', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    const flush = () => server.cli('SCRIPT', 'FLUSH')
    for (let round = 0; round < 2; round++) {
      await flush()
      const { beats } = heartbeatOf(await board.beat(card('a')), 'a')
      await flush()
      await board.bury('a', beats)
      await flush()
      await board.leave('a')
      await flush()
      await board.create(`t${round}`, 16, 'key')
      await flush()
      await changed(board, `t${round}`, 0)
      await flush()
      await board.putToken(token('a'))
      await flush()
      expect(await board.dropToken('a')).toBe(true)
    }
    expect(await board.cards()).toEqual([])
    expect(await board.records()).toHaveLength(2)
  })

  it('was restarted: settings and tokens are there again', async () => {
    await using server = await startRedis({ config: { appendonly: 'yes', appendfsync: 'always' } })
    const board = await openBoard(server.url)
    await board.create('t', 16, 'key')
    const record = await changed(board, 't', 0, change({ declared: { batchSize: 7 } }))
    await board.putToken(token('a'))
    await server.restart()
    await expect.poll(() => board.records().catch(() => null), { timeout: 10_000 }).toEqual([record])
    expect(record).toMatchObject({ declared: { batchSize: 7 } })
    expect(await board.tokens()).toEqual([token('a')])
  })

  it('has a record of before: nothing was declared', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    const fixed = { topic: 't', slots: 8, slotBy: 'prefix' }
    const state = { live: { lease: '9s' }, isPaused: true }
    const text = ['3', ...[fixed, state].map((one) => JSON.stringify(one))].join('\n')
    await server.cli('HSET', 'toc:{board}:topics', 't', text)
    const record = { ...fixed, ...state, version: 3, declared: {} }
    expect(await board.records()).toEqual([record])
    expect(await board.create('t', 16, 'key')).toEqual(record)
    expect(await board.change('t', 99, change())).toEqual({ isOurs: false, record })
    const declared = { batchSize: 5 }
    expect(await changed(board, 't', 3, change({ declared }))).toMatchObject({ version: 4, declared })
  })

  it('was wiped: the revision is another one, and each node is back with its next beat', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    await board.create('t', 16, 'key')
    const before = await board.beat(card('a'))
    await server.cli('FLUSHALL')
    // Real time: the first beat count is Redis's clock in milliseconds, and has to differ from the one before.
    await sleep(5)
    const wiped = await board.beat(card('a'))
    expect(wiped.revision).not.toBe(before.revision)
    expect(await board.records()).toEqual([])
    await board.create('t', 32, 'key')
    const after = await board.beat(card('a'))
    // As many creations as before: the count alone would say that nothing happened.
    expect(after.revision).not.toBe(before.revision)
    expect(heartbeatOf(wiped, 'a').beats).not.toBe(heartbeatOf(before, 'a').beats)
  })

  it('does not answer: a change is an unknown outcome, and finds itself when it is repeated', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url, 500)
    await board.create('t', 16, 'key')
    const ours = change()
    server.pause()
    const [changing, beating] = await Promise.allSettled([board.change('t', 0, ours), board.beat(card('a'))])
    expect(changing).toMatchObject({ status: 'rejected', reason: { code: 'unknown-outcome' } })
    expect(beating).toMatchObject({ status: 'rejected', reason: { code: 'timetable-unavailable' } })
    server.resume()
    await expect.poll(() => board.records().catch(() => null), { timeout: 10_000 }).not.toBeNull()
    // Whether the first one was carried out or not.
    await changed(board, 't', 0, ours)
    expect(await board.history('t', 10)).toHaveLength(1)
  })

  it('speaks a newer format: this version keeps its hands off', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    await server.cli('HSET', 'toc:{board}:meta', 'format', '2')
    await expect(board.beat(card('a'))).rejects.toMatchObject({ code: 'timetable-refused' })
    await expect(board.create('t', 16, 'key')).rejects.toMatchObject({ code: 'timetable-refused' })
    await expect(board.putToken(token('a'))).rejects.toMatchObject({ code: 'timetable-refused' })
    expect(await server.cli('KEYS', '*')).toBe('toc:{board}:meta')
  })
})

describe('a node that comes back', () => {
  it('is not buried by a process that judged it dead before', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    const { beats } = heartbeatOf(await board.beat(card('a')), 'a')
    await board.bury('a', beats)
    // Real time: the first beat count is Redis's clock in milliseconds, and has to differ from the one before.
    await sleep(5)
    await board.beat(card('a'))
    await board.bury('a', beats)
    expect((await board.cards()).map(({ id }) => id)).toEqual(['a'])
  })
})

describe('news', () => {
  const listeners = async (server: RedisServer, channel = 'toc:{board}:news') =>
    Number((await server.cli('PUBSUB', 'SHARDNUMSUB', channel)).split(/\s+/).at(-1))

  it('a listener that was cut off is called once after the reconnect', async () => {
    await using server = await startRedis()
    await using proxy = await startProxy(server)
    const board = await openBoard(proxy.url(server.url))
    const other = await openBoard(server.url)
    let told = 0
    const stop = board.listen(() => {
      told += 1
    })
    const ears = await Ears.open(board, other)
    told = 0
    await ears.expectSilence('a new node, while it is away', async () => {
      proxy.refuse()
      proxy.cut()
      await expect.poll(() => listeners(server)).toBe(0)
      await other.beat(card('a'))
    })
    await ears.expectNews('its return', () => proxy.accept())
    expect(told).toBe(1)
    await ears.expectHearing()
    stop()
    ears.stop()
  })

  it('a listener is called, too, if Redis cut only the subscription', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    const other = await openBoard(server.url)
    const ears = await Ears.open(board, other)
    await ears.expectNews('its return', () => server.cli('CLIENT', 'KILL', 'TYPE', 'pubsub'))
    await ears.expectHearing()
    ears.stop()
  })

  it('all listeners of a process, and its consumers, share one connection', async () => {
    await using server = await startRedis()
    const board = await openBoard(server.url)
    const connections = async () =>
      (await server.cli('CLIENT', 'LIST', 'TYPE', 'pubsub')).split('\n').filter(Boolean)
    const unwatch = opened[0]!.watch('t', {
      wake: () => {},
      fence: () => {},
      limit: () => {},
      missed: () => {},
    })
    const ends = Array.from({ length: 3 }, () => board.listen(() => {}))
    await expect.poll(() => listeners(server)).toBe(1)
    expect(await connections()).toHaveLength(1)
    await board.close()
    await expect.poll(() => listeners(server)).toBe(0)
    for (const end of [...ends, unwatch]) end()
  })

  it("databases of one Redis do not get each other's messages", async () => {
    await using server = await startRedis()
    const one = await openBoard(`${server.url}/1`)
    const zero = await openBoard(server.url)
    const ears = await Ears.open(one, one)
    await ears.expectSilence('another database', () => zero.beat(card('a')))
    await ears.expectHearing()
    expect(await one.cards()).toEqual([])
    ears.stop()
  })
})
