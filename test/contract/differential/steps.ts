/** Random steps on a timetable, on few keys in few cells, so that steps affect each other. */
import { isDeepStrictEqual } from 'node:util'
import { LAST_INSTANT_MS } from '../../../src/values/instant.ts'
import { positionOf } from '../../../src/values/list-position.ts'
import type {
  CellAddress,
  Claim,
  EntryView,
  ListQuery,
  Look,
  NewEntry,
  Place,
  Selection,
  SettleOutcome,
  Settlement,
  Timetable,
} from '../../../src/timetable.ts'
import type { ListPosition } from '../../../src/values/list-position.ts'
import type { RingTime } from '../../../src/values/ring-time.ts'
import type { Chance } from './chance.ts'

export interface Step {
  /** The call with its arguments, for the report of a difference. */
  readonly what: string
  readonly ask: (timetable: Timetable) => Promise<unknown>
  readonly same: (inProcess: unknown, redis: unknown) => boolean
  readonly learn: (answer: unknown) => void
}

const CELLS = [3, 63]
/** Prefixes that are the beginning of others, bytes that patterns mind, and characters of all lengths. */
const NAMES = ['a:0', 'a:1', 'a:2', 'a', 'ab:0', 'ab:1', '%d+.-[', 'ü:ß', '漢字']
const PLACES: readonly Place[] = CELLS.flatMap((cell) =>
  NAMES.map((name) => ({ key: `${name}-${cell}`, cell })),
)
const PREFIXES = ['a', 'ab', 'ü', 'no-such']
const TAGS = ['t', 'tt', 't:ü']
const QUANTA = [0, 0, 0, 7, 1_000]
const ERRORS = ['it failed', 'a|b|c', '{"ü":"\\n"}', '%s']
const CAUSES = ['attempts', 'handler', 'payload', 'late'] as const

interface Held {
  readonly place: Place
  readonly stamp: number
  readonly req: string
  readonly alone: boolean
}

/** Relative frequencies of the kinds of steps. Those that read all 64 cells are slow, and rare. */
const WEIGHTS = {
  schedule: 36,
  claim: 36,
  claimSuspect: 14,
  settle: 36,
  begin: 14,
  extend: 8,
  cancel: 10,
  reschedule: 10,
  replay: 6,
  purge: 3,
  get: 12,
  find: 4,
  look: 20,
  list: 2,
  counts: 1,
  books: 1,
  forecast: 1,
} as const

export class Steps {
  readonly #topic: string
  readonly #chance: Chance
  readonly #nowMs: () => number
  readonly #kinds: (keyof typeof WEIGHTS)[]
  #requests = 0
  /** Tasks of the latest claims, settled or not. */
  #held: Held[] = []
  #lastPage: EntryView[] = []
  /** Ends of leases so far. See 'ties' in differential.test.ts. */
  readonly #leaseEnds = new Set<string>()

