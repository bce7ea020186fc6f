import { BULK_MAX } from '../../src/lib/batch-max.ts'
import type { Clock } from '../../src/clock.ts'
import { compareFrontiers } from '../../src/values/list-position.ts'
import { NO_LEDGER, type TaskStore } from '../../src/store.ts'
import type { Watcher } from '../../src/timetable.ts'
import type { Filling, Frontier, HintTable } from '../../src/hint-table.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { type Chance, engineRandom } from './chance.ts'
import type { ProcessClock } from './process-clock.ts'

/** What changes a timetable: carried out again, in the same order and at the same moments, it leads to the same. */
const CHANGES: ReadonlySet<string> = new Set([
  'schedule',
  'cancel',
  'reschedule',
  'claim',
  'begin',
  'extend',
  'settle',
  'replay',
  'purge',
  'put',
  'drop',
])

interface Change {
  readonly name: string
  readonly args: readonly unknown[]
  readonly wallMs: number
  readonly steadyMs: number
}

/**
 * Stands for Redis: the in-process timetable, shared by several processes. It can be wiped, be rolled back to what it was
 * a while ago, as when a replica that lags behind is promoted, and be restarted.
 */
export class SharedTable {
  /** What the processes call; who looks at it sees the timetable of the moment. */
  readonly face: TaskStore & HintTable
  readonly #clock: ProcessClock
  readonly #chance: Chance
  /** A rollback needs a log of all changes; kept only if a plan rolls back. */
  readonly #remembers: boolean
  readonly #lookMs: number
  readonly #watchers = new Map<Watcher, { readonly topic: string; unwatch: () => void }>()
  #table: MemoryTimetable
  #changes: Change[] = []
  #frontiers = new Map<string, Frontier>()
  #epoch = 1
  /** While the past is repeated. */
  #replayed: Change | null = null

  constructor(clock: ProcessClock, chance: Chance, remembers: boolean, lookMs: number) {
    this.#lookMs = lookMs
    this.#clock = clock
    this.#chance = chance
    this.#remembers = remembers
    this.#table = this.#newTable()
    this.face = this.#face()
  }

  /** FLUSHALL. */
  wipe(): void {
    this.#changes = []
    this.#become(this.#newTable())
  }

  /** A replica is promoted that had heard nothing for `lagMs`. */
  rollback(lagMs: number): void {
    const untilMs = this.#clock.monotonicNow() - lagMs
    this.#changes = this.#changes.filter(({ steadyMs }) => steadyMs <= untilMs)
    const table = this.#newTable()
    for (const change of this.#changes) {
      this.#replayed = change
      void apply(table, change.name, change.args)
    }
    this.#replayed = null
    this.#become(table)
  }

  /** Its data are all there; but who knows. */
  restart(): void {
    this.#become(this.#table)
  }

  watch(topic: string, watcher: Watcher): () => void {
    this.#watchers.set(watcher, { topic, unwatch: this.#table.watch(topic, watcher) })
    return () => {
      this.#watchers.get(watcher)?.unwatch()
      this.#watchers.delete(watcher)
    }
  }

  #become(table: MemoryTimetable): void {
    this.#table = table
    this.#epoch++
    this.#frontiers = new Map()
    for (const [watcher, watched] of this.#watchers) {
      watched.unwatch()
      watched.unwatch = table.watch(watched.topic, watcher)
    }
  }

  /** Of one lineage: what is repeated draws the same lots again. */
  #newTable(): MemoryTimetable {
    const clock: Clock = {
      now: () => this.#replayed?.wallMs ?? this.#clock.now(),
      monotonicNow: () => this.#replayed?.steadyMs ?? this.#clock.monotonicNow(),
      after: () => () => {},
      turn: () => Promise.resolve(),
    }
    return new MemoryTimetable(clock, engineRandom(this.#chance.fork('table'), 'table'), this.#lookMs)
  }

  #face(): TaskStore & HintTable {
    const own = {
      isShared: true,
      features: NO_LEDGER,
      residentMax: Number.POSITIVE_INFINITY,
      lookMs: this.#lookMs,
      // It stands for Redis.
      isSettleCostly: true,
      bulkMax: BULK_MAX,
      watch: (topic: string, watcher: Watcher) => this.watch(topic, watcher),
      filling: async (topic: string): Promise<Filling> => ({
        epoch: `epoch ${this.#epoch}`,
        frontier: this.#frontiers.get(topic) ?? null,
      }),
      filledTo: async (topic: string, epoch: string, frontier: Frontier): Promise<boolean> => {
        if (epoch !== `epoch ${this.#epoch}`) return false
        const last = this.#frontiers.get(topic)
        if (last === undefined || compareFrontiers(last, frontier) < 0) this.#frontiers.set(topic, frontier)
        return true
      },
      keepOnly: () => {},
      close: async () => {},
    }
    return new Proxy(own as unknown as TaskStore & HintTable, {
      get: (_, name) => {
        if (Object.hasOwn(own, name)) return Reflect.get(own, name)
        if (!(name in this.#table)) return undefined
        return (...args: unknown[]) => {
          if (this.#remembers && CHANGES.has(String(name)))
            this.#changes.push({
              name: String(name),
              args,
              wallMs: this.#clock.now(),
              steadyMs: this.#clock.monotonicNow(),
            })
          return apply(this.#table, String(name), args)
        }
      },
    })
  }
}

function apply(table: MemoryTimetable, name: string, args: readonly unknown[]): Promise<unknown> {
  const method = (table as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>)[name]
  if (method === undefined) throw new Error(`a timetable has no ${name}`)
  return method.apply(table, [...args])
}
