/** A shared timetable becomes unreachable, returns, or loses data: the ledger is polled meanwhile, and no task is lost or fires twice. */
import { describe, expect, it } from 'vitest'
import type { HintTable } from '../../src/hint-table.ts'
import { keysOf, place } from '../contract/timetable/helpers.ts'
import { gate } from '../library/helpers.ts'
import { Lives, TOPIC } from './ledger-life.ts'
import { away } from './stand-in-tables.ts'

async function keysInTable(lives: Lives): Promise<string[]> {
  const keys: string[] = []
  for (let cell = 0; cell < 64; cell++)
    keys.push(...(await lives.table.find({ topic: TOPIC, cell }, 'live', { all: true }, null)).keys)
  return keys.toSorted()
}

describe('while the shared timetable is away', () => {
  it('what was scheduled before it and during it rings, late by a second or two at most, and once', async () => {
    await using lives = await Lives.begin({ shared: true })
    const due = new Map<string, number>()
    due.set('before', await lives.schedule('before', { delayMs: 5_000 }))
    lives.faults.table = away()
    due.set('during', await lives.schedule('during', { delayMs: 8_000 }))
    const delivered = await lives.work(20_000)
    expect(keysOf(delivered).toSorted()).toEqual(['before', 'during'])
    for (const { key, atMs } of delivered) {
      expect(atMs).toBeGreaterThanOrEqual(due.get(key) ?? Infinity)
      expect(atMs).toBeLessThanOrEqual((due.get(key) ?? 0) + 2_000)
    }
    lives.faults.table = {}
    expect(await lives.work(120_000)).toEqual([])
    expect(await lives.audit()).toMatchObject({ balances: true, books: { scheduled: 2, done: 2 } })
  })

  it('a cancel holds, and what was cancelled does not ring when it is back', async () => {
    await using lives = await Lives.begin({ shared: true })
    await lives.schedule('a', { delayMs: 30_000 })
    lives.faults.table = away()
    expect(await lives.cancel('a')).toBe('cancelled')
    await lives.work(5_000)
    lives.faults.table = {}
    expect(await lives.work(120_000)).toEqual([])
  })

  it('what was in flight when it went, and is settled during it, does not come again', async () => {
    await using lives = await Lives.begin({ shared: true })
    await lives.schedule('a')
    const { stamp } = await lives.claim('a')
    lives.faults.table = away()
    await lives.work(5_000)
    expect(await lives.settle('a', stamp)).toBe('settled')
    lives.faults.table = {}
    expect(await lives.work(120_000)).toEqual([])
  })
})

describe('when it is back', () => {
  it('it has all that was written while it was away', async () => {
    await using lives = await Lives.begin({ shared: true })
    lives.faults.table = away()
    for (let n = 0; n < 50; n++) await lives.schedule(`k${n}`, { delayMs: 60_000 + n })
    await lives.advance(3_000)
    expect(await keysInTable(lives)).toEqual([])
    lives.faults.table = {}
    await lives.advance(3_000)
    expect(await keysInTable(lives)).toHaveLength(50)
    const delivered = await lives.work(70_000)
    expect(new Set(keysOf(delivered)).size).toBe(50)
    expect(delivered).toHaveLength(50)
    expect(await lives.audit()).toMatchObject({ balances: true, missing: 0, orphaned: 0, rescued: 0 })
  })

  it('what is written while it is being filled does not miss it', async () => {
    await using lives = await Lives.begin({ shared: true })
    lives.faults.table = away()
    await lives.schedule('early', { delayMs: 60_000 })
    await lives.advance(3_000)
    // The reading has all, and is then held up: what is written now is behind it.
    const { ledger } = lives
    let goOn = () => {}
    const held = new Promise<void>((resolve) => {
      goOn = resolve
    })
    let isReading = false
    lives.faults.ledger = {
      async load(...args) {
        const page = await ledger.load(...args)
        isReading = true
        await held
        return page
      },
    }
    lives.faults.table = {}
    for (let n = 0; n < 5 && !isReading; n++) await lives.advance(1_000)
    expect(isReading).toBe(true)
    await lives.schedule('meanwhile', { delayMs: 50_000 })
    lives.faults.ledger = {}
    goOn()
    await lives.advance(3_000)
    expect(await keysInTable(lives)).toEqual(['early', 'meanwhile'])
  })

  it('and goes away again while it is filled: nothing is lost', async () => {
    await using lives = await Lives.begin({ shared: true })
    lives.faults.table = away()
    await lives.schedule('a', { delayMs: 20_000 })
    await lives.advance(2_000)
    const { put: _, ...others } = away()
    lives.faults.table = { put: away().put as HintTable['put'] }
    await lives.advance(3_000)
    lives.faults.table = { ...others }
    await lives.advance(2_000)
    lives.faults.table = {}
    expect(keysOf(await lives.work(60_000))).toEqual(['a'])
  })
})

