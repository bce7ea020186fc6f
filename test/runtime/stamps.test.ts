/**
 * Two timetables that ring in one cell may give the same stamp, which is the ledger's token: the shared one and the spare
 * one of an outage, or one that was wiped and its successor. No task is handed out twice for that.
 */
import { describe, expect, it } from 'vitest'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { seededRandom } from '../contract/memory-harness.ts'
import { keysOf, keysOfOneCell, place } from '../contract/timetable/helpers.ts'
import { LEASE_MS, Lives, TOPIC } from './ledger-life.ts'
import { away, hintOf, instead } from './stand-in-tables.ts'

/** The timetable is wiped: it knows nothing, not even which stamps it gave. `stamps`: those that it gives from now on. */
function wiped(lives: Lives): { fresh: MemoryTimetable; stamps: number[] } {
  const fresh = new MemoryTimetable(lives.clock, seededRandom(2))
  const stamps: number[] = []
  lives.faults.table = {
    ...instead(fresh),
    async claim(...args) {
      const claim = await fresh.claim(...args)
      if (claim.tasks.length > 0) stamps.push(claim.stamp)
      return claim
    },
  }
  return { fresh, stamps }
}

describe('a timetable that was wiped gives a stamp once more', () => {
  it('a task that is held under it is not handed out again', async () => {
    await using lives = await Lives.begin()
    await lives.schedule('a')
    const first = await lives.claim('a')
    expect(keysOf(first.tasks)).toEqual(['a'])
    const { fresh, stamps } = wiped(lives)
    await fresh.put(TOPIC, [hintOf(lives, 'a')], 'set')
    // In the same millisecond, in the same cell: it cannot but be the same one.
    const second = await lives.claim('a')
    expect(stamps).toEqual([first.stamp])
    expect(second.tasks).toEqual([])
    // It rings again, under another stamp, and then the ledger can tell the two apart.
    expect((await lives.claim('a')).tasks).toEqual([])
    expect(stamps).toEqual([first.stamp, first.stamp + 1])
    expect(await lives.ledger.get(TOPIC, place('a'))).toMatchObject({ state: 'claimed', deliveries: 1 })
    expect(await lives.settle('a', first.stamp)).toBe('settled')
    expect(await lives.work(3 * LEASE_MS)).toEqual([])
    expect(await lives.audit()).toMatchObject({ balances: true, books: { scheduled: 1, done: 1 } })
  })

  it('others that ring under it come at once, under the next', async () => {
    await using lives = await Lives.begin()
    const [held = '', ...others] = keysOfOneCell(4)
    await lives.schedule(held)
    const first = await lives.claim(held)
    const { fresh } = wiped(lives)
    for (const key of others) await lives.schedule(key)
    await fresh.put(TOPIC, [hintOf(lives, held)], 'set')
    const refused = await lives.claim(held)
    expect(refused).toMatchObject({ tasks: [], stamp: first.stamp })
    // The puller is to claim again now, not when the next one rings.
    expect(refused.nextRingMs).toBe(refused.nowMs)
    const next = await lives.claim(held)
    expect(next.stamp).toBeGreaterThan(first.stamp)
    expect(keysOf(next.tasks).toSorted()).toEqual(others)
    expect(next.tasks.map(({ deliveries }) => deliveries)).toEqual([1, 1, 1])
    for (const key of others) expect(await lives.settle(key, next.stamp)).toBe('settled')
    expect(await lives.settle(held, first.stamp)).toBe('settled')
    expect(await lives.work(3 * LEASE_MS)).toEqual([])
  })

  it('a suspect that rings under it comes, too', async () => {
    await using lives = await Lives.begin()
    const [held = '', suspect = ''] = keysOfOneCell(2)
    await lives.schedule(held)
    const first = await lives.claim(held)
    const { fresh } = wiped(lives)
    await lives.schedule(suspect)
    await fresh.put(TOPIC, [{ ...hintOf(lives, suspect), isSuspect: true }], 'set')
    const refused = await lives.claim(suspect, { from: 'suspects', limit: 1 })
    expect(refused).toMatchObject({ tasks: [], stamp: first.stamp })
    expect(keysOf((await lives.claim(suspect, { from: 'suspects', limit: 1 })).tasks)).toEqual([suspect])
  })

  it('after its claim is over, it is a stamp like any other', async () => {
    await using lives = await Lives.begin()
    await lives.schedule('a')
    const first = await lives.claim('a')
    expect(await lives.settle('a', first.stamp)).toBe('settled')
    wiped(lives)
    await lives.schedule('a')
    const second = await lives.claim('a')
    expect(second.stamp).toBe(first.stamp)
    expect(keysOf(second.tasks)).toEqual(['a'])
    expect(await lives.settle('a', second.stamp)).toBe('settled')
  })

  it('a claim that took nothing does not keep its stamp', async () => {
    await using lives = await Lives.begin()
    await lives.table.put(TOPIC, [hintOf(lives, 'a')], 'set')
    // It rings and is refused: the ledger has no such task.
    const first = await lives.claim('a')
    expect(first.tasks).toEqual([])
    wiped(lives)
    await lives.schedule('a')
    const second = await lives.claim('a')
    expect(second.stamp).toBe(first.stamp)
    expect(keysOf(second.tasks)).toEqual(['a'])
  })

  it('while the answer to its first claim is lost: only a retry of that claim gets the task', async () => {
    await using lives = await Lives.begin()
    const { ledger } = lives
    await lives.schedule('a')
    lives.faults.ledger = {
      async claim(...args) {
        await ledger.claim(...args)
        throw new Error('the reply was lost')
      },
    }
    await expect(lives.claim('a', { req: 'same' })).rejects.toThrow('lost')
    lives.faults.ledger = {}
    const { fresh } = wiped(lives)
    await fresh.put(TOPIC, [hintOf(lives, 'a')], 'set')
    expect((await lives.claim('a')).tasks).toEqual([])
    lives.faults.table = {}
    const repeated = await lives.claim('a', { req: 'same' })
    expect(repeated.tasks).toMatchObject([{ key: 'a', deliveries: 1 }])
    expect(await lives.settle('a', repeated.stamp)).toBe('settled')
  })

  it('a claim whose lease is extended keeps its stamp, however long it lasts', async () => {
    await using lives = await Lives.begin()
    await lives.schedule('a')
    const { stamp } = await lives.claim('a', { req: 'kept' })
    const { cell } = place('a')
    for (let n = 0; n < 20; n++) {
      await lives.advance(LEASE_MS / 3)
      expect(await lives.store.extend({ topic: TOPIC, cell }, 'kept', LEASE_MS)).toBe('extended')
    }
    // One whose clock is behind that of the one before: it comes to the same stamp minutes later.
    const { fresh } = wiped(lives)
    await fresh.put(TOPIC, [hintOf(lives, 'a')], 'set')
    lives.faults.table = {
      ...instead(fresh),
      claim: async (...args) => ({ ...(await fresh.claim(...args)), stamp }),
    }
    expect((await lives.claim('a')).tasks).toEqual([])
    lives.faults.table = {}
    expect(await lives.settle('a', stamp)).toBe('settled')
  })
})

