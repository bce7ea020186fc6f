/** What the contract does not ask of a shared ledger: several sessions, and transactions of callers and handlers. */
import { beforeEach, describe, expect, test } from 'vitest'
import type { ClaimVerdict, Ledger, LedgerSettlement } from '../../src/ledger.ts'
import type { Place } from '../../src/timetable.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { WriteOptions } from '../../src/api/topic.ts'
import {
  DEAD,
  DONE,
  entry,
  FAR_MS,
  keysOf,
  only,
  place,
  retryIn,
  seededFraction,
} from '../contract/timetable/helpers.ts'
import { SharedLedger, type SharedSession, type SharedTx } from './shared-ledger/shared-ledger.ts'

const TOPIC = 'shared'
const LEASE_MS = 60_000
const NEVER = new AbortController().signal
const LOCKED = { code: 'ledger-unavailable', message: expect.stringContaining('another transaction') }

let clock: VirtualClock
let server: SharedLedger
let one: SharedSession
let other: SharedSession

beforeEach(() => {
  clock = new VirtualClock(Date.UTC(2026, 0, 1))
  server = new SharedLedger(clock)
  one = server.connect()
  other = server.connect()
})

const places = (keys: readonly string[]): Place[] => keys.map((key) => place(key))
const put = (ledger: Pick<Ledger, 'schedule'>, ...keys: string[]) =>
  ledger.schedule(
    TOPIC,
    keys.map((key) => entry(key)),
    0,
  )

function claim(
  ledger: Ledger,
  keys: readonly string[],
  { stamp = 1, leaseMs = LEASE_MS, alone = false } = {},
): Promise<ClaimVerdict[]> {
  return ledger.claim(TOPIC, { stamp, leaseMs, nowMs: clock.now(), alone }, places(keys))
}

const kinds = (verdicts: readonly ClaimVerdict[]) => verdicts.map(({ kind }) => kind)
const settlement = (key: string, outcome: LedgerSettlement['outcome'] = DONE, stamp = 1) => ({
  ...place(key),
  stamp,
  outcome,
})

function pass(ms: number): void {
  clock.moveTo(clock.monotonicNow() + ms)
}

async function expectBalance(): Promise<void> {
  const { books, counted } = await one.recount(TOPIC)
  const { scheduled, purged, ...rest } = books
  expect(counted).toEqual(rest)
  expect(Object.values(rest).reduce((sum, count) => sum + count, purged)).toBe(scheduled)
}

/** All that can be seen. */
async function seen(ledger: Ledger = other): Promise<unknown> {
  return { rows: server.snapshot(TOPIC), books: await ledger.books(TOPIC), locks: server.lockCount }
}

