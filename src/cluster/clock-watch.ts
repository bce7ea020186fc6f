import type { Clock } from '../clock.ts'
import type { Logger } from '../telemetry/logger.ts'

/** Clocks that are kept by NTP differ by a few milliseconds. */
const SKEW_MS_MAX = 50

/** An answer that was under way for longer says too little. */
const TRIP_MS_MAX = 200

/** A clock that stays wrong is told of so often. */
const SAID_EVERY_MS = 3_600_000

/** Servers that say what time it is: where the board is, and where the tasks ring. They may be one and the same. */
export type TimeServer = 'board' | 'timetable'

/** A clock against this process's monotonic one. */
interface Reading {
  readonly offsetMs: number
  /** How far off that may be: a server answered at some moment of the trip. */
  readonly blurMs: number
}

/**
 * How far the clocks are apart: this machine's, the one of the board, and the one that tasks ring by. None of it makes a
 * task early. But a machine that is off logs other moments, and whoever computes an `at` on it means another one; and
 * between the two servers a task rings as much later as their clocks differ.
 */
export class ClockWatch {
  readonly #clock: Clock
  readonly #logger: Logger
  readonly #saidMs = new Map<string, number>()
  #board: Reading | null = null
  /** How far this machine's clock is ahead of the board's. Null: not measured yet. */
  aheadMs: number | null = null

  constructor(clock: Clock, logger: Logger) {
    this.#clock = clock
    this.#logger = logger
  }

  /** A server said what time it is, to a question that was sent then, by the monotonic clock. */
  heard(server: TimeServer, serverMs: number, sentMs: number): void {
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