describe('the spare timetable of an outage gives a stamp of the shared one', () => {
  it('while the ledger is asked for the first claim: the task is handed out once', async () => {
    await using lives = await Lives.begin({ shared: true })
    const { ledger } = lives
    await lives.schedule('a')
    await lives.turns()
    let goOn = () => {}
    const held = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const tokens: number[] = []
    lives.faults.ledger = {
      async claim(topic, request, places) {
        tokens.push(request.stamp)
        // The first one is under way for a while: the task is free in the ledger, and for every reader.
        if (tokens.length === 1) await held
        return ledger.claim(topic, request, places)
      },
    }
    const claiming = lives.claim('a')
    await lives.turns()
    expect(tokens).toHaveLength(1)
    lives.faults.table = away()
    // Notices that it is away; the spare one is filled from the ledger, where the task still waits.
    await lives.schedule('other', { delayMs: 3_600_000 })
    await lives.turns()
    const onSpare = await lives.claim('a')
    expect(onSpare.stamp).toBe(tokens[0])
    goOn()
    const first = await claiming
    const handedOut = [...keysOf(first.tasks), ...keysOf(onSpare.tasks)]
    expect(handedOut).toEqual(['a'])
    // And no token was said for two requests.
    expect(new Set(tokens).size).toBe(tokens.length)
    expect(await lives.settle('a', first.stamp)).toBe('settled')
    lives.faults.table = {}
    expect(await lives.work(3 * LEASE_MS)).toEqual([])
    expect(await lives.audit()).toMatchObject({
      balances: true,
      books: { scheduled: 2, done: 1, pending: 1 },
    })
  })
})
