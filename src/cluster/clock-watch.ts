import type { Clock } from '../clock.ts'
import type { Logger } from '../telemetry/logger.ts'

/** A warning is logged if the skew is above this. Clocks synchronised by NTP differ by a few milliseconds. */
const SKEW_MS_MAX = 50

/** The maximum round trip of a reading. A reading with a longer round trip is too inexact, and is ignored. */
const TRIP_MS_MAX = 200

/** The minimum time between two warnings about the same two clocks. */
const SAID_EVERY_MS = 3_600_000

/** The servers whose clocks are read: the board's server and the timetable's server. Both may be the same server. */
export type TimeServer = 'board' | 'timetable'

/** The offset of a clock from this process's monotonic clock. */
interface Reading {
  readonly offsetMs: number
  /** The error of the offset: half the round trip. */
  readonly blurMs: number
}

/**
 * Measures the skew between the clocks of this machine, the board and the timetable, and logs warnings. Skew never
 * makes a task ring early. But a machine whose clock is wrong logs wrong times and computes wrong `at` instants. And if
 * the clocks of the two servers differ, tasks may ring late by the difference.
 */
export class ClockWatch {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #saidMs = new Map<string, number>()
  #board: Reading | null = null
  /** How far this machine's clock is ahead of the board's clock. Null if not measured yet. */
  aheadMs: number | null = null

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** Records a server's time, just received. `sentMs` is when the request was sent, by the monotonic clock. */
  record(server: TimeServer, serverMs: number, sentMs: number): void {
    const nowMs = this.#clock.monotonicNow()
    const blurMs = (nowMs - sentMs) / 2
    if (2 * blurMs > TRIP_MS_MAX) return
    const reading = { offsetMs: serverMs - (sentMs + blurMs), blurMs }
    if (server === 'timetable') return this.#compareServers(reading)
    this.#board = reading
    const mine = { offsetMs: this.#clock.now() - nowMs, blurMs: 0 }
    this.aheadMs = Math.round(mine.offsetMs - reading.offsetMs)
    this.#warn(
      'node',
      mine,
      reading,
      (apart) =>
        `this machine's clock is ${apart} the server's: tasks fire on time all the same, but set it right (NTP)`,
    )
  }

  #compareServers(timetable: Reading): void {
    if (this.#board === null) return
    this.#warn(
      'servers',
      timetable,
      this.#board,
      (apart) =>
        `the clock of Redis is ${apart} the ledger's: no task fires early, but some fire that much later; set both right (NTP)`,
    )
  }

  #warn(what: string, one: Reading, other: Reading, message: (apart: string) => string): void {
    const aheadMs = Math.round(one.offsetMs - other.offsetMs)
    const surelyMs = Math.abs(aheadMs) - one.blurMs - other.blurMs
    const nowMs = this.#clock.monotonicNow()
    if (surelyMs <= SKEW_MS_MAX || nowMs < (this.#saidMs.get(what) ?? Number.NEGATIVE_INFINITY)) return
    this.#saidMs.set(what, nowMs + SAID_EVERY_MS)
    const apart = `${Math.abs(aheadMs)} ms ${aheadMs > 0 ? 'ahead of' : 'behind'}`
    this.#logger.warn({ aheadMs }, message(apart))
  }
}