describe('sessions', () => {
  test('each has a number of its own, and no id is given twice', async () => {
    expect(other.session).toBe(one.session + 1)
    await put(one, 'a')
    await put(other, 'b')
    await put(other, 'a')
    const ids = server.snapshot(TOPIC).live.map(({ generation }) => generation)
    expect(new Set(ids).size).toBe(2)
  })

  test('what one holds is held for the other until the lease is over; the losses of both are counted', async () => {
    await put(one, 'a')
    expect(kinds(await claim(one, ['a']))).toEqual(['ours'])
    expect(await claim(other, ['a'])).toEqual([{ kind: 'held', leaseEndInMs: LEASE_MS }])
    pass(LEASE_MS - 1)
    expect(await claim(other, ['a'])).toEqual([{ kind: 'held', leaseEndInMs: 1 }])
    pass(1)
    expect(await claim(other, ['a'])).toMatchObject([{ kind: 'ours', task: { deliveries: 2 } }])
    pass(LEASE_MS)
    expect(kinds(await claim(one, ['a'], { stamp: 2 }))).toEqual(['suspect'])
    expect(kinds(await claim(one, ['a'], { stamp: 3, alone: true }))).toEqual(['ours'])
    expect(await one.begin(TOPIC, place('a'), 3)).toBe(true)
    pass(LEASE_MS)
    expect(kinds(await claim(other, ['a'], { stamp: 4 }))).toEqual(['poison'])
    await expectBalance()
  })

  test("a step of the server's wall clock ends no lease", async () => {
    let [nowMs, steadyMs] = [1_000_000, 0]
    const stepping = new SharedLedger({ now: () => nowMs, monotonicNow: () => steadyMs })
    const [a, b] = [stepping.connect(), stepping.connect()]
    const request = { stamp: 1, leaseMs: LEASE_MS, nowMs: 10 * nowMs, alone: false }
    await put(a, 'a')
    await a.claim(TOPIC, request, places(['a']))
    nowMs *= 2
    expect(kinds(await b.claim(TOPIC, request, places(['a'])))).toEqual(['held'])
    expect(b.clockMs()).toBe(2_000_000)
    steadyMs = LEASE_MS
    expect(kinds(await b.claim(TOPIC, request, places(['a'])))).toEqual(['ours'])
  })

  test("one's stamp is nothing in the other's hands", async () => {
    await put(one, 'a')
    await claim(one, ['a'])
    expect(await other.settle(TOPIC, [settlement('a')])).toEqual([{ answer: 'stale', hint: null }])
    expect(await other.extend(TOPIC, places(['a']), 1, LEASE_MS)).toEqual(['stale'])
    expect(await other.begin(TOPIC, place('a'), 1)).toBe(false)
    expect(kinds(await claim(other, ['a']))).toEqual(['held'])
    expect(await one.settle(TOPIC, [settlement('a')])).toMatchObject([{ answer: 'settled' }])
  })

  test('a session that ends frees nothing, and can do nothing any more', async () => {
    await put(one, 'a')
    await claim(one, ['a'])
    one.crash()
    expect(kinds(await claim(server.connect(), ['a']))).toEqual(['held'])
    await expect(one.settle(TOPIC, [settlement('a')])).rejects.toMatchObject({ code: 'ledger-unavailable' })
    await expect(one.transact(async () => true, NEVER)).rejects.toMatchObject({ code: 'ledger-unavailable' })
  })

  test('a call has taken effect when it returns its promise', () => {
    void put(one, 'a')
    expect(keysOf(server.snapshot(TOPIC).live)).toEqual(['a'])
    void claim(other, ['a'])
    expect(server.snapshot(TOPIC).live).toMatchObject([{ session: other.session }])
    void other.settle(TOPIC, [settlement('a')])
    expect(keysOf(server.snapshot(TOPIC).ended)).toEqual(['a'])
  })
})

