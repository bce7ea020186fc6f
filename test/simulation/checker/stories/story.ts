/** Histories made by hand, a word per event. Times of all clocks are the same, unless a story says otherwise. */
import type {
  CallEvent,
  BuriedEvent,
  ClaimEvent,
  Composition,
  EndEvent,
  Event,
  ExtendEvent,
  FinalState,
  History,
  LifeEvent,
  Op,
  ReturnEvent,
  SettleEvent,
  StartEvent,
  WriteEvent,
} from '../../history.ts'
import type { Books } from '../../../../src/timetable.ts'

const LEASE_MS = 1_000

/** Each leaves seq and time to the story. */
type Told = Event extends infer One ? (One extends Event ? Omit<One, 'seq' | 'trueMs'> : never) : never
type Outcome = SettleEvent['outcome']

export const DONE: Outcome = { kind: 'done' }
export const RETURN: Outcome = { kind: 'return' }
export const LOST: Outcome = { kind: 'lost' }
export const REJECTED: Outcome = { kind: 'dead', cause: 'handler', error: 'no', failed: false }
export const EXHAUSTED: Outcome = { kind: 'dead', cause: 'attempts', error: 'no', failed: true }
export const retry = (delayMs: number): Outcome => ({ kind: 'retry', delayMs, error: 'no' })
export const snooze = (delayMs: number): Outcome => ({ kind: 'snooze', delayMs })

export class Story {
  readonly #composition: Composition
  readonly #attemptsMax: number
  readonly #events: Event[] = []
  readonly #dueMs = new Map<string, number>()
  #trueMs = 0
  #calls = 0
  #runs = 0
  #hasHandlers = false
  #rate: History['rate'] = null
  #fastClaims = false

  constructor(composition: Composition = 'center', attemptsMax = 3) {
    this.#composition = composition
    this.#attemptsMax = attemptsMax
  }

  at(trueMs: number): this {
    this.#trueMs = trueMs
    return this
  }

  tell(told: Told): this {
    this.#events.push({ ...told, seq: this.#events.length, trueMs: this.#trueMs } as Event)
    return this
  }

  /** No run of a handler is left out. */
  withHandlers(): this {
    this.#hasHandlers = true
    return this
  }

  withRate(rate: History['rate']): this {
    this.#rate = rate
    return this
  }

  withFastClaims(): this {
    this.#fastClaims = true
    return this
  }

  /** The number of the last call. */
  get lastCall(): number {
    return this.#calls
  }

  call(
    op: Op,
    key: string,
    {
      version = null as string | null,
      life = 'n1/1',
      tx = null as number | null,
      delayMs = null as number | null,
      onConflict = null as CallEvent['onConflict'],
    } = {},
  ): this {
    const call = ++this.#calls
    return this.tell({ kind: 'call', call, life, op, key, version, tx, delayMs, onConflict })
  }

