/** Processes that have one ledger after another, with faults between the store and its parts. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ALL_CELLS, cellOf } from '../../src/values/cell.ts'
import { expect } from 'vitest'
import { systemClock } from '../../src/clock.ts'
import { settingsOf } from '../../src/values/config.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openSqlite } from '../../src/ledgers/sqlite/open.ts'
import { netCounter } from '../idle-nets.ts'
import { LedgerStore } from '../../src/store/ledger-store.ts'
import type { TopicAudit } from '../../src/store.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import type { Claim, ClaimedTask, ClaimRequest, SettleOutcome } from '../../src/timetable.ts'
import type { HintTable } from '../../src/hint-table.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { seededRandom } from '../contract/memory-harness.ts'
import { entry, type EntryOptions, place } from '../contract/timetable/helpers.ts'
import { Log } from './log.ts'

const START_MS = Date.UTC(2026, 0, 1)
export const TOPIC = 'life'
export const LEASE_MS = 30_000

export interface Faults {
  ledger: Partial<Ledger>
  table: Partial<HintTable>
}

/** Calls `noticed` when a fault is assigned. */
function faultsThat(noticed: () => void): Faults {
  const faults: Faults = { ledger: {}, table: {} }
  return new Proxy(faults, {
    set(target, name, value: object) {
      if (Object.keys(value).length > 0) noticed()
      return Reflect.set(target, name, value)
    },
  })
}

/** What is broken can be changed while it runs. */
function faulty<T extends object>(sound: T, broken: () => Partial<T>): T {
  return new Proxy(sound, {
    get(target, name) {
      const faults = broken()
      const source = Object.hasOwn(faults, name) ? faults : target
      const value: unknown = Reflect.get(source, name, source)
      return typeof value === 'function' ? (value.bind(source) as unknown) : value
    },
  })
}

export interface Delivery {
  readonly key: string
  readonly atMs: number
  readonly stamp: number
  readonly task: ClaimedTask
}

let requests = 0

/** Stands for a timetable that several processes share. */
class SharedMemory extends MemoryTimetable {
  override readonly isShared = true
}

export class Lives implements AsyncDisposable {
  readonly log = new Log()
  /** What the safety nets found in all lives. */
  readonly nets = netCounter()
  clock = new VirtualClock(START_MS)
  store!: LedgerStore
  /** As they are, without faults. */
  ledger!: Ledger
  table!: HintTable
  readonly #folder = mkdtempSync(join(tmpdir(), 'tocsin-lives-'))
  readonly #residentMs: number
  readonly #isShared: boolean
  #unwatch = () => {}
  readonly #faults = faultsThat(() => this.needsNets())
  /** True once there was a fault, or the test has said that it needs the nets. */
  #areNetsNeeded = false

  private constructor(residentMs: number, isShared: boolean) {
    this.#residentMs = residentMs
    this.#isShared = isShared
  }

  /** `shared`: as with a timetable that other processes ring by, too, and with a spare one for when it is away. */
  static async begin({ residentMs = 3_600_000, watches = true, shared = false } = {}): Promise<Lives> {
    const lives = new Lives(residentMs, shared)
    lives.#open()
    if (watches) await lives.watch()
    return lives
  }

  /** A fault is assigned to a part of it: `faults.table = { put: lost }`. From then on, the safety nets may find tasks. */
  get faults(): Faults {
    return this.#faults
  }

  /** Says that this test loses leases, hints or wakes on purpose. Otherwise it fails if a safety net has something to do. */
  needsNets(): void {
    this.#areNetsNeeded = true
  }

  /** From now on the topic is consumed here. */
  async watch(): Promise<void> {
    this.#unwatch = this.store.watch(TOPIC, { wake() {}, fence() {}, limit() {}, missed() {} })
    await this.turns()
  }