describe("a caller's transaction", () => {
  let tx: SharedTx
  beforeEach(() => {
    tx = server.begin()
  })

  test('is what the face of Tocsin takes', () => {
    const options: WriteOptions = { tx }
    expect(one.within(options.tx).ended).toBeNull()
    expect(one.within(options.tx).isSynchronous).toBe(false)
  })

  test('is seen by itself alone, until it commits; then all at once', async () => {
    await put(one, 'moved', 'gone')
    const before = await seen()
    const mine = one.within(tx)
    expect(await put(mine, 'new')).toMatchObject([{ outcome: 'created' }])
    expect(await put(mine, 'new')).toMatchObject([{ outcome: 'replaced' }])
    expect(await mine.cancel(TOPIC, places(['gone']))).toEqual(['cancelled'])
    expect(await mine.cancel(TOPIC, places(['gone']))).toEqual(['not-found'])
    const later = { kind: 'shift', ms: FAR_MS } as const
    expect(await mine.reschedule(TOPIC, places(['moved']), later, 0)).toMatchObject([
      { outcome: 'rescheduled' },
    ])
    expect(await seen()).toEqual({ ...(before as object), locks: 3 })
    for (const ledger of [one, other]) {
      expect(await ledger.get(TOPIC, place('new'))).toBeNull()
      expect(await ledger.get(TOPIC, place('gone'))).toMatchObject({ state: 'pending' })
    }
    tx.commit()
    expect(tx.isOpen).toBe(false)
    expect(await other.books(TOPIC)).toMatchObject({ scheduled: 3, pending: 2, cancelled: 1 })
    expect(await other.get(TOPIC, place('moved'))).toMatchObject({ dueMs: clock.now() + FAR_MS })
    expect(kinds(await claim(other, ['new', 'gone', 'moved']))).toEqual(['ours', 'gone', 'later'])
    expect(server.lockCount).toBe(0)
    await expectBalance()
  })

  test('leaves nothing when it is rolled back, nor when the server goes down', async () => {
    await put(one, 'a')
    const before = await seen()
    for (const undo of [() => tx.rollback(), () => server.restart()]) {
      tx = server.begin()
      await put(one.within(tx), 'a', 'b')
      await one.within(tx).cancel(TOPIC, places(['a']))
      undo()
      expect(tx.isOpen).toBe(false)
      expect(await seen()).toEqual(before)
      expect(await one.committedWrites(TOPIC)).toEqual([])
    }
  })

  test('sees what others have committed meanwhile', async () => {
    await put(one.within(tx), 'a')
    await put(other, 'b')
    expect(await one.within(tx).cancel(TOPIC, places(['b']))).toEqual(['cancelled'])
    tx.commit()
    await expectBalance()
  })

  test('cancels and moves whatever is selected, its own included', async () => {
    await one.schedule(TOPIC, [entry('a', { tags: ['x'] }), entry('b')], 0)
    const mine = one.within(tx)
    await mine.schedule(TOPIC, [entry('c', { tags: ['x'] })], 0)
    const cells = [...new Set(places(['a', 'b', 'c']).map(({ cell }) => cell))]
    const moved = await mine.rescheduleBy(TOPIC, cells, { tag: 'x' }, { kind: 'delay', ms: FAR_MS }, 0)
    expect(keysOf(moved.places).toSorted()).toEqual(['a', 'c'])
    const { places: found, answers } = await mine.cancelBy(TOPIC, cells, { all: true })
    expect(keysOf(found).toSorted()).toEqual(['a', 'b', 'c'])
    expect(answers).toEqual(['cancelled', 'cancelled', 'cancelled'])
    tx.commit()
    expect(server.snapshot(TOPIC).live).toEqual([])
    await expectBalance()
  })

  test('locks what it wrote: claims pass over it, other writes of any session are refused whole', async () => {
    await put(one, 'a', 'b')
    await one.within(tx).reschedule(TOPIC, places(['a']), { kind: 'shift', ms: 0 }, 0)
    const before = await seen()
    const second = server.begin()
    for (const ledger of [one, other, other.within(second)]) {
      await expect(put(ledger, 'new', 'a')).rejects.toMatchObject(LOCKED)
      if (ledger !== one && ledger !== other) continue
      await expect(ledger.cancel(TOPIC, places(['b', 'a']))).rejects.toMatchObject(LOCKED)
      await expect(
        ledger.reschedule(TOPIC, places(['b', 'a']), { kind: 'shift', ms: 1 }, 0),
      ).rejects.toMatchObject(LOCKED)
    }
    expect(await seen()).toEqual(before)
    second.rollback()
    expect(await claim(other, ['a', 'b'])).toMatchObject([
      { kind: 'held', leaseEndInMs: 300 },
      { kind: 'ours' },
    ])
    tx.rollback()
    expect(kinds(await claim(other, ['a']))).toEqual(['ours'])
    await expectBalance()
  })

  test('locks the keys that it inserts; for all who do not, they are not there', async () => {
    await put(one.within(tx), 'a')
    await expect(put(other, 'a')).rejects.toMatchObject(LOCKED)
    expect(await other.cancel(TOPIC, places(['a']))).toEqual(['not-found'])
    expect(kinds(await claim(other, ['a']))).toEqual(['gone'])
    expect(await other.hints(TOPIC, places(['a']))).toEqual([null])
    tx.rollback()
    expect(await put(other, 'a')).toMatchObject([{ outcome: 'created' }])
  })

  test('holds up settling, prolonging and starting what is held, and nothing else of the call', async () => {
    await put(one, 'a', 'b')
    await claim(one, ['a', 'b'])
    expect(await other.within(tx).cancel(TOPIC, places(['a']))).toEqual(['in-flight'])
    await expect(one.settle(TOPIC, [settlement('a')])).rejects.toMatchObject(LOCKED)
    await expect(one.begin(TOPIC, place('a'), 1)).rejects.toMatchObject(LOCKED)
    expect(await one.extend(TOPIC, places(['a', 'b']), 1, LEASE_MS)).toEqual(['locked', 'extended'])
    // A caller that does not hold the task does not wait.
    expect(await other.settle(TOPIC, [settlement('a')])).toMatchObject([{ answer: 'stale' }])
    await expect(one.settle(TOPIC, [settlement('b'), settlement('a')])).rejects.toMatchObject({
      code: 'interrupted',
      details: { accepted: 1, inAll: 1 },
    })
    expect(await one.get(TOPIC, place('b'))).toMatchObject({ state: 'done' })
    tx.commit()
    expect(await one.settle(TOPIC, [settlement('b'), settlement('a', retryIn(0))])).toEqual([
      { answer: 'stale', hint: null },
      { answer: 'settled', hint: null },
    ])
    expect(await one.get(TOPIC, place('a'))).toMatchObject({ state: 'cancelled' })
    await expectBalance()
  })

  test('is spoiled by a statement that fails: all is undone at once, and nothing is taken any more', async () => {
    await put(one, 'a')
    await one.within(tx).cancel(TOPIC, places(['a']))
    const second = server.begin()
    await put(other.within(second), 'b')
    await expect(put(other.within(second), 'a')).rejects.toMatchObject(LOCKED)
    expect(await put(one, 'b')).toMatchObject([{ outcome: 'created' }])
    expect(second.isOpen).toBe(true)
    await expect(put(other.within(second), 'c')).rejects.toMatchObject({ code: 'bad-tx' })
    expect(() => second.commit()).toThrow(/rolled back/)
    expect(second.isOpen).toBe(false)
    tx.commit()
    expect(await one.books(TOPIC)).toMatchObject({ scheduled: 2, cancelled: 1, pending: 1 })
  })

  test('is refused when it is over, is another server’s, or is none', async () => {
    tx.commit()
    await expect(put(one.within(tx), 'a')).rejects.toMatchObject({ code: 'bad-tx' })
    expect(() => tx.commit()).toThrow(/no transaction is open/)
    for (const bad of [new SharedLedger(clock).begin(), null, {}, { query() {} }])
      expect(() => one.within(bad)).toThrow(/tx: /)
  })
})