  constructor(topic: string, chance: Chance, nowMs: () => number) {
    this.#topic = topic
    this.#chance = chance
    this.#nowMs = nowMs
    this.#kinds = Object.entries(WEIGHTS).flatMap(([kind, weight]) =>
      Array.from({ length: weight }, () => kind as keyof typeof WEIGHTS),
    )
  }

  next(): Step {
    return this[this.#chance.oneOf(this.#kinds)]()
  }

  /** Steps that read everything. */
  inventory(): Step[] {
    const states = [null, 'pending', 'claimed', 'dead'] as const
    return [
      ...states.map((state) => this.#list({ state, limit: 1_000 })),
      ...PLACES.map((place) => this.#get(place)),
      ...CELLS.map((cell) => this.#find(cell, 'live', { all: true })),
      ...CELLS.map((cell) => this.#look(cell)),
      this.counts(),
      this.books(),
    ]
  }

  schedule(): Step {
    const entries = this.#chance.some(4, () => this.#entry())
    const mergeMs = this.#chance.oneOf(QUANTA)
    return step(['schedule', entries, mergeMs], (timetable) =>
      timetable.schedule(this.#topic, entries, mergeMs),
    )
  }

  cancel(): Step {
    const places = this.#places(3)
    return step(['cancel', places], (timetable) => timetable.cancel(this.#topic, places))
  }

  reschedule(): Step {
    const places = this.#places(3)
    const kind = this.#chance.oneOf(['at', 'delay', 'shift'] as const)
    const sign = kind === 'shift' && this.#chance.happens(0.5) ? -1 : 1
    const when = { kind, ms: (kind === 'at' ? this.#nowMs() : 0) + sign * this.#chance.ms() }
    const mergeMs = this.#chance.oneOf(QUANTA)
    return step(['reschedule', places, when, mergeMs], (timetable) =>
      timetable.reschedule(this.#topic, places, when, mergeMs),
    )
  }

  claim(): Step {
    return this.#claim('lanes')
  }

  claimSuspect(): Step {
    return this.#claim('suspects')
  }

  begin(): Step {
    const alone = this.#held.filter((one) => one.alone)
    const { place, stamp } =
      alone.length > 0 && this.#chance.happens(0.7) ? this.#recent(alone) : this.#someHeld()
    const at = this.#at(place.cell)
    return step(['begin', place, stamp], (timetable) => timetable.begin(at, place.key, stamp))
  }

  extend(): Step {
    const { place, req } = this.#someHeld()
    const leaseMs = this.#leaseMs(place.cell)
    return step(['extend', place.cell, req, leaseMs], (timetable) =>
      timetable.extend(this.#at(place.cell), req, leaseMs),
    )
  }

  settle(): Step {
    const { place } = this.#someHeld()
    const inCell = this.#held.filter((one) => one.place.cell === place.cell)
    // Some twice, some stale, some with the stamp of another key.
    const settlements = this.#chance.some(3, (): Settlement => {
      const held =
        inCell.length > 0 && this.#chance.happens(0.95) ? this.#recent(inCell) : this.#unknownClaim()
      return { key: held.place.key, stamp: held.stamp, outcome: this.#outcome() }
    })
    const learn = (): void => {
      if (this.#chance.happens(0.2)) return
      const settled = new Set(settlements.map(({ key, stamp }) => `${key}/${stamp}`))
      this.#held = this.#held.filter((one) => !settled.has(`${one.place.key}/${one.stamp}`))
    }
    const ask = (timetable: Timetable) => timetable.settle(this.#at(place.cell), settlements)
    return { ...step(['settle', place.cell, settlements], ask), learn }
  }

  replay(): Step {
    const places = this.#places(3)
    const which = this.#chance.oneOf(['any', 'newest'] as const)
    return step(['replay', places, which], (timetable) => timetable.replay(this.#topic, places, which))
  }

  purge(): Step {
    const places = this.#places(2)
    return step(['purge', places], (timetable) => timetable.purge(this.#topic, places))
  }

  get(): Step {
    return this.#get(this.#chance.oneOf(PLACES))
  }

  find(): Step {
    const what = this.#chance.oneOf<Selection>([
      { tag: this.#chance.oneOf(TAGS) },
      { prefix: this.#chance.oneOf(PREFIXES) },
      { all: true },
    ])
    return this.#find(this.#chance.oneOf(CELLS), this.#chance.oneOf(['live', 'dead'] as const), what)
  }

  look(): Step {
    return this.#look(this.#chance.oneOf(CELLS))
  }

  list(): Step {
    const chance = this.#chance
    return this.#list({
      state: chance.oneOf([null, 'pending', 'claimed', 'dead'] as const),
      tag: chance.happens(0.3) ? chance.oneOf(TAGS) : null,
      prefix: chance.happens(0.3) ? chance.oneOf(PREFIXES) : null,
      dueFromMs: chance.happens(0.3) ? this.#nowMs() - chance.ms() : 0,
      dueToMs: chance.happens(0.3) ? this.#nowMs() + chance.ms() : LAST_INSTANT_MS,
      limit: 1 + chance.upTo(8),
      after: this.#after(),
    })
  }

  counts(): Step {
    return step(['counts'], (timetable) => timetable.counts(this.#topic))
  }

  books(): Step {
    return step(['books'], (timetable) => timetable.books(this.#topic))
  }

  forecast(): Step {
    const chance = this.#chance
    const fromMs = this.#nowMs() + chance.oneOf([-1, 1]) * chance.ms()
    const stepMs = 1 + chance.ms()
    const toMs = fromMs + 1 + chance.upTo(20 * stepMs)
    return step(['forecast', fromMs, toMs, stepMs], (timetable) =>
      timetable.forecast(this.#topic, fromMs, toMs, stepMs),
    )
  }

  #claim(from: 'lanes' | 'suspects'): Step {
    const chance = this.#chance
    const repeated = chance.happens(0.1) ? this.#someHeld() : null
    const cell = repeated?.place.cell ?? chance.oneOf(CELLS)
    const request = {
      req: repeated?.req ?? `request-${++this.#requests}`,
      limit: chance.upTo(5),
      leaseMs: this.#leaseMs(cell),
      from,
      wholePrefixes: chance.happens(0.5),
    }
    const learn = (answer: unknown): void => {
      const { tasks, stamp } = answer as Claim
      const alone = from === 'suspects'
      for (const { key } of tasks) this.#held.push({ place: { key, cell }, stamp, req: request.req, alone })
      this.#held = this.#held.slice(-60)
    }
    const ask = (timetable: Timetable) => timetable.claim(this.#at(cell), request)
    return { ...step(['claim', cell, request], ask), learn }
  }

  #get(place: Place): Step {
    return step(['get', place], (timetable) => timetable.get(this.#topic, place))
  }

  #find(cell: number, among: 'live' | 'dead', what: Selection): Step {
    const ask = async (timetable: Timetable): Promise<string[]> => {
      const keys = new Set<string>()
      let cursor: string | null = null
      do {
        const page: { keys: string[]; cursor: string | null } = await timetable.find(
          this.#at(cell),
          among,
          what,
          cursor,
        )
        for (const key of page.keys) keys.add(key)
        cursor = page.cursor
      } while (cursor !== null)
      return [...keys].toSorted()
    }
    return step(['find', cell, among, what], ask)
  }

  #look(cell: number): Step {
    const neverLater = (truth: number | null, told: number | null): boolean =>
      truth === null || (told !== null && told <= truth)
    const same = (inProcess: unknown, redis: unknown): boolean => {
      const [truth, told] = [inProcess as Look, redis as Look]
      return neverLater(truth.ringInMs, told.ringInMs) && neverLater(truth.leaseEndInMs, told.leaseEndInMs)
    }
    return { ...step(['look', cell], (timetable) => timetable.look(this.#at(cell))), same }
  }

  #list(query: Partial<ListQuery>): Step {
    const whole = {
      state: null,
      tag: null,
      prefix: null,
      dueFromMs: 0,
      dueToMs: LAST_INSTANT_MS,
      limit: 1_000,
      after: null,
      ...query,
    }
    const learn = (answer: unknown): void => {
      this.#lastPage = answer as EntryView[]
    }
    const ask = (timetable: Timetable) => timetable.list(this.#topic, whole)
    return { ...step(['list', whole], ask), learn }
  }

  /** The end of a page, or a position that no task has. */
  #after(): ListPosition | null {
    const chance = this.#chance
    if (chance.happens(0.4)) return null
    const last = this.#lastPage.at(-1)
    if (last !== undefined && chance.happens(0.7)) return positionOf(last)
    return {
      ringMs: this.#nowMs() + chance.oneOf([-1, 1]) * chance.ms(),
      failures: chance.upTo(2),
      key: chance.oneOf(PLACES).key,
    }
  }

  #entry(): NewEntry {
    const chance = this.#chance
    const body = JSON.stringify({ n: chance.upTo(1e6), text: 'ü\n\t' })
    return {
      ...chance.oneOf(PLACES),
      body,
      when: this.#when(),
      priority: chance.oneOf(['high', 'normal', 'normal', 'low'] as const),
      tags: chance.happens(0.5) ? null : TAGS.filter(() => chance.happens(0.5)),
      onConflict: chance.oneOf(['replace', 'replace', 'keep'] as const),
    }
  }

  #when(): RingTime {
    const chance = this.#chance
    if (chance.happens(0.01)) return { kind: 'delay', ms: LAST_INSTANT_MS }
    // Many ring at one moment, so that keys and prefixes decide the order.
    if (chance.happens(0.4)) return { kind: 'at', ms: Math.floor(this.#nowMs() / 100) * 100 }
    if (chance.happens(0.5)) return { kind: 'delay', ms: chance.ms() }
    return { kind: 'at', ms: this.#nowMs() + chance.oneOf([-1, 1]) * chance.ms() }
  }

  #outcome(): SettleOutcome {
    const chance = this.#chance
    const error = chance.oneOf(ERRORS)
    const delayMs = chance.happens(0.01) ? LAST_INSTANT_MS : chance.ms()
    return chance.oneOf<SettleOutcome>([
      { kind: 'done' },
      { kind: 'obsolete' },
      { kind: 'retry', delayMs, error },
      { kind: 'snooze', delayMs },
      { kind: 'dead', cause: chance.oneOf(CAUSES), error, failed: chance.happens(0.5) },
      { kind: 'return' },
    ])
  }

  /** Mostly a claim that may still hold its task. */
  #someHeld(): Held {
    return this.#held.length === 0 ? this.#unknownClaim() : this.#recent(this.#held)
  }

  #recent(held: readonly Held[]): Held {
    return this.#chance.oneOf(this.#chance.happens(0.85) ? held.slice(-4) : held)
  }

  #unknownClaim(): Held {
    return { place: this.#chance.oneOf(PLACES), stamp: this.#nowMs(), req: 'unknown', alone: false }
  }

  #places(most: number): Place[] {
    return this.#chance.some(most, () => this.#chance.oneOf(PLACES))
  }

  #leaseMs(cell: number): number {
    let leaseMs = this.#chance.upTo(this.#chance.oneOf([30, 300, 3_000, 30_000]))
    while (this.#leaseEnds.has(`${cell}/${this.#nowMs() + leaseMs}`)) leaseMs++
    this.#leaseEnds.add(`${cell}/${this.#nowMs() + leaseMs}`)
    return leaseMs
  }

  #at(cell: number): CellAddress {
    return { topic: this.#topic, cell }
  }
}

function step(call: readonly unknown[], ask: (timetable: Timetable) => Promise<unknown>): Step {
  const [name, ...args] = call
  const what = `${String(name)}(${args.map((one) => JSON.stringify(one)).join(', ')})`
  return { what, ask, same: isDeepStrictEqual, learn: () => {} }
}
