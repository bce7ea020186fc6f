/**
 * A client with the token of a claim may settle or extend it through any process. Two of them share a ledger here, and
 * a timetable, or have one each.
 */
import { describe, expect, it } from 'vitest'
import { ALL_CELLS } from '../../src/values/cell.ts'
import { systemClock } from '../../src/clock.ts'
import { settingsOf } from '../../src/values/config.ts'
import type { Ledger } from '../../src/ledger.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import type { ClaimToken } from '../../src/store.ts'
import { ledgerClock } from '../../src/store/ledger-clock.ts'
import { LedgerStore } from '../../src/store/ledger-store.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { CellAddress, SettleOutcome } from '../../src/timetable.ts'
import type { HintTable } from '../../src/hint-table.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { seededRandom } from '../contract/memory-harness.ts'
import {
  DONE,
  entry,
  keysOf,
  keysOfOneCell,
  only,
  place,
  RETURN,
  retryIn,
} from '../contract/timetable/helpers.ts'
import { overlaid } from '../simulation/recorded-timetable.ts'
import { SharedLedger, type SharedSession } from '../simulation/shared-ledger/shared-ledger.ts'

const TOPIC = 'borne'
const LEASE_MS = 30_000
/** A lease ends, a process rescues the task, and its next ring is spread over two seconds. */
const SECONDS_MS = 5_000
const [A = '', B = ''] = keysOfOneCell(2)
const AT: CellAddress = { topic: TOPIC, cell: place(A).cell }

type Timetables = 'one' | 'each'
const WORLDS: readonly Timetables[] = ['one', 'each']

class SharedMemory extends MemoryTimetable {
  override readonly isShared = true
}

interface Delivery {
  readonly key: string
  /** Since the beginning. */
  readonly atMs: number
}

/** A process with the store open. */
class Process {
  readonly store: LedgerStore
  readonly session: SharedSession
  /** Keys that it gave away because their leases were over. */
  readonly lost: string[] = []
  /** It asks for what rings. */
  pulls = true
  readonly #unwatch: () => void
  #isDead = false

  constructor(ledger: SharedLedger, clock: VirtualClock, shared: HintTable | null) {
    const random = seededRandom(1)
    this.session = ledger.connect()
    const table = shared ?? new MemoryTimetable(ledgerClock(this.session, clock), random)
    const settle: Ledger['settle'] = (topic, settlements, as) => {
      for (const { key, outcome } of settlements) if (outcome.kind === 'lost') this.lost.push(key)
      return this.session.settle(topic, settlements, as)
    }
    const watched = overlaid<Ledger>(this.session, { settle })
    this.store = new LedgerStore({ ledger: watched, table, clock, random, logger: silentLogger })
    this.store.configure(TOPIC, () => settingsOf({}, TOPIC))
    this.#unwatch = this.store.watch(TOPIC, { wake() {}, fence() {}, limit() {}, missed() {} })
  }

  get isDead(): boolean {
    return this.#isDead
  }

  async die(): Promise<void> {
    if (this.#isDead) return
    this.#isDead = true
    this.#unwatch()
    await this.store.close()
  }
}

let requests = 0

class World implements AsyncDisposable {
  readonly clock = new VirtualClock(Date.UTC(2026, 0, 1))
  readonly ledger = new SharedLedger(this.clock)
  readonly table: MemoryTimetable
  /** Makes the claims. */
  readonly one: Process
  /** The processes that the clients call. */
  readonly other: Process

  private constructor(timetables: Timetables) {
    this.table = new SharedMemory(this.clock, seededRandom(2))
    const outliving = overlaid<HintTable>(this.table, { close: async () => {} })
    const shared = timetables === 'one' ? outliving : null
    this.one = new Process(this.ledger, this.clock, shared)
    this.other = new Process(this.ledger, this.clock, shared)
  }

  /** `keys` are scheduled, and the first process has claimed them, in one claim. */
  static async begin(
    timetables: Timetables,
    keys: readonly string[],
  ): Promise<{ world: World; token: ClaimToken }> {
    const world = new World(timetables)
    await world.turns()
    const { store } = world.one
    await store.schedule(
      TOPIC,
      keys.map((key) => entry(key)),
      0,
    )
    const req = `r${++requests}`
    const claim = await store.claim(AT, {
      req,
      limit: 100,
      leaseMs: LEASE_MS,
      from: 'lanes',
      wholePrefixes: false,
    })
    expect(keysOf(claim.tasks)).toEqual(keys.toSorted())
    return { world, token: { session: store.sessionOf(AT.cell), req, stamp: claim.stamp } }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.one.die()
    await this.other.die()
    await this.table.close()
  }

  async turns(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await systemClock.turn()
  }

  get passedMs(): number {
    return this.clock.now() - Date.UTC(2026, 0, 1)
  }