describe('committed writes', () => {
  test('what transactions wrote is told when they commit, each place to one who asks', async () => {
    await put(one, 'own', 'gone')
    const tx = server.begin()
    await put(one.within(tx), 'a', 'b')
    await one.within(tx).cancel(TOPIC, places(['gone']))
    expect(await other.committedWrites(TOPIC)).toEqual([])
    tx.commit()
    expect(await other.committedWrites(TOPIC)).toEqual(places(['a', 'b', 'gone']))
    expect(await one.committedWrites(TOPIC)).toEqual([])
    expect(await one.committedWrites('unknown')).toEqual([])
  })

  test('at most 1,000 a call', async () => {
    const tx = server.begin()
    await put(one.within(tx), ...Array.from({ length: 2_500 }, (_, n) => `k${n}`))
    tx.commit()
    const told = [
      await one.committedWrites(TOPIC),
      await other.committedWrites(TOPIC),
      await one.committedWrites(TOPIC),
    ]
    expect(told.map(({ length }) => length)).toEqual([1_000, 1_000, 500])
    expect(new Set(told.flat().map(({ key }) => key)).size).toBe(2_500)
  })
})

describe('listening', () => {
  test('all are told of what rings within two seconds: at once, or when its transaction commits', async () => {
    const heard: string[] = []
    const unlisten = one.listen((topic) => heard.push(`one ${topic}`))
    other.listen((topic) => heard.push(`other ${topic}`))
    const told = () => heard.splice(0)
    void one.schedule(TOPIC, [entry('near', { delayMs: 2_000 })], 0)
    expect(told()).toEqual([`one ${TOPIC}`, `other ${TOPIC}`])
    await one.schedule(TOPIC, [entry('far', { delayMs: 2_001 })], 0)
    expect(told()).toEqual([])
    const tx = server.begin()
    await one.within(tx).schedule(TOPIC, [entry('a', { delayMs: FAR_MS })], 0)
    await one.within(tx).reschedule(TOPIC, places(['a']), { kind: 'delay', ms: 0 }, 0)
    await put(one.within(tx), 'b')
    expect(told()).toEqual([])
    tx.commit()
    expect(told()).toEqual([`one ${TOPIC}`, `other ${TOPIC}`])
    unlisten()
    await one.reschedule(TOPIC, places(['far']), { kind: 'delay', ms: 1 }, 0)
    expect(told()).toEqual([`other ${TOPIC}`])
    await put(server.connect({ tellWithinMs: 0 }), 'c')
    const undone = server.begin()
    await put(one.within(undone), 'd')
    undone.rollback()
    other.crash()
    await put(one, 'e')
    expect(told()).toEqual([])
  })

  test('a replay is told of, too', async () => {
    await put(one, 'a')
    await claim(one, ['a'])
    await one.settle(TOPIC, [settlement('a', DEAD)])
    const heard: (string | null)[] = []
    other.listen((topic) => heard.push(topic))
    await one.replay(TOPIC, places(['a', 'never']))
    expect(heard).toEqual([TOPIC])
  })
})