  answer(outcome: string | null, more: Partial<ReturnEvent> = {}): this {
    const nothing = { dueMs: null, inFlight: false, error: null, version: null }
    return this.tell({ kind: 'return', call: this.#calls, outcome, ...nothing, ...more })
  }

  write(op: WriteEvent['op'], key: string, outcome: string, more: Partial<WriteEvent> = {}): this {
    if (more.dueMs !== undefined && more.dueMs !== null && outcome !== 'kept')
      this.#dueMs.set(key, more.dueMs)
    return this.tell({
      kind: 'write',
      life: 'n1/1',
      op,
      key,
      version: null,
      outcome,
      dueMs: null,
      inFlight: false,
      nowMs: 0,
      tx: null,
      body: op === 'schedule' ? `body of ${more.version}` : null,
      tags: op === 'schedule' ? ['red', 'blue'] : [],
      priority: op === 'schedule' ? 'high' : null,
      ...more,
    })
  }

  /** Called, written and answered. */
  schedule(key: string, version: string, dueMs: number, outcome = 'created', inFlight = false): this {
    return this.call('schedule', key, { version })
      .write('schedule', key, outcome, { version, dueMs, inFlight })
      .answer(outcome, { dueMs, inFlight })
  }

  cancel(key: string, outcome = 'cancelled'): this {
    return this.call('cancel', key).write('cancel', key, outcome).answer(outcome)
  }

  reschedule(key: string, outcome: string, dueMs: number | null = null): this {
    return this.call('reschedule', key)
      .write('reschedule', key, outcome, { dueMs })
      .answer(outcome, { dueMs })
  }

  replay(key: string, outcome = 'replayed'): this {
    const dueMs = outcome === 'replayed' ? this.#trueMs : null
    return this.call('replay', key).write('replay', key, outcome, { dueMs }).answer(outcome)
  }

  purge(key: string, outcome = 'purged'): this {
    return this.call('purge', key).write('purge', key, outcome).answer(outcome)
  }

  get(key: string, outcome: string, version: string | null = null): this {
    return this.call('get', key).answer(outcome, { version })
  }

  claim(key: string, version: string, token: string, more: Partial<ClaimEvent> = {}): this {
    const dueMs = this.#dueMs.get(key) ?? 0
    return this.tell({
      kind: 'claim',
      life: 'n1/1',
      key,
      version,
      token,
      isAlone: false,
      leaseEndTrueMs: this.#trueMs + LEASE_MS,
      dueMs,
      ringMs: dueMs,
      failures: 0,
      deliveries: 1,
      ...more,
    })
  }

  /** A crash of the ledger undoes a claim. */
  forgotten(key: string, token: string): this {
    return this.tell({ kind: 'forgotten', key, token })
  }

  extend(token: string, keys: readonly string[], more: Partial<ExtendEvent> = {}): this {
    const leaseEndTrueMs = this.#trueMs + LEASE_MS
    return this.tell({ kind: 'extend', life: 'n1/1', token, keys, leaseEndTrueMs, ...more })
  }

  settle(key: string, token: string, outcome: Outcome, more: Partial<SettleEvent> = {}): this {
    return this.tell({
      kind: 'settle',
      life: 'n1/1',
      key,
      token,
      outcome,
      answer: 'settled',
      ringMs: null,
      ...more,
    })
  }

  stale(key: string, token: string, outcome: Outcome): this {
    return this.settle(key, token, outcome, { answer: 'stale' })
  }

  begin(key: string, token: string, isHeld = true): this {
    return this.tell({ kind: 'begin', life: 'n1/1', key, token, isHeld })
  }

  buried(key: string, cause: BuriedEvent['cause']): this {
    return this.tell({ kind: 'buried', life: 'n1/1', key, cause })
  }

  start(key: string, version: string, more: Partial<StartEvent> = {}): this {
    return this.tell({
      kind: 'start',
      life: 'n1/1',
      run: ++this.#runs,
      key,
      version,
      body: `body of ${version}`,
      id: `id of ${version}`,
      attempt: 1,
      deliveries: 1,
      dueMs: this.#dueMs.get(key) ?? 0,
      tags: ['red', 'blue'],
      priority: 'high',
      recordMs: this.#trueMs,
      ...more,
    })
  }

  /** Of the last start. */
  end(outcome: EndEvent['outcome'], life = 'n1/1', tx: number | null = null): this {
    return this.tell({ kind: 'end', life, run: this.#runs, outcome, delayMs: null, tx })
  }

  life(phase: LifeEvent['phase'], life = 'n1/1'): this {
    return this.tell({ kind: 'life', life, phase })
  }

  /** Claimed, started, ended and settled. */
  done(key: string, version: string, token: string, more: Partial<ClaimEvent> = {}): this {
    return this.claim(key, version, token, more).start(key, version).end('done').settle(key, token, DONE)
  }

  /**
   * How it is at the end, a minute later, when all is over that was due before: states with versions ('done v1'), and the
   * books. What is scheduled is the sum of the rest, unless it is given.
   */
  ends(
    states: Readonly<Record<string, string>>,
    books: Partial<Books>,
    more: Partial<History['ending']> = {},
    finals: Partial<FinalState> = {},
  ): History {
    const keys = Object.entries(states).map(([key, said]): FinalState => {
      const [state, version = null] = said.split(' ') as [FinalState['state'], string?]
      return { key, state, version, deadCause: null, failures: 0, dueMs: null, ...finals }
    })
    const none = { pending: 0, claimed: 0, done: 0, dead: 0, cancelled: 0, obsolete: 0, purged: 0 }
    const scheduled = Object.values({ ...none, ...books, scheduled: 0 }).reduce((sum, n) => sum + n, 0)
    const trueMs = this.#trueMs + 60_000
    return {
      composition: this.#composition,
      events: this.#events,
      attemptsMax: this.#attemptsMax,
      hasHandlers: this.#hasHandlers,
      rate: this.#rate,
      fastClaims: this.#fastClaims,
      ending: {
        trueMs,
        recordMs: trueMs,
        settledBeforeMs: trueMs - 10_000,
        keys,
        books: { ...none, scheduled, ...books },
        audit: this.#composition === 'redis' ? null : { balances: true, missing: 0, orphaned: 0 },
        config: null,
        timersLeft: 0,
        ...more,
      },
    }
  }
}
