import { TocsinError } from '../../src/errors.ts'
import type { Chance } from './chance.ts'
import type { RecordClock } from '../../src/lib/record-clock.ts'
import type { ProcessClock } from './process-clock.ts'
import type { MethodKind } from './remote.ts'
import type { WorldClock } from './world-clock.ts'

/** What can become of a call on a bad line. */
export type Fate =
  | 'fine'
  /** The call or its reply arrives late: perhaps after the caller's timeout, and after calls that were sent later. */
  | 'slow'
  | 'lost-request'
  | 'lost-reply'
  /** The connection breaks before it is sent, or after it took effect. */
  | 'reset-before'
  | 'reset-after'
  /** It is carried out twice. */
  | 'repeated'

export const FATES: readonly Fate[] = [
  'fine',
  'slow',
  'lost-request',
  'lost-reply',
  'reset-before',
  'reset-after',
  'repeated',
]

export type Noise = Readonly<Record<Fate, number>>

export interface LinkParts {
  readonly world: WorldClock
  /** Of the process that calls. */
  readonly clock: ProcessClock
  readonly chance: Chance
  readonly server: 'timetable' | 'ledger'
  /** Infinity: whatever is begun is waited for. */
  readonly callTimeoutMs: number
  readonly onFate: (fate: Fate) => void
  /** What the server's clock says. */
  readonly serverNow: () => number
  /** What the process knows of that: each answer brings what the clock said when it was decided. */
  readonly recordClock: RecordClock
}

const LATENCY_MS = 0.6
const SLOW_MS = 6_000
const REPEATED_AFTER_MS = 3_000

/** The line from one process to one server. */
export class Link {
  readonly #parts: LinkParts
  /** Null: all is well, and calls arrive in the order in which they were sent. */
  noise: Noise | null = null
  /** 'refuses': connections are refused. 'silent': whatever is sent gets no reply. */
  state: 'open' | 'refuses' | 'silent' = 'open'
  /** Only these cells cannot be reached: their server is away. */
  cutCells: ReadonlySet<number> | null = null
  #lastArrivalMs = 0

  constructor(parts: LinkParts) {
    this.#parts = parts
  }

  call<T>(
    doing: string,
    kind: MethodKind,
    cells: () => readonly number[],
    effect: () => Promise<T>,
  ): Promise<T> {
    const { clock, world, callTimeoutMs, serverNow, recordClock } = this.#parts
    const isRepeatable = kind === 'repeatable'
    const isExpiring = kind === 'expiring' && Number.isFinite(callTimeoutMs)
    const deadlineMs = clock.monotonicNow() + callTimeoutMs
    return new Promise((resolve, reject) => {
      let isSent = false
      const fail = () => reject(this.#cutOff(doing, isSent, isRepeatable))
      const callOff = Number.isFinite(callTimeoutMs) ? clock.after(callTimeoutMs, fail) : () => {}
      const answer = (say: () => void) =>
        clock.reach(() => {
          callOff()
          say()
        })
      // The caller of a call that may still take effect hears of the broken connection at its deadline.
      const failIn = (ms: number) => {
        if (!isSent || !isExpiring) world.after(ms, () => answer(fail))
      }
      const send = (isAgain: boolean) => {
        const { cutCells } = this
        const isCut =
          this.state !== 'open' || (cutCells !== null && cells().some((cell) => cutCells.has(cell)))
        if (isCut && this.state === 'silent') {
          isSent = true
          return
        }
        const fate = isCut ? 'reset-before' : this.#fate(isRepeatable)
        if (fate === 'reset-before') {
          failIn(this.#latencyMs())
          return
        }
        isSent = true
        if (fate === 'lost-request') return
        const notAfterMs = isExpiring ? recordClock.at(deadlineMs) : Number.POSITIVE_INFINITY
        const arrives = () => {
          const serverMs = serverNow()
          const hear = (say: () => void) =>
            clock.reach(() => {
              recordClock.heard(serverMs)
              say()
            })
          if (serverMs > notAfterMs) {
            const refuse = () => {
              isSent = false
              if (isAgain) answer(fail)
              else send(true)
            }
            this.#reply(fate, () => hear(refuse), failIn)
            return
          }
          // Carried out whatever has become of the caller; its answer is another matter.
          effect().then(
            (value) => this.#reply(fate, () => hear(() => answer(() => resolve(value))), failIn),
            (error: unknown) =>
              this.#reply(fate, () => hear(() => answer(() => reject(error as Error))), failIn),
          )
        }
        world.after(this.#arrivalInMs(fate), arrives)
        if (fate === 'repeated')
          world.after(this.#parts.chance.between(0, REPEATED_AFTER_MS), () => void effect().catch(() => {}))
      }
      send(false)
    })
  }

  /** What the server says unasked. May be lost. */
  tell(happen: () => void): void {
    const { world, clock, chance } = this.#parts
    if (this.state !== 'open' || clock.isDead) return
    const fate = this.noise === null ? 'fine' : chance.weighted(this.noise)
    if (fate.startsWith('lost') || fate.startsWith('reset')) return
    const inMs = fate === 'slow' ? chance.between(0, SLOW_MS) : this.#latencyMs()
    world.after(inMs, () => clock.reach(happen))
  }

  #reply(fate: Fate, say: () => void, failIn: (ms: number) => void): void {
    if (fate === 'lost-reply') return
    if (fate === 'reset-after') return failIn(this.#latencyMs())
    if (fate === 'slow') return void this.#parts.world.after(this.#parts.chance.between(0, SLOW_MS), say)
    say()
  }

  #fate(isRepeatable: boolean): Fate {
    if (this.noise === null) return 'fine'
    const drawn = this.#parts.chance.weighted(this.noise)
    // A call that must not be repeated is never sent twice.
    const fate = drawn === 'repeated' && !isRepeatable ? 'fine' : drawn
    if (fate !== 'fine') this.#parts.onFate(fate)
    return fate
  }

  #arrivalInMs(fate: Fate): number {
    const { world, chance } = this.#parts
    if (fate === 'slow') return chance.between(0, SLOW_MS)
    const atMs = world.nowMs + this.#latencyMs()
    if (this.noise !== null) return atMs - world.nowMs
    this.#lastArrivalMs = Math.max(this.#lastArrivalMs, atMs)
    return this.#lastArrivalMs - world.nowMs
  }

  #latencyMs(): number {
    return this.#parts.chance.fraction() * LATENCY_MS
  }

  /** In the words of the real adapters. */
  #cutOff(doing: string, isSent: boolean, isRepeatable: boolean): TocsinError {
    const { server } = this.#parts
    if (isSent && !isRepeatable) return new TocsinError('unknown-outcome', `${doing}: its answer is lost`)
    return new TocsinError(`${server}-unavailable`, `${doing}: the ${server} cannot be reached`)
  }
}