describe("a handler's transaction", () => {
  beforeEach(async () => {
    await put(one, 'a')
    await claim(one, ['a'])
  })

  test('outcome and writes commit together when the work answers true', async () => {
    const isCommitted = await one.transact(async ({ tx, settle, hold }) => {
      expect(await hold(TOPIC, [settlement('a')])).toBe(true)
      expect(await hold(TOPIC, [settlement('a'), settlement('a', DONE, 9)])).toBe(false)
      await put(one.within(tx), 'next')
      expect(await settle(TOPIC, [settlement('a'), settlement('a')])).toMatchObject([
        { answer: 'settled' },
        { answer: 'stale' },
      ])
      expect(await other.books(TOPIC)).toMatchObject({ scheduled: 1, claimed: 1 })
      await expect(other.cancel(TOPIC, places(['a']))).rejects.toMatchObject(LOCKED)
      return true
    }, NEVER)
    expect(isCommitted).toBe(true)
    expect(await other.books(TOPIC)).toMatchObject({ scheduled: 2, done: 1, pending: 1, claimed: 0 })
    expect(await other.committedWrites(TOPIC)).toEqual(places(['next']))
    expect(server.lockCount).toBe(0)
    await expectBalance()
  })

  test('otherwise nothing was done: it answers false, throws, or its process is gone', async () => {
    const before = await seen()
    const work = async ({ tx, settle }: Parameters<Parameters<SharedSession['transact']>[0]>[0]) => {
      await put(one.within(tx), 'next')
      await settle(TOPIC, [settlement('a')])
    }
    expect(await one.transact(async (given) => (await work(given), false), NEVER)).toBe(false)
    expect(await seen()).toEqual(before)
    const failing = one.transact(async (given) => {
      await work(given)
      throw new Error('the handler’s')
    }, NEVER)
    await expect(failing).rejects.toThrow('the handler’s')
    expect(await seen()).toEqual(before)
    expect(await one.transact(() => Promise.reject(new Error('never')), AbortSignal.abort())).toBe(false)
    const dying = one.transact(async (given) => {
      await work(given)
      one.crash()
      return true
    }, NEVER)
    await expect(dying).rejects.toMatchObject({ code: 'ledger-unavailable' })
    expect(await seen()).toEqual(before)
  })

  test('its end is not the handler’s to say', async () => {
    await one.transact(async ({ tx }) => {
      expect(() => (tx as unknown as SharedTx).commit()).toThrow(/not for the handler/)
      expect(() => (tx as unknown as SharedTx).rollback()).toThrow(/not for the handler/)
      return true
    }, NEVER)
  })

  test('a lock that it meets undoes all of it, though the handler caught the error', async () => {
    const tx = server.begin()
    await put(other.within(tx), 'next')
    const done = one.transact(async (given) => {
      await put(one.within(given.tx), 'mine', 'next').catch(() => {})
      return true
    }, NEVER)
    await expect(done).rejects.toMatchObject({ code: 'ledger-refused' })
    tx.rollback()
    expect(keysOf(server.snapshot(TOPIC).live)).toEqual(['a'])
  })

  test('of what another transaction holds, only done and obsolete fail; the rest is stale', async () => {
    const tx = server.begin()
    await other.within(tx).cancel(TOPIC, places(['a']))
    const settledAs = (outcome: LedgerSettlement['outcome']) =>
      one.transact(async ({ settle }) => {
        const { answer } = only(await settle(TOPIC, [settlement('a', outcome)]))
        return answer === 'settled'
      }, NEVER)
    await expect(settledAs(DONE)).rejects.toMatchObject(LOCKED)
    expect(await settledAs(retryIn(0))).toBe(false)
    tx.rollback()
    expect(await settledAs(DEAD)).toBe(true)
    await expectBalance()
  })

  test('a dead task that it wrote cannot be purged by another transaction before its end', async () => {
    await one.settle(TOPIC, [settlement('a', DEAD)])
    await put(one, 'a')
    await claim(one, ['a'], { stamp: 2 })
    await one.transact(async ({ settle }) => {
      await settle(TOPIC, [settlement('a', DEAD, 2)])
      await expect(other.purge(TOPIC, places(['a']))).rejects.toMatchObject(LOCKED)
      await expect(other.replay(TOPIC, places(['a']))).rejects.toMatchObject(LOCKED)
      const all = { endedBeforeMs: Infinity, deadBeforeMs: Infinity, deadMax: 0, limit: 10 }
      expect(await other.forget(TOPIC, all)).toEqual({ ended: 0, dead: 0 })
      return true
    }, NEVER)
    expect(await one.books(TOPIC)).toMatchObject({ scheduled: 2, dead: 1, purged: 1 })
    expect(await other.purge(TOPIC, places(['a']))).toEqual(['purged'])
    await expectBalance()
  })
})