  /** All that was in memory is gone; the faults as well. What the ledger has is found by the next process. */
  async dieAndComeBack(): Promise<void> {
    this.faults.ledger = {}
    this.faults.table = {}
    this.#unwatch()
    await this.store.close()
    this.clock = new VirtualClock(this.clock.now())
    this.#open()
    await this.watch()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.faults.ledger = {}
    this.faults.table = {}
    this.#unwatch()
    await this.store.close()
    rmSync(this.#folder, { recursive: true, force: true })
    if (!this.#areNetsNeeded)
      expect(this.nets.counts, 'a safety net found tasks in a test without a fault').toEqual({})
  }

  #open(): void {
    const random = seededRandom(1)
    const { clock } = this
    const faults = this.#faults
    this.table = this.#isShared ? new SharedMemory(clock, random) : new MemoryTimetable(clock, random)
    this.ledger = openSqlite({ path: join(this.#folder, 'tocsin.db'), callTimeoutMs: 5_000 }, clock)
    this.store = new LedgerStore({
      ledger: faulty(this.ledger, () => faults.ledger),
      table: faulty(this.table, () => faults.table),
      clock,
      random,
      logger: this.log,
      meter: this.nets,
      ...(this.#isShared ? { makeSpare: () => new MemoryTimetable(clock, random) } : {}),
    })
    const settings = { ...settingsOf({}, TOPIC), residentMs: this.#residentMs }
    this.store.configure(TOPIC, () => settings)
  }

  async turns(): Promise<void> {
    for (let turn = 0; turn < 5; turn++) await systemClock.turn()
  }

  /** Second by second, so that whatever looks every second does. */
  async advance(ms: number, stepMs = 1_000): Promise<void> {
    for (let left = ms; left > 0; left -= stepMs) {
      this.clock.moveTo(this.clock.monotonicNow() + Math.min(stepMs, left))
      await this.turns()
    }
  }

  async schedule(key: string, options: EntryOptions = {}): Promise<number> {
    const [answer] = await this.store.schedule(TOPIC, [entry(key, options)], 0)
    return answer?.dueMs ?? Number.NaN
  }

  async cancel(key: string): Promise<string | undefined> {
    return (await this.store.cancel(TOPIC, [place(key)]))[0]
  }

  async claim(key: string, options: Partial<ClaimRequest> = {}): Promise<Claim> {
    const request = {
      req: `r${++requests}`,
      limit: 100,
      leaseMs: LEASE_MS,
      from: 'lanes',
      wholePrefixes: false,
    } as const
    return this.#claim(cellOf(key, 'key'), { ...request, ...options })
  }

  /** Counts rescues as a consumer does. */
  async #claim(cell: number, request: ClaimRequest): Promise<Claim> {
    const claim = await this.store.claim({ topic: TOPIC, cell }, request)
    if (claim.rescued > 0) this.nets.caught(TOPIC, 'lease', claim.rescued)
    return claim
  }

  async settle(
    key: string,
    stamp: number,
    outcome: SettleOutcome = { kind: 'done' },
  ): Promise<string | undefined> {
    const at = { topic: TOPIC, cell: cellOf(key, 'key') }
    return (await this.store.settle(at, [{ key, stamp, outcome }]))[0]
  }

  /** What rings by now, in every cell, suspects as well. */
  async ring(cells: readonly number[] = ALL_CELLS): Promise<Delivery[]> {
    const deliveries: Delivery[] = []
    for (const cell of cells)
      for (const from of ['lanes', 'suspects'] as const) {
        const request = { req: `r${++requests}`, limit: 100, leaseMs: LEASE_MS, from, wholePrefixes: false }
        const { tasks, stamp, nowMs } = await this.#claim(cell, request)
        for (const task of tasks) deliveries.push({ key: task.key, atMs: nowMs, stamp, task })
      }
    return deliveries
  }

  /** Second by second: whatever rings is done with at once. */
  async work(ms: number, stepMs = 1_000): Promise<Delivery[]> {
    const deliveries: Delivery[] = []
    for (let left = ms; left > 0; left -= stepMs) {
      for (const delivery of await this.ring()) {
        deliveries.push(delivery)
        await this.settle(delivery.key, delivery.stamp)
      }
      await this.advance(Math.min(stepMs, left), stepMs)
    }
    return deliveries
  }

  async audit(): Promise<TopicAudit> {
    const [audit] = await this.store.audit()
    if (audit === undefined) throw new Error('no topic was audited')
    return audit
  }
}
