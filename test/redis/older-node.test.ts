/**
 * Nodes of two versions on one Redis, as in a rolling restart. The older version knows only format 1 of a cell, in which
 * the held tasks are stored one by one (lua/shared/claims.lua).
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { systemRandom } from '../../src/random.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import type { NewEntry } from '../../src/timetable.ts'
import { openRedis } from '../../src/timetables/redis/open.ts'
import { loadScripts } from '../../src/timetables/redis/scripts.ts'
import type { RedisTimetable } from '../../src/timetables/redis/timetable.ts'
import { card } from '../contract/board/helpers.ts'
import { readWith } from '../planted/lua.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

const AT = { topic: 't', cell: 3 }
const LEASE_MS = 60_000

let server: RedisServer
let opened = 0
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

/** An older node, which refuses any format but the first, and a node of this version on the same keys. */
class Nodes {
  readonly older: RedisTimetable
  readonly newer: RedisTimetable
  readonly #prefix: string

  private constructor(older: RedisTimetable, newer: RedisTimetable, prefix: string) {
    this.older = older
    this.newer = newer
    this.#prefix = prefix
  }

  static async open(): Promise<Nodes> {
    const prefix = `older-${++opened}`
    const open = (scripts = loadScripts()) =>
      openRedis(
        { url: server.url },
        { prefix, callTimeoutMs: 5_000, waitReplicas: 0 },
        { clock: systemClock, random: systemRandom, logger: silentLogger, scripts },
      )
    const first = readWith({ name: 'format 1', file: 'shared/cell', from: 'MAX = 2', to: 'MAX = 1' })
    return new Nodes(await open(loadScripts(first)), await open(), prefix)
  }

  /** The format of the cell, and the names of its keys about claims. */
  async cell(): Promise<{ format: string; claims: string[] }> {
    const key = (name: string) => `${this.#prefix}:{t:3}:${name}`
    const claims: string[] = []
    for (const name of ['records', 'prepare', 'leases'])
      if ((await server.cli('EXISTS', key(name))).trim() === '1') claims.push(name)
    return { format: (await server.cli('HGET', key('meta'), 'format')).trim(), claims }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.older.close(), this.newer.close()])
  }
}

function schedule(timetable: RedisTimetable, keys: readonly string[]) {
  const entries = keys.map((key): NewEntry => ({
    key,
    cell: AT.cell,
    body: '{}',
    when: { kind: 'delay', ms: 0 },
    priority: 'normal',
    tags: null,
    onConflict: 'replace',
  }))
  return timetable.schedule('t', entries, 0)
}

async function claim(timetable: RedisTimetable, req: string, limit: number, leaseMs = LEASE_MS) {
  const request = { req, limit, leaseMs, from: 'lanes', wholePrefixes: false } as const
  const claimed = await timetable.claim(AT, request)
  return { ...claimed, keys: claimed.tasks.map(({ key }) => key) }
}

const done = (keys: readonly string[], stamp: number) =>
  keys.map((key) => ({ key, stamp, outcome: { kind: 'done' } as const }))

describe('while a node of an older version is on the board', () => {
  it('a cell keeps the format that the older node can read, and both settle, extend and cancel', async () => {
    await using nodes = await Nodes.open()
    const { older, newer } = nodes
    // The card of the first version has no format.
    await server.cli('HSET', `older-${opened}:{board}:cards`, 'old', JSON.stringify(card('old')))
    await server.cli('HSET', `older-${opened}:{board}:beats`, 'old', '1 1 1')
    await newer.board.beat(card('new'))
    await newer.board.cards()
    await newer.board.beat(card('new'))
    await schedule(newer, ['a', 'b', 'c'])
    const { stamp } = await claim(newer, 'of the new', 3)
    expect(await nodes.cell()).toEqual({ format: '1', claims: ['prepare', 'leases'] })
    expect(await older.cancel('t', [{ key: 'a', cell: AT.cell }])).toEqual(['in-flight'])
    expect(await schedule(older, ['b'])).toMatchObject([{ outcome: 'replaced', inFlight: true }])
    expect(await newer.settle(AT, done(['a', 'b', 'c'], stamp))).toEqual(['settled', 'stale', 'settled'])
    expect((await claim(older, 'of the old', 3)).keys).toEqual(['b'])
  })
})