describe('by chance', () => {
  const KEYS = Array.from({ length: 12 }, (_, n) => `k${n}`)
  const OUTCOMES: readonly LedgerSettlement['outcome'][] = [
    DONE,
    DEAD,
    retryIn(0),
    { kind: 'return' },
    { kind: 'lost', spread: 0.3 },
  ]

  /** Sessions and transactions at the same keys. Answers all that was told. */
  async function chaos(seed: number, steps: number): Promise<unknown[]> {
    const fraction = seededFraction(seed)
    const oneOf = <T>(values: readonly T[]): T => values[Math.floor(fraction() * values.length)] as T
    const sessions = [one, other, server.connect()]
    const open: SharedTx[] = []
    const told: unknown[] = []
    const holders = new Map<string, { session: SharedSession; stamp: number }>()
    for (let step = 0; step < steps; step++) {
      const [ledger, key] = [oneOf(sessions), oneOf(KEYS)]
      const mine = fraction() < 0.4 && open.length > 0 ? ledger.within(oneOf(open)) : ledger
      const holder = holders.get(key)
      const steps: (() => unknown)[] = [
        () => mine.schedule(TOPIC, [entry(key, { onConflict: oneOf(['keep', 'replace']) })], 0),
        () => mine.cancel(TOPIC, places([key, oneOf(KEYS)])),
        () => mine.reschedule(TOPIC, places([key]), { kind: 'delay', ms: oneOf([0, 100]) }, 0),
        async () => {
          const verdict = only(
            await claim(ledger, [key], { stamp: step, leaseMs: 150, alone: step % 5 === 0 }),
          )
          if (verdict.kind === 'ours') holders.set(key, { session: ledger, stamp: step })
          return verdict
        },
        () => holder?.session.settle(TOPIC, [settlement(key, oneOf(OUTCOMES), holder.stamp)]),
        () => holder?.session.begin(TOPIC, place(key), holder.stamp),
        () => holder?.session.extend(TOPIC, places([key]), holder.stamp, 200),
        () => ledger.replay(TOPIC, places([key])),
        () => ledger.purge(TOPIC, places([key])),
        () => ledger.committedWrites(TOPIC),
        () => ledger.load(TOPIC, null, clock.now(), 5),
        () => pass(oneOf([1, 50, 200])),
        () => open.length < 3 && open.push(server.begin()),
        () => {
          const [ended] = open.splice(Math.floor(fraction() * open.length), 1)
          return fraction() < 0.5 ? ended?.rollback() : ended?.commit()
        },
        () =>
          holder?.session.transact(async ({ tx, settle }) => {
            await put(ledger.within(tx), oneOf(KEYS))
            await settle(TOPIC, [settlement(key, oneOf(OUTCOMES), holder.stamp)])
            return fraction() < 0.7
          }, NEVER),
      ]
      try {
        told.push(await oneOf(steps)())
      } catch (error) {
        told.push((error as { code?: string }).code)
      }
      await expectBalance()
    }
    for (const tx of open) tx.rollback()
    expect(server.lockCount).toBe(0)
    return told
  }

  test.each([1, 2, 3, 4])('the books balance at every step, and no lock is left (seed %i)', async (seed) => {
    const told = await chaos(seed, 1_500)
    const codes = new Set(told.filter((one) => typeof one === 'string'))
    expect(codes).toContain('ledger-unavailable')
    expect(
      [...codes].every((code) => ['ledger-unavailable', 'ledger-refused', 'bad-tx'].includes(code)),
    ).toBe(true)
  })

  test('the same chances tell the same story', async () => {
    const first = await chaos(7, 500)
    clock = new VirtualClock(Date.UTC(2026, 0, 1))
    server = new SharedLedger(clock)
    ;[one, other] = [server.connect(), server.connect()]
    expect(await chaos(7, 500)).toEqual(first)
  })
})

