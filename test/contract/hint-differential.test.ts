/**
 * One oracle for the other: the in-process table and Redis's Lua get the same random steps at the same moments of a
 * virtual clock, and every answer must be the same. Where they may differ:
 *
 *   priority   Redis knows a hint's lane, not its priority: not compared. Suspects are all of normal priority here.
 *   cancel     In process it rescues first; on Redis what it finds held is marked, and ends with its rescue. Here
 *              nothing is left to rescue when it is called.
 *   look       Redis's may be nearer than the truth, never later: not compared.
 *   ties       Which of two leases that end together is rescued first is not specified: no two leases end together here.
 */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { ClaimRequest } from '../../src/timetable.ts'
import type { Hint } from '../../src/hint-table.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { isLong } from '../generated.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'
import { Chance } from './differential/chance.ts'
import { expectCaught } from '../planted/caught.ts'
import { hintBugs } from '../planted/hint-table.ts'
import { hint, type HintHarness, LANES } from './hint-table/helpers.ts'
import { openRedisHintTable } from './hint-table/redis-harness.ts'
import { readWith } from '../planted/lua.ts'
import { START_MS } from './memory-harness.ts'
import { DONE, keysOfOneCell, place, RETURN } from './timetable/helpers.ts'

/** All of them in `npm run test:long`. */
const SEEDS = isLong ? [1, 2, 3, 4] : [1]
const STEPS = 2_500
const TIMEOUT_MS = 120_000
const RING_EVERY_MS = 500
/** What a spread begins with, on both sides. */
const FRACTION = 0.37
const CHANCE = { fraction: () => FRACTION, uniqueId: () => 'never asked for' }

let server: RedisServer
beforeAll(async () => {
  server = await startRedis()
})
afterAll(() => server.stop())

function openInProcess(): HintHarness {
  const clock = new VirtualClock(START_MS)
  const table = new MemoryTimetable(clock, CHANCE)
  const advance = async (ms: number) => clock.moveTo(clock.monotonicNow() + ms)
  return { table, topic: 'contract', advance, close: () => table.close() }
}

/** Makes steps, and gives each to both. */
class World {
  readonly words = new Map<string, number>()
  readonly #both: readonly [HintHarness, HintHarness]
  readonly #chance: Chance
  readonly #keys = keysOfOneCell(12)
  readonly #at = { topic: 'contract', cell: place(this.#keys[0] ?? '').cell }
  readonly #ends = new Set<number>()
  #claims: { req: string; stamp: number; keys: string[] }[] = []
  #requests = 0

  constructor(both: readonly [HintHarness, HintHarness], seed: number) {
    this.#both = both
    this.#chance = new Chance(seed)
  }

  async step(): Promise<void> {
    const steps = [
      () => this.#put(),
      () => this.#put(),
      () => this.#put(),
      () => this.#claim(),
      () => this.#claim(),
      () => this.#settle(),
      () => this.#settle(),
      () => this.#extend(),
      () => this.#remove(),
      () => this.#look(),
      () => this.#pass(),
    ]
    await this.#chance.oneOf(steps)()
  }

