import { describe, expect, it } from 'vitest'
import type { Board } from '../board.ts'
import { MemoryBoard } from '../boards/memory-board.ts'
import { TopicConfigs } from '../cluster/topic-configs.ts'
import type { ConfigView, TopicConfig } from '../values/config.ts'
import { TocsinError } from '../errors.ts'
import { Announcer } from '../telemetry/events.ts'
import { silentLogger } from '../telemetry/logger.ts'
import type { Random } from '../random.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { TopicSettings } from './topic-settings.ts'

let made = 0
const random: Random = { fraction: () => 0.5, uniqueId: () => `id-${++made}` }

/** Nodes that share a board; what a beat would bring them they hear when they are told to. */
function cluster({ isShared = true }: { isShared?: boolean } = {}) {
  const clock = new VirtualClock(0)
  const board = new MemoryBoard(clock, isShared)
  const node = async (code?: TopicConfig, through: Board = board) => {
    const configs = new TopicConfigs(through, clock, random, 'a node')
    await configs.refresh()
    const announcer = new Announcer(silentLogger)
    const drift: string[] = []
    announcer.on('drift', ({ field }) => void drift.push(field))
    const isDeclared = code !== undefined
    const settings = new TopicSettings('t', code ?? {}, isDeclared, configs, announcer, silentLogger)
    return { settings, drift, beat: () => configs.refresh() }
  }
  return { board, clock, node }
}

