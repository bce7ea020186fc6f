import { systemClock } from '../clock.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { type Instant, instantMs } from '../values/instant.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { checkOptions } from '../values/options.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import { Tocsin } from '../api/tocsin.ts'
import { VirtualClock } from './virtual-clock.ts'
import { WatchedTimetable } from './watched-timetable.ts'

export interface TestTocsinOptions {
  /** Where the clock starts: 2026-01-01T00:00:00Z by default. */
  readonly now?: Instant | undefined
  /**
   * How long, in real time, `advance` waits while nothing happens: 1s by default. Then it assumes that the handlers that
   * still run wait for the virtual clock, and moves on.
   */
  readonly patience?: Duration | undefined
}

const START = '2026-01-01T00:00:00Z'
const PATIENCE = '1s'

/** Pullers look for lost wakes, which cannot happen here. Once a day keeps the `advance` of a year short. */
const LOOK_MS = 86_400_000

/** Returns a Tocsin in memory with a virtual clock, which moves only by `advance`. */
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

  /** Use `testTocsin()`. `wrap` wraps the timetable, to inject faults. */
  constructor(
    clock: VirtualClock,
    patienceMs: number,
    wrap: (timetable: TaskStore) => TaskStore = (same) => same,
  ) {
    const random = predictable()
    const timetable = new WatchedTimetable(clock, random, LOOK_MS)
    super({ store: wrap(timetable), clock, random, logger: silentLogger })
    this.#clock = clock
    this.#timetable = timetable
    this.#patienceMs = patienceMs
  }

  /** Returns the time of the virtual clock. */
  now(): Date {
    return new Date(this.#clock.now())
  }

  /**
   * Moves the virtual clock. When it resolves, every task that fell due on the way has fired, in order and each at its own
   * time, with the retries and snoozes that followed.
   */
  async advance(by: Duration): Promise<void> {
    const byMs = durationMs(by, 'advance')
    this.#advancing = this.#advancing.then(() => this.#advance(byMs))
    await this.#advancing
  }

  /** Closes, and moves the virtual clock meanwhile: waiting for a hanging handler takes no real time. */
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

  /** The number of timers that are set on the virtual clock: 0 after `close`. */
  get waitingTimers(): number {
    return this.#clock.timerCount
  }

  /** Steps the wall clock forward or back, as an administrator or NTP would. Timers and leases are not affected. */
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

  /** Resolves when nothing happens without the clock: no task is claimed, and no code waits for a turn of the event loop. */
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

/** Returns a source without jitter: a fraction of one half is the middle of every spread. Ids are numbered. */
function predictable(): Random {
  let made = 0
  return { fraction: () => 0.5, uniqueId: () => `made-by-test-tocsin-${++made}` }
}