describe('a crash', () => {
  beforeEach(() => {
    one.configure(TOPIC, () => ({ slotBy: 'key', mergeMs: 0, keepsEnded: true, fastClaims: true }))
  })
  const lost = () => server.crash(600).map(({ key }) => key)

  test('undoes claims of a topic with fast claims, and only of the process that has the setting', async () => {
    await put(one, 'a', 'b')
    await claim(other, ['b'])
    const before = server.snapshot(TOPIC)
    await claim(one, ['a'])
    expect(lost()).toEqual(['a'])
    expect(server.snapshot(TOPIC)).toEqual(before)
    expect((await one.recount(TOPIC)).books).toMatchObject({ pending: 1, claimed: 1 })
    expect(kinds(await claim(one, ['a', 'b'], { stamp: 2 }))).toEqual(['ours', 'held'])
  })

  test('undoes nothing that came before a commit that waited for the disk', async () => {
    await put(one, 'a', 'b')
    await claim(one, ['a'])
    await other.cancel(TOPIC, places(['b']))
    expect(lost()).toEqual([])
    await claim(one, ['a'])
    await one.settle(TOPIC, [settlement('a')])
    expect(lost()).toEqual([])
    expect(await one.get(TOPIC, place('a'))).toMatchObject({ state: 'done' })
  })

  test('undoes nothing that is older than 0.6 s, or than it is said to lose', async () => {
    await put(one, 'a', 'b')
    await claim(one, ['a'])
    pass(601)
    expect(lost()).toEqual([])
    await claim(one, ['b'])
    pass(300)
    expect(server.crash(200)).toEqual([])
  })

  test('does not undo a claim that counted a lost lease', async () => {
    await put(one, 'a')
    await claim(other, ['a'], { leaseMs: 1_000 })
    pass(1_001)
    await claim(one, ['a'], { stamp: 2 })
    expect(lost()).toEqual([])
  })
})
