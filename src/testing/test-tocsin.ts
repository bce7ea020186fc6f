import { systemClock } from '../clock.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { type Instant, instantMs } from '../values/instant.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { checkOptions } from '../values/options.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import type { Timetable } from '../timetable.ts'
import { Tocsin } from '../api/tocsin.ts'
import { VirtualClock } from './virtual-clock.ts'
import { WatchedTimetable } from './watched-timetable.ts'

export interface TestTocsinOptions {
  /** Where the clock starts: 2026-01-01T00:00:00Z by default. */
  readonly now?: Instant | undefined
  /**
   * How long, in real time, `advance` waits while nothing happens before it takes the handlers that still run to be
   * waiting for the clock, and moves on: 1s by default.
   */
  readonly patience?: Duration | undefined
}

const START = '2026-01-01T00:00:00Z'
const PATIENCE = '1s'

/** Puller looks guard against what cannot happen here; once a day keeps a year's `advance` short. */
const LOOK_MS = 86_400_000

/** A Tocsin in memory, on a clock of its own that stands still until it is told to move. */
export async function testTocsin(options: TestTocsinOptions = {}): Promise<TestTocsin> {
  checkOptions(options, ['now', 'patience'], 'testTocsin')
  const clock = new VirtualClock(instantMs(options.now ?? START, 'now'))
  return new TestTocsin(clock, durationMs(options.patience ?? PATIENCE, 'patience'))
}

export class TestTocsin extends Tocsin {
  readonly #clock: VirtualClock
  readonly #timetable: WatchedTimetable
  readonly #patienceMs: number
  #advancing: Promise<void> = Promise.resolve()

  /** Use `testTocsin()`. `wrap` stands between the engine and its timetable: the place to inject faults. */
  constructor(
    clock: VirtualClock,
    patienceMs: number,
    wrap: (timetable: Timetable) => TaskStore = (same) => same,
  ) {
    const random = predictable()
    const timetable = new WatchedTimetable(clock, random, LOOK_MS)
    super({ store: wrap(timetable), clock, random, logger: silentLogger })
    this.#clock = clock
    this.#timetable = timetable
    this.#patienceMs = patienceMs
  }

  /** The virtual moment. */
  now(): Date {
    return new Date(this.#clock.now())
  }

  /**
   * Lets time pass. When it resolves, everything that fell due on the way has fired, in order, each at its own
   * moment, with the retries and snoozes that followed from it.
   */
  async advance(by: Duration): Promise<void> {
    const byMs = durationMs(by, 'advance')
    this.#advancing = this.#advancing.then(() => this.#advance(byMs))
    await this.#advancing
  }

  /** Lets time pass as long as it takes: a handler that hangs is waited for on the virtual clock, not on yours. */
  override async close(options: { readonly timeout?: Duration | undefined } = {}): Promise<void> {
    const closed = super.close(options)
    let isClosed = false
    const ended = closed.finally(() => {
      isClosed = true
    })
    ended.catch(() => {})
    await systemClock.turn()
    while (!isClosed) await Promise.race([ended, this.advance('1s')])
    await this.#advancing
    await closed
  }

  /** Timers that wait on the virtual clock: none after `close`. */
  get waitingTimers(): number {
    return this.#clock.timerCount
  }

  /** The wall clock alone jumps by this much, forward or back, as when somebody sets it. */
  stepClock(byMs: number): void {
    this.#clock.stepWall(byMs)
  }

  async #advance(byMs: number): Promise<void> {
    const untilMs = this.#clock.monotonicNow() + byMs
    await this.#quiet()
    while (this.#clock.nextTimerMs() <= untilMs) {
      this.#clock.moveTo(this.#clock.nextTimerMs())
      await this.#quiet()
    }
    this.#clock.moveTo(untilMs)
    await this.#quiet()
  }

  /** Until nothing moves any more by itself: no task in anybody's hands, nobody waiting for a turn. */
  async #quiet(): Promise<void> {
    let steps = this.#timetable.steps
    let sinceMs = systemClock.monotonicNow()
    for (let calmTurns = 0; calmTurns < 2;) {
      await systemClock.turn()
      calmTurns = this.#clock.isTurning || this.#timetable.isBusy ? 0 : calmTurns + 1
      if (this.#timetable.steps !== steps) {
        steps = this.#timetable.steps
        sinceMs = systemClock.monotonicNow()
      }
      if (systemClock.monotonicNow() - sinceMs > this.#patienceMs) return this.#timetable.stopWaiting()
    }
  }
}

/** No jitter: a fraction of one half is the middle of every spread. Names are numbered. */
function predictable(): Random {
  let made = 0
  return { fraction: () => 0.5, uniqueId: () => `made-by-test-tocsin-${++made}` }
}