  /** Both ring, second by second, up to so long after the beginning. What rings is done with at once. */
  async until(atMs: number): Promise<Delivery[]> {
    const deliveries: Delivery[] = []
    while (this.passedMs < atMs) {
      this.clock.moveTo(this.clock.monotonicNow() + Math.min(1_000, atMs - this.passedMs))
      await this.turns()
      for (const process of [this.one, this.other]) deliveries.push(...(await this.#ring(process)))
    }
    return deliveries
  }

  async #ring({ store, isDead, pulls }: Process): Promise<Delivery[]> {
    const deliveries: Delivery[] = []
    if (isDead || !pulls) return deliveries
    for (const cell of ALL_CELLS) {
      const at = { topic: TOPIC, cell }
      const request = { req: `r${++requests}`, limit: 100, leaseMs: LEASE_MS } as const
      const { tasks, stamp } = await store.claim(at, { ...request, from: 'lanes', wholePrefixes: false })
      for (const { key } of tasks) deliveries.push({ key, atMs: this.passedMs })
      await store.settle(
        at,
        tasks.map(({ key }) => ({ key, stamp, outcome: DONE })),
      )
    }
    return deliveries
  }

  async settle(
    { store }: Process,
    { session, stamp }: ClaimToken,
    key: string,
    outcome: SettleOutcome = DONE,
  ): Promise<string> {
    return only(await store.settle(AT, [{ key, stamp, outcome }], session))
  }

  async expectBooks(books: Record<string, number>): Promise<void> {
    expect(await this.other.session.books(TOPIC)).toMatchObject(books)
    const { counted } = await this.other.session.recount(TOPIC)
    const { scheduled: _, purged: __, ...rest } = await this.other.session.books(TOPIC)
    expect(counted).toEqual(rest)
  }
}

/** It came again, once, soon after. */
function expectSoonAfter(
  deliveries: readonly Delivery[],
  key: string,
  ms: number,
  withinMs = SECONDS_MS,
): void {
  const { atMs } = only(deliveries.filter((one) => one.key === key))
  expect(atMs).toBeGreaterThanOrEqual(ms)
  expect(atMs).toBeLessThanOrEqual(ms + withinMs)
}

describe.each(WORLDS)('with %s timetable', (timetables) => {
  describe.each([false, true])('the process that claimed has died: %s', (dies) => {
    const begin = async (keys: readonly string[]) => {
      const begun = await World.begin(timetables, keys)
      if (dies) await begun.world.one.die()
      return begun
    }

    it('what is settled through another has ended, once', async () => {
      const { world, token } = await begin([A])
      await using _ = world
      expect(await world.settle(world.other, token, A)).toBe('settled')
      expect(await world.settle(world.other, token, A)).toBe('stale')
      expect(await world.until(3 * LEASE_MS)).toEqual([])
      await world.expectBooks({ scheduled: 1, done: 1 })
    })

    it('under an unknown session, that of the other process, or another stamp it is stale, and nothing changes', async () => {
      const { world, token } = await begin([A])
      await using _ = world
      const { other } = world
      const wrong: ClaimToken[] = [
        { ...token, session: other.store.sessionOf(AT.cell) },
        { ...token, session: 1_000_000 },
        { ...token, stamp: token.stamp + 1 },
      ]
      for (const one of wrong) {
        expect(await world.settle(other, one, A)).toBe('stale')
        expect(await other.store.extendKeys(one, AT, [A], LEASE_MS)).toEqual(['stale'])
      }
      await world.expectBooks({ claimed: 1 })
      expect(await world.settle(other, token, A)).toBe('settled')
    })

    it('a task extended through another process is not delivered again until that lease ends, and then it is', async () => {
      const { world, token } = await begin([A])
      await using _ = world
      for (const atMs of [20_000, 40_000, 60_000]) {
        expect(await world.until(atMs)).toEqual([])
        expect(await world.other.store.extendKeys(token, AT, [A], LEASE_MS)).toEqual(['extended'])
      }
      expectSoonAfter(await world.until(150_000), A, 60_000 + LEASE_MS)
      expect(await world.settle(world.other, token, A)).toBe('stale')
      await world.expectBooks({ scheduled: 1, done: 1 })
    })

    it('of two in one claim, the one that is not extended is delivered again when its lease ends, the other is not', async () => {
      const { world, token } = await begin([A, B])
      await using _ = world
      const early: Delivery[] = []
      for (const atMs of [10_000, 20_000, 30_000, 40_000, 50_000]) {
        early.push(...(await world.until(atMs)))
        expect(await world.other.store.extendKeys(token, AT, [A], LEASE_MS)).toEqual(['extended'])
      }
      expect(keysOf(early)).toEqual([B])
      expectSoonAfter(early, B, LEASE_MS)
      expect(await world.other.store.extendKeys(token, AT, [A, B], LEASE_MS)).toEqual(['extended', 'stale'])
      expect(await world.settle(world.other, token, A)).toBe('settled')
      expect(await world.until(150_000)).toEqual([])
      await world.expectBooks({ scheduled: 2, done: 2 })
    })

    it('a task that was extended, rang and was refused is returned: it is delivered at once', async () => {
      const { world, token } = await begin([A])
      await using _ = world
      await world.until(20_000)
      await world.other.store.extendKeys(token, AT, [A], 10 * LEASE_MS)
      expect(await world.until(40_000)).toEqual([])
      expect(await world.settle(world.other, token, A, RETURN)).toBe('settled')
      expectSoonAfter(await world.until(150_000), A, 40_000, 1_000)
      // By itself: the sweeper had nothing to mend.
      expect(await world.other.store.audit()).toMatchObject([{ balances: true, rescued: 0 }])
    })

    it('what fails through another comes again, and its failure counts', async () => {
      const { world, token } = await begin([A])
      await using _ = world
      expect(await world.settle(world.other, token, A, retryIn(2_000))).toBe('settled')
      expect(await world.other.session.get(TOPIC, place(A))).toMatchObject({ failures: 1 })
      expectSoonAfter(await world.until(3 * LEASE_MS), A, 2_000, 1_000)
    })
  })

  it('what was handed out and fails through one that does not pull comes again where it is pulled, in time', async () => {
    const { world, token } = await World.begin(timetables, [A, B])
    await using _ = world
    world.other.pulls = false
    await world.one.store.handOut(AT, token.stamp, [A, B])
    expect(await world.settle(world.other, token, A, retryIn(5_000))).toBe('settled')
    // The client of the other task sends nothing: its lease is tracked like any other.
    const deliveries = await world.until(3 * LEASE_MS)
    expectSoonAfter(deliveries, A, 5_000, 1_000)
    expectSoonAfter(deliveries, B, LEASE_MS)
    expect(deliveries).toHaveLength(2)
  })

  describe('through the process that claimed', () => {
    it('one of two is extended: exactly the other is rescued, when its own lease is over', async () => {
      const { world, token } = await World.begin(timetables, [A, B])
      await using _ = world
      const { store } = world.one
      const early: Delivery[] = []
      for (const atMs of [10_000, 20_000, 30_000, 40_000, 50_000]) {
        early.push(...(await world.until(atMs)))
        expect(await store.extendKeys(token, AT, [A], LEASE_MS)).toEqual(['extended'])
      }
      expect(keysOf(early)).toEqual([B])
      expectSoonAfter(early, B, LEASE_MS)
      expect(world.one.lost).toEqual([B])
      expectSoonAfter(await world.until(150_000), A, 50_000 + LEASE_MS)
      expect(world.one.lost).toEqual([B, A])
      await world.expectBooks({ scheduled: 2, done: 2 })
    })

    it('the other one is extended later, in its time: each ends with its own lease', async () => {
      const { world, token } = await World.begin(timetables, [A, B])
      await using _ = world
      const { store } = world.one
      await world.until(10_000)
      await store.extendKeys(token, AT, [A], LEASE_MS)
      await world.until(20_000)
      await store.extendKeys(token, AT, [B], LEASE_MS)
      const deliveries = await world.until(150_000)
      expect(keysOf(deliveries)).toEqual([A, B])
      expectSoonAfter(deliveries, A, 40_000)
      expectSoonAfter(deliveries, B, 50_000)
    })

    it('all of it is extended: the timetable holds it as long, and no key rings to be refused', async () => {
      const { world, token } = await World.begin(timetables, [A, B])
      await using _ = world
      const { store } = world.one
      for (const atMs of [20_000, 40_000, 60_000]) {
        expect(await world.until(atMs)).toEqual([])
        expect(await store.extendKeys(token, AT, [B, A], LEASE_MS)).toEqual(['extended', 'extended'])
        expect((await store.look(AT)).leaseEndInMs).toBe(LEASE_MS)
      }
      if (timetables === 'one')
        expect(await world.table.look(AT)).toEqual({ ringInMs: null, leaseEndInMs: LEASE_MS + 1_000 })
      for (const key of [A, B]) expect(await world.settle(world.one, token, key)).toBe('settled')
      expect((await store.look(AT)).leaseEndInMs).toBeNull()
      expect(await world.until(150_000)).toEqual([])
      await world.expectBooks({ scheduled: 2, done: 2 })
    })

    it('extended through another process, then here, when its lease here had ended: it goes on', async () => {
      const { world, token } = await World.begin(timetables, [A])
      await using _ = world
      await world.until(20_000)
      await world.other.store.extendKeys(token, AT, [A], LEASE_MS)
      expect(await world.until(45_000)).toEqual([])
      expect(await world.one.store.extendKeys(token, AT, [A], LEASE_MS)).toEqual(['extended'])
      expect(await world.until(70_000)).toEqual([])
      expect(await world.settle(world.one, token, A)).toBe('settled')
      expect(await world.until(150_000)).toEqual([])
    })

    it('its batch-mate went on through another and was forgotten here: it is not held in the timetable by what is left', async () => {
      const { world, token } = await World.begin(timetables, [A, B])
      await using _ = world
      await world.until(20_000)
      await world.other.store.extendKeys(token, AT, [B], LEASE_MS)
      const late: Delivery[] = []
      for (const atMs of [25_000, 35_000, 45_000, 55_000, 65_000]) {
        late.push(...(await world.until(atMs)))
        expect(await world.one.store.extendKeys(token, AT, [A], LEASE_MS)).toEqual(['extended'])
      }
      expect(keysOf(late)).toEqual([B])
      expectSoonAfter(late, B, 50_000)
    })
  })
})
