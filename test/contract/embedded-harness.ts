import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock } from '../../src/clock.ts'
import { settingsOf } from '../../src/values/config.ts'
import type { Ledger } from '../../src/ledger.ts'
import { openSqlite } from '../../src/ledgers/sqlite/open.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { LedgerStore } from '../../src/store/ledger-store.ts'
import { VirtualClock } from '../../src/testing/virtual-clock.ts'
import { LAST_INSTANT_MS } from '../../src/values/instant.ts'
import type { EntryView, ListQuery, Place, Timetable, Watcher } from '../../src/timetable.ts'
import type { HintTable } from '../../src/hint-table.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { seededRandom, START_MS } from './memory-harness.ts'
import type { TimetableHarness } from './timetable/helpers.ts'

export interface EmbeddedHarness extends TimetableHarness {
  readonly store: LedgerStore
  readonly clock: VirtualClock
  readonly table: HintTable
  readonly ledger: Ledger
}

/** For faults: what stands between the store and its parts. */
export interface Wraps {
  readonly ledger?: (ledger: Ledger) => Ledger
  readonly table?: (table: HintTable) => HintTable
}

/** A SQLite ledger in a temporary folder with an in-process timetable, on a clock that stands still until told to move. */
export async function openEmbedded({
  ledger: wrapLedger,
  table: wrapTable,
}: Wraps = {}): Promise<EmbeddedHarness> {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-contract-'))
  const clock = new VirtualClock(START_MS)
  const random = seededRandom(1)
  const memory = new MemoryTimetable(clock, random)
  const sqlite = openSqlite({ path: join(folder, 'tocsin.db'), callTimeoutMs: 5_000 }, clock)
  const table = wrapTable?.(memory) ?? memory
  const ledger = wrapLedger?.(sqlite) ?? sqlite
  const store = new LedgerStore({ ledger, table, clock, random, logger: silentLogger })
  const topic = 'contract'
  // The cases look further ahead than an hour.
  const settings = { ...settingsOf({}, topic), residentMs: LAST_INSTANT_MS }
  const configured = (any: string) => store.configure(any, () => settings)
  configured(topic)
  // A process that consumes a topic has the topic's near tasks loaded.
  const unwatch = store.watch(topic, { wake() {}, fence() {}, limit() {}, missed() {} })
  const settle = async () => {
    for (let turns = 0; turns < 5; turns++) await systemClock.turn()
  }
  await settle()
  return {
    timetable: withoutHistory(store, configured),
    store,
    clock,
    table,
    ledger,
    topic,
    async advance(ms) {
      clock.moveTo(clock.monotonicNow() + ms)
      await settle()
    },
    async close() {
      unwatch()
      await store.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Hides what a ledger adds to a timetable: ended tasks, and the id of a task that was never delivered. Then the same cases hold. */
function withoutHistory(store: LedgerStore, configure: (topic: string) => void): Timetable {
  const get = async (topic: string, place: Place): Promise<EntryView | null> => {
    const view = await store.get(topic, place)
    const isEnded = view !== null && ['done', 'cancelled', 'obsolete'].includes(view.state)
    const seen = isEnded ? await dead(topic, place) : view
    return seen && asTimetable(seen)
  }
  const dead = async (topic: string, { key }: Place) => {
    const all = { tag: null, prefix: null, dueFromMs: 0, dueToMs: LAST_INSTANT_MS, limit: 1_000, after: null }
    return (await store.list(topic, { ...all, state: 'dead' })).find((view) => view.key === key) ?? null
  }
  const list = async (topic: string, query: ListQuery) => (await store.list(topic, query)).map(asTimetable)
  // A topic that only a case uses is consumed here, too.
  const known = new Set<string>()
  const schedule: Timetable['schedule'] = (topic, ...rest) => {
    if (!known.has(topic)) watch(topic, { wake() {}, fence() {}, limit() {}, missed() {} })
    return store.schedule(topic, ...rest)
  }
  const watch = (topic: string, watcher: Watcher) => {
    known.add(topic)
    configure(topic)
    return store.watch(topic, watcher)
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'get') return get
      if (name === 'list') return list
      if (name === 'watch') return watch
      if (name === 'schedule') return schedule
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value.bind(target) as unknown) : value
    },
  })
}

function asTimetable(view: EntryView): EntryView {
  return view.deliveries === 0 ? { ...view, id: null } : view
}
