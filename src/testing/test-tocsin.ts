import { systemClock } from '../clock.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { type Instant, instantMs } from '../values/instant.ts'
import { silentLogger } from '../telemetry/logger.ts'
import { type Meter, noMeter } from '../telemetry/meter.ts'
import { checkOptions } from '../values/options.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import { Tocsin } from '../api/tocsin.ts'
import { VirtualClock } from './virtual-clock.ts'
import { WatchedTimetable } from './watched-timetable.ts'

export interface TestTocsinOptions {
  /** The initial time of the virtual clock; 2026-01-01T00:00:00Z by default. */
  readonly now?: Instant | undefined
  /**
   * How long, in real time, `advance` waits while no task is claimed or settled; 1s by default. After that time
   * `advance` assumes that the running handlers wait for the virtual clock, and moves the clock.
   */
  readonly patience?: Duration | undefined
}

const START = '2026-01-01T00:00:00Z'
const PATIENCE = '1s'

/**
 * The interval at which pullers look for due tasks of which they were not notified. No notice is lost in this process,
 * so once a day is enough and keeps the `advance` of a year fast.
 */
const LOOK_MS = 86_400_000

/**
 * Returns a Tocsin in memory with a virtual clock. Only `advance` moves the clock. The setting `linger` of topics is 0
 * by default.
 */
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

  /** Use `testTocsin()` instead. `wrap` wraps the timetable, to inject faults; `meter` counts. */
  constructor(
    clock: VirtualClock,
    patienceMs: number,
    wrap: (timetable: TaskStore) => TaskStore = (same) => same,
    meter: Meter = noMeter,
  ) {
    const random = predictable()
    const timetable = new WatchedTimetable(clock, random, LOOK_MS)
    // Claims take no virtual time, so a batch is complete without waiting, and `advance` to a due time delivers it.
    const defaults = { linger: '0ms' }
    super({ store: wrap(timetable), clock, random, logger: silentLogger, meter, defaults })
    this.#clock = clock
    this.#timetable = timetable
    this.#patienceMs = patienceMs
  }

  /** Returns the time of the virtual clock. */
  now(): Date {
    return new Date(this.#clock.now())
  }

  /**
   * Moves the virtual clock. When the promise resolves, every task that became due has fired, in order and each at its
   * own time, and so have the retries and snoozes that followed.
   */
  async advance(by: Duration): Promise<void> {
    const byMs = durationMs(by, 'advance')
    this.#advancing = this.#advancing.then(() => this.#advance(byMs))
    await this.#advancing
  }

  /**
   * Closes this Tocsin. Moves the virtual clock until this Tocsin is closed, so that waiting for a hanging handler
   * takes no real time.
   */
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

  /** Returns the number of timers that are set on the virtual clock; 0 after `close`. */
  get waitingTimers(): number {
    return this.#clock.timerCount
  }

  /** Changes the wall clock by `byMs`, as an administrator or NTP would. Timers and leases are not affected. */
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

  /**
   * Resolves when nothing more happens until the clock moves: no task is claimed and unsettled, and no code waits for a
   * turn of the event loop. Also resolves after `patience` without a claim or an outcome.
   */
  async #quiet(): Promise<void> {
    let steps = this.#timetable.steps
    let sinceMs = systemClock.monotonicNow()
    for (let calmTurns = 0; calmTurns < 2;) {
      await systemClock.turn()
      // Gathered tasks wait for the clock.
      const isBusy = this.#clock.isTurning || this.#timetable.heldCount > this.gatheredCount
      calmTurns = isBusy ? 0 : calmTurns + 1
      if (this.#timetable.steps !== steps) {
        steps = this.#timetable.steps
        sinceMs = systemClock.monotonicNow()
      }
      if (systemClock.monotonicNow() - sinceMs > this.#patienceMs) return this.#timetable.stopWaiting()
    }
  }
}

/**
 * Returns a random source without jitter. The fraction is always one half, the middle of every range, and ids are
 * numbered.
 */
function predictable(): Random {
  let made = 0
  return { fraction: () => 0.5, uniqueId: () => `made-by-test-tocsin-${++made}` }
}