describe('what an older node left', () => {
  it('is settled, extended, cancelled and replaced by the node that follows it', async () => {
    await using nodes = await Nodes.open()
    const { older, newer } = nodes
    await schedule(older, ['a', 'b', 'c', 'd', 'e'])
    const { stamp } = await claim(older, 'old', 5)
    await newer.board.beat(card('new'))
    await schedule(newer, ['f', 'g'])
    const own = await claim(newer, 'new', 2)
    expect(await nodes.cell()).toEqual({ format: '2', claims: ['records', 'prepare', 'leases'] })
    expect(await newer.counts('t')).toMatchObject({ claimed: 7, pending: 0 })
    expect((await claim(newer, 'old', 5)).keys).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(await newer.extend(AT, 'old', LEASE_MS)).toBe('extended')
    const places = ['a', 'f'].map((key) => ({ key, cell: AT.cell }))
    expect(await newer.cancel('t', places)).toEqual(['in-flight', 'in-flight'])
    expect(await schedule(newer, ['b', 'g'])).toMatchObject([{ inFlight: true }, { inFlight: true }])
    // Both shapes in one call.
    const settlements = [...done(['c', 'b'], stamp), ...done(['f', 'g'], own.stamp), ...done(['d'], stamp)]
    const answers = await newer.settle(AT, settlements)
    expect(answers).toEqual(['settled', 'stale', 'settled', 'stale', 'settled'])
    expect((await claim(newer, 'old', 5)).keys).toEqual(['a', 'e'])
    expect(await newer.settle(AT, done(['a', 'e'], stamp))).toEqual(['settled', 'settled'])
    expect(await nodes.cell()).toEqual({ format: '2', claims: [] })
    expect((await claim(newer, 'again', 5)).keys).toEqual(['b', 'g'])
  })

  it('comes back after its lease, beside a record of the node that follows it', async () => {
    await using nodes = await Nodes.open()
    const { older, newer } = nodes
    await schedule(older, ['a', 'b', 'c'])
    const { stamp } = await claim(older, 'old', 3, 50)
    expect(await older.settle(AT, done(['b'], stamp))).toEqual(['settled'])
    await newer.board.beat(card('new'))
    await schedule(newer, ['d', 'e', 'f'])
    const own = await claim(newer, 'new', 3, 50)
    expect(await newer.settle(AT, done(['e'], own.stamp))).toEqual(['settled'])
    // Real time: the leases end.
    await sleep(100)
    expect((await claim(newer, 'rescue', 0)).rescued).toBe(4)
    expect(await nodes.cell()).toEqual({ format: '2', claims: [] })
    const views = await Promise.all(
      ['a', 'b', 'c', 'd', 'e', 'f'].map((key) => newer.get('t', { key, cell: AT.cell })),
    )
    expect(views.map((view) => view?.state ?? null)).toEqual([
      'pending',
      null,
      'pending',
      'pending',
      null,
      'pending',
    ])
  })
})

it('an older node that comes back to a cell with records is refused, and changes nothing', async () => {
  await using nodes = await Nodes.open()
  const { older, newer } = nodes
  await newer.board.beat(card('new'))
  await schedule(newer, ['a', 'b'])
  const { stamp } = await claim(newer, 'new', 2)
  const refused = { code: 'timetable-refused' }
  await expect(claim(older, 'old', 2)).rejects.toMatchObject(refused)
  await expect(schedule(older, ['a'])).rejects.toMatchObject(refused)
  await expect(older.cancel('t', [{ key: 'a', cell: AT.cell }])).rejects.toMatchObject(refused)
  await expect(older.settle(AT, done(['a'], stamp))).rejects.toMatchObject(refused)
  expect(await newer.settle(AT, done(['a', 'b'], stamp))).toEqual(['settled', 'settled'])
})