/** As it would be without a board's answer. */
function overlaid(board: Board, over: Partial<Board>): Board {
  return new Proxy(board, {
    get: (target, name) => {
      const value: unknown = Reflect.get(over, name) ?? Reflect.get(target, name)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

const failure = (work: Promise<unknown>) =>
  work.then(
    () => null,
    (error: unknown) => error,
  )

describe('what was declared for all', () => {
  it('creates the topic, and is in force wherever it is used by its name alone, with the next beat', async () => {
    const { board, node } = cluster()
    const [one, two] = [await node(), await node()]
    const heard: number[] = []
    two.settings.onChange(() => heard.push(two.settings.current.leaseMs))
    const view = await one.settings.declareForAll({ slots: 4, slotBy: 'prefix', lease: '90s' })
    const code = { slots: 4, slotBy: 'prefix', lease: '1m30s' }
    expect(view).toMatchObject({ version: 1, code, live: {}, paused: false, effective: code })
    expect(one.settings.current).toMatchObject({ slots: 4, slotBy: 'prefix', leaseMs: 90_000 })
    expect(two.settings.current).toMatchObject({ slots: 16, slotBy: 'key', leaseMs: 30_000 })
    await two.beat()
    expect(two.settings.view()).toEqual(view)
    expect(two.settings.current).toEqual(one.settings.current)
    expect(heard.at(-1)).toBe(90_000)
    expect(await board.history('t', 9)).toMatchObject([
      { version: 1, by: 'a node', patch: { declared: code } },
    ])
    expect([one.drift, two.drift]).toEqual([[], []])
  })

  it('is in force from the start for who comes later', async () => {
    const { node } = cluster()
    await (await node()).settings.declareForAll({ batchSize: 7, retry: { maxAttempts: 3 } })
    const later = await node()
    expect(later.settings.current.batchSize).toBe(7)
    expect(later.settings.current.retry).toMatchObject({ maxAttempts: 3, backoff: 'exponential' })
  })

  it('lies under what is set live, which is kept when it is declared anew', async () => {
    const { node } = cluster()
    const { settings, drift } = await node()
    await settings.declareForAll({ batchSize: 7, lease: '1m' })
    await settings.configure({ batchSize: 9 }, undefined)
    await settings.pause(true)
    expect(settings.view()).toMatchObject({ effective: { batchSize: 9, lease: '1m' }, paused: true })
    expect(drift).toEqual(['batchSize'])
    const view = await settings.declareForAll({ batchSize: 8 })
    // In full: of the lease it says nothing any more.
    expect(view).toMatchObject({ version: 4, code: { batchSize: 8 }, live: { batchSize: 9 }, paused: true })
    expect(view.effective).toMatchObject({ batchSize: 9, lease: '30s' })
    const back = await settings.configure({ batchSize: null }, undefined)
    expect(back).toMatchObject({ code: { batchSize: 8 }, effective: { batchSize: 8 } })
  })

  it('stands beside code: each process goes by its own, if it has any', async () => {
    const { node } = cluster()
    const [bare, declaring] = [await node(), await node({ batchSize: 100 })]
    await bare.settings.declareForAll({ batchSize: 7, lease: '1m' })
    await declaring.beat()
    expect(declaring.settings.view()).toMatchObject({ version: 1, code: { batchSize: 100 } })
    expect(declaring.settings.current).toMatchObject({ batchSize: 100, leaseMs: 30_000 })
    // Also who has code may be asked: the others go by it.
    const view = await declaring.settings.declareForAll({ batchSize: 8 })
    expect(view).toMatchObject({ version: 2, code: { batchSize: 100 } })
    await bare.beat()
    expect(bare.settings.current).toMatchObject({ batchSize: 8, leaseMs: 30_000 })
    bare.settings.declare({ lease: '2m' })
    expect(bare.settings.current).toMatchObject({ batchSize: 500, leaseMs: 120_000 })
  })

  it('said again, in whatever spelling and wherever, changes nothing', async () => {
    const { board, node } = cluster()
    const [one, two] = [await node(), await node()]
    await one.settings.declareForAll({ lease: '90s', batchSize: 7 })
    const again: Promise<ConfigView>[] = [one, two, two].map(({ settings }) =>
      settings.declareForAll({ batchSize: 7, lease: '1m30s', timeout: undefined }),
    )
    for (const view of await Promise.all(again)) expect(view.version).toBe(1)
    expect(await board.history('t', 9)).toHaveLength(1)
    // Another node declares another value, which the first has not read yet: then the same declaration is a change again.
    await two.settings.declareForAll({ batchSize: 8 })
    expect(await one.settings.declareForAll({ batchSize: 7, lease: '90s' })).toMatchObject({ version: 3 })
  })

  it('its number of slots counts when it creates the topic, and later is drift', async () => {
    const { node } = cluster()
    const { settings, drift } = await node()
    await settings.declareForAll({ slots: 4 })
    const view = await settings.declareForAll({ slots: 32 })
    expect(view).toMatchObject({ version: 2, code: { slots: 32 }, effective: { slots: 4 } })
    expect(drift).toEqual(['slots'])
  })

  it('is refused where it would place the tasks otherwise, and where it is wrong, and nothing changes', async () => {
    const { board, node } = cluster()
    const { settings } = await node()
    for (const [config, code] of [
      [{ retry: { min: '1m', max: '1s' } }, 'bad-config'],
      [{ lease: 'soon' }, 'bad-duration'],
      [{ leese: '1s' }, 'bad-config'],
      [null, 'bad-config'],
    ])
      expect(await failure(settings.declareForAll(config))).toMatchObject({ code })
    expect(await board.records()).toEqual([])
    await settings.declareForAll({ slotBy: 'prefix' })
    for (const config of [{ slotBy: 'key' }, { lease: '1s' }])
      expect(await failure(settings.declareForAll(config))).toMatchObject({
        code: 'bad-topic',
        details: { field: 'slotBy' },
      })
    expect(settings.view()).toMatchObject({ version: 1, code: { slotBy: 'prefix' } })
    // So is code that comes later.
    expect(() => settings.declare({ lease: '1s' })).toThrow(/created with slotBy 'prefix'/)
  })

  it('is refused where another node created it with another slotBy, which this one has not read yet', async () => {
    const { board, node } = cluster()
    const { settings } = await node()
    await board.create('t', 8, 'key')
    expect(await failure(settings.declareForAll({ slotBy: 'prefix' }))).toMatchObject({ code: 'bad-topic' })
    expect(settings.current).toMatchObject({ slots: 8, slotBy: 'key' })
    expect(await board.records()).toMatchObject([{ version: 0, declared: {} }])
  })

  it('is refused where the code of the process itself says otherwise', async () => {
    const { board, node } = cluster()
    const { settings } = await node({ slotBy: 'prefix', slots: 2 })
    expect(await failure(settings.declareForAll({ slotBy: 'key' }))).toMatchObject({ code: 'bad-topic' })
    expect(await board.records()).toMatchObject([{ version: 0, slots: 2, slotBy: 'prefix' }])
  })

  it('places what is written while it is being created, also on a board of one process', async () => {
    for (const isShared of [false, true]) {
      const { board, node } = cluster({ isShared })
      const { settings } = await node()
      const declaring = settings.declareForAll({ slotBy: 'prefix', slots: 2 })
      await Promise.resolve()
      // As a schedule by its name alone does.
      settings.create()
      expect(settings.current.slotBy).toBe('prefix')
      const another = settings.declareForAll({ slotBy: 'key' })
      expect(await declaring).toMatchObject({ version: 1 })
      expect(await failure(another)).toMatchObject({ code: 'bad-topic' })
      expect(await board.records()).toMatchObject([{ slots: 2, slotBy: 'prefix', declared: { slots: 2 } }])
    }
  })

  it('leaves nothing behind where the topic could not be created', async () => {
    const { board, node } = cluster()
    let isAway = true
    const away = overlaid(board, {
      create: (...args) =>
        isAway ? Promise.reject(new TocsinError('ledger-unavailable', 'it is away')) : board.create(...args),
    })
    const { settings } = await node(undefined, away)
    const declaration = { slotBy: 'prefix', batchSize: 7 }
    expect(await failure(settings.declareForAll(declaration))).toMatchObject({ code: 'ledger-unavailable' })
    expect(settings.current).toMatchObject({ slotBy: 'key', batchSize: 500 })
    isAway = false
    expect(await settings.declareForAll(declaration)).toMatchObject({ version: 1, code: declaration })
  })

  it('of two at once on two nodes both are made, and both nodes know the last', async () => {
    const { clock, board, node } = cluster()
    const [one, two] = [await node(), await node()]
    let isOver = false
    const both = Promise.all([
      one.settings.declareForAll({ batchSize: 1 }),
      two.settings.declareForAll({ batchSize: 2 }),
    ]).finally(() => (isOver = true))
    while (!isOver) {
      await clock.turn()
      clock.moveTo(clock.monotonicNow() + 10)
    }
    expect(new Set((await both).map(({ version }) => version))).toEqual(new Set([1, 2]))
    await Promise.all([one.beat(), two.beat()])
    const [record] = await board.records()
    expect(one.settings.view()).toMatchObject({ version: 2, code: record!.declared })
    expect(two.settings.view()).toEqual(one.settings.view())
  })
})