describe('the log', () => {
  it('has one line when it goes away and one when it is back, also if a poll of the ledger is under way then', async () => {
    await using lives = await Lives.begin({ shared: true })
    const { ledger, clock } = lives
    const { passed, open } = gate()
    let isPolling = false
    lives.faults.table = away()
    lives.faults.ledger = {
      async load(topic, after, untilMs, limit) {
        const aheadMs = untilMs - clock.now()
        // A poll looks ahead by seconds. The sweeper does not, and the loader by an hour.
        if (aheadMs > 0 && aheadMs < 10_000) {
          isPolling = true
          await passed
        }
        return ledger.load(topic, after, untilMs, limit)
      },
    }
    await lives.advance(5_000)
    const whileAway = lives.log.words()
    lives.faults.table = {}
    await lives.advance(3_000)
    open()
    await lives.advance(3_000)
    expect(isPolling).toBe(true)
    expect(whileAway).toEqual(['degraded'])
    expect(lives.log.words()).toEqual(['degraded', 'recovered'])
  })
})

describe('a shared timetable that has forgotten', () => {
  it('is filled again, in the order of ring times, when its epoch is another one', async () => {
    await using lives = await Lives.begin({ shared: true })
    for (let n = 0; n < 30; n++) await lives.schedule(`k${n}`, { delayMs: 60_000 + n })
    await lives.table.drop(
      TOPIC,
      Array.from({ length: 30 }, (_, n) => place(`k${n}`)),
    )
    expect(await keysInTable(lives)).toEqual([])
    // Without a notification they are not noticed until they are overdue.
    await lives.advance(3_000)
    expect(await keysInTable(lives)).toEqual([])
    lives.faults.table = {
      filling: async () => ({ epoch: 'another', frontier: null }),
      filledTo: async () => true,
    }
    await lives.advance(3_000)
    expect(await keysInTable(lives)).toHaveLength(30)
  })

  it('changes its epoch while it is filled: it is filled once more, from the beginning', async () => {
    await using lives = await Lives.begin({ shared: true })
    await lives.schedule('a', { delayMs: 60_000 })
    await lives.table.drop(TOPIC, [place('a')])
    let epoch = 'second'
    lives.faults.table = {
      filling: async () => ({ epoch, frontier: null }),
      async filledTo() {
        if (epoch === 'third') return true
        await lives.table.drop(TOPIC, [place('a')])
        epoch = 'third'
        return false
      },
    }
    await lives.advance(5_000)
    expect(await keysInTable(lives)).toEqual(['a'])
  })
})

describe('a process that only writes', () => {
  it('puts what rings soon into a shared timetable, and nothing else', async () => {
    await using lives = await Lives.begin({ shared: true, watches: false })
    await lives.schedule('near', { delayMs: 60_000 })
    await lives.schedule('far', { delayMs: 24 * 3_600_000 })
    await lives.turns()
    expect(await keysInTable(lives)).toEqual(['near'])
    // Moved out of the window, its old hint must not ring, to be refused, for an hour.
    await lives.store.reschedule(TOPIC, [place('near')], { kind: 'delay', ms: 24 * 3_600_000 }, 0)
    await lives.turns()
    expect(await keysInTable(lives)).toEqual([])
  })
})

describe('a process that only writes', () => {
  it('tells the table of what it wrote during an outage, though it consumes nothing', async () => {
    await using lives = await Lives.begin({ shared: true, watches: false })
    lives.faults.table = away()
    await lives.schedule('a', { delayMs: 60_000 })
    lives.faults.table = {}
    await lives.advance(2_000)
    expect(await keysInTable(lives)).toEqual(['a'])
  })

  it('tells it also when the first try to fill the table failed', async () => {
    await using lives = await Lives.begin({ shared: true, watches: false })
    lives.faults.table = away()
    await lives.schedule('a', { delayMs: 60_000 })
    lives.faults.table = {}
    lives.faults.ledger = { load: () => Promise.reject(new Error('the ledger is busy')) }
    await lives.advance(2_000)
    expect(await keysInTable(lives)).toEqual([])
    lives.faults.ledger = {}
    await lives.advance(2_000)
    expect(await keysInTable(lives)).toEqual(['a'])
  })
})

it('after an outage the ledger is no longer polled', async () => {
  await using lives = await Lives.begin({ shared: true })
  lives.faults.table = away()
  await lives.schedule('a', { delayMs: 60_000 })
  await lives.advance(3_000)
  lives.faults.table = {}
  await lives.advance(3_000)
  const { ledger } = lives
  let pages = 0
  lives.faults.ledger = {
    load(topic, after, untilMs, limit) {
      // The sweeper asks for one task.
      if (limit > 1) pages++
      return ledger.load(topic, after, untilMs, limit)
    },
  }
  await lives.advance(10_000)
  expect(pages).toBe(0)
})