  async #put(): Promise<void> {
    const nowMs = await this.#both[0].table.nowMs()
    const hints = this.#some(4).map((key): Hint => {
      // So coarse that some ring at the same time.
      const ringMs = Math.floor((nowMs - 3_000 + this.#chance.upTo(5_000)) / RING_EVERY_MS) * RING_EVERY_MS
      return hint(key, ringMs, { lane: this.#chance.oneOf(LANES), failures: this.#chance.upTo(2) })
    })
    const mode = this.#chance.oneOf(['set', 'lower'] as const)
    const changed = await this.#ask(({ table, topic }) => table.put(topic, hints, mode))
    this.#note(`${mode} ${changed === 0 ? 'none' : changed < hints.length ? 'some' : 'all'}`)
  }

  async #claim(): Promise<void> {
    const again = this.#claims.length > 0 && this.#chance.happens(0.1)
    const request: ClaimRequest = {
      req: again ? this.#chance.oneOf(this.#claims).req : `r${++this.#requests}`,
      limit: this.#chance.upTo(4),
      leaseMs: await this.#leaseMs(),
      from: this.#chance.oneOf(['lanes', 'lanes', 'suspects'] as const),
      wholePrefixes: false,
    }
    const { stamp, tasks, rescued } = await this.#ask(async ({ table }) => {
      const claim = await table.claim(this.#at, request)
      return { ...claim, tasks: claim.tasks.map((task) => ({ ...task, priority: 'not compared' })) }
    })
    const keys = tasks.map(({ key }) => key)
    if (keys.length > 0) this.#claims.push({ req: request.req, stamp, keys })
    this.#claims = this.#claims.slice(-6)
    this.#note(rescued > 0 ? 'rescued' : 'rescued none')
    this.#note(`${request.from} ${keys.length > 0 ? 'some' : 'none'}`)
  }

  async #settle(): Promise<void> {
    if (this.#claims.length === 0) return
    const { stamp, keys } = this.#chance.oneOf(this.#claims)
    const outcome = this.#chance.oneOf([DONE, RETURN])
    const settlements = keys.filter(() => this.#chance.happens(0.7)).map((key) => ({ key, stamp, outcome }))
    const answers = await this.#ask(({ table }) => table.settle(this.#at, settlements))
    for (const answer of answers) this.#note(`${outcome.kind} ${answer}`)
  }

  async #extend(): Promise<void> {
    if (this.#claims.length === 0) return
    const { req } = this.#chance.oneOf(this.#claims)
    const leaseMs = await this.#leaseMs()
    this.#note(await this.#ask(({ table }) => table.extend(this.#at, req, leaseMs)))
  }

  async #remove(): Promise<void> {
    const places = this.#some(3).map((key) => ({ key, cell: this.#at.cell }))
    const how = this.#chance.oneOf(['cancel', 'drop'] as const)
    if (how === 'cancel') await this.#rescueAll()
    await this.#ask(async ({ table, topic }) => {
      await table[how](topic, places)
    })
    this.#note(how)
  }

  async #look(): Promise<void> {
    const places = this.#keys.map((key) => ({ key, cell: this.#at.cell }))
    await this.#ask(({ table, topic }) => table.has(topic, places))
    await this.#ask(({ table, topic }) => table.extent(topic))
    await this.#ask(async ({ table }) => {
      const { keys } = await table.find(this.#at, 'live', { all: true }, null)
      return [...new Set(keys)].toSorted()
    })
  }

  async #pass(): Promise<void> {
    const ms = this.#chance.upTo(1_500)
    for (const harness of this.#both) await harness.advance(ms)
  }

  /** A claim rescues four at most. */
  async #rescueAll(): Promise<void> {
    for (let n = 0; n < 10; n++) {
      const request = { req: `r${++this.#requests}`, limit: 0, leaseMs: 1, from: 'lanes' } as const
      await this.#ask(async ({ table }) => table.claim(this.#at, { ...request, wholePrefixes: false }))
    }
  }

  /** The same answer from both. */
  async #ask<T>(question: (harness: HintHarness) => Promise<T>): Promise<T> {
    const [one, other] = [await question(this.#both[0]), await question(this.#both[1])]
    expect(other).toEqual(one)
    return one
  }

  /** Of a lease that ends when no other does. */
  async #leaseMs(): Promise<number> {
    const nowMs = await this.#both[0].table.nowMs()
    let leaseMs = 1 + this.#chance.upTo(2_000)
    while (this.#ends.has(nowMs + leaseMs)) leaseMs++
    this.#ends.add(nowMs + leaseMs)
    return leaseMs
  }

  #some(most: number): string[] {
    return this.#chance.some(most, () => this.#chance.oneOf(this.#keys))
  }

  #note(word: string): void {
    this.words.set(word, (this.words.get(word) ?? 0) + 1)
  }
}

async function compare(seed: number, steps: number, read?: (name: string) => string): Promise<World> {
  const redis = await openRedisHintTable(server, { random: CHANCE, ...(read === undefined ? {} : { read }) })
  const world = new World([openInProcess(), redis], seed)
  try {
    for (let n = 0; n < steps; n++) await world.step()
  } finally {
    await redis.close()
  }
  return world
}

/** What answers have to have said at least once. */
const EVERYWHERE = [
  'set all',
  'lower none',
  'lower some',
  'lower all',
  'lanes none',
  'lanes some',
  'suspects none',
  'suspects some',
  'rescued none',
  'rescued',
  'done settled',
  'done stale',
  'return settled',
  'return stale',
  'extended',
  'stale',
  'cancel',
  'drop',
]

it.each(SEEDS)(
  `Redis and the in-process table answer the same to ${STEPS} random steps, seed %i`,
  async (seed) => {
    const { words } = await compare(seed, STEPS)
    expect(EVERYWHERE.filter((word) => !words.has(word))).toEqual([])
  },
  TIMEOUT_MS,
)

/** Not those about what is told to watchers, about filling, or about lanes larger than these. */
const seen = hintBugs.filter(
  ({ caughtBy, file }) => !/^(waking|on Redis|filling)/.test(caughtBy) && file !== 'hints/find',
)

it.each(seen)(
  'and sees: $name',
  async (bug) => {
    await expectCaught(() => compare(1, STEPS, readWith(bug)))
  },
  TIMEOUT_MS,
)
