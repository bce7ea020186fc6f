/**
 * The pull job of one slot. It sleeps until one of its cells has a task due, claims what there is capacity for, and hands
 * the tasks over. A wake shortens the sleep. There is no polling interval: the periodic look at each cell only guards
 * against a lost wake and a stepping clock.
 *
 * All times are monotonic ms of this process, computed from the timetable's answers ('rings in 250 ms'), never from this
 * machine's wall clock.
 */
import type { Clock } from '../clock.ts'
import type { Claim, Look } from '../timetable.ts'
import { Alarm } from '../lib/alarm.ts'

const NEVER = Number.POSITIVE_INFINITY

/** Delay before the retry of a failed claim; doubled after each failure up to the second figure. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000

/** What a puller claims for: a consumer, or the pending HTTP pulls of a topic. `R` is a reservation of capacity. */
export interface PullerHost<R> {
  /** Reserves capacity for a claim. Returns null if full, paused or rate limited; `whenFree` is called to try again. */
  reserve(whenFree: () => void): R | null
  /** Reserves capacity for one suspect. Returns null if it has to wait; `whenIdle` is called to try again. */
  reserveAlone(whenIdle: () => void): R | null
  /**
   * Claims the tasks of a reservation and takes them over; unused capacity is free again. Without a reservation the claim
   * takes no tasks and only rescues expired leases.
   */
  claim(cell: number, reservation: R | null): Promise<Claim>
  /** Returns when the cell has something to do, without claiming. */
  look(cell: number): Promise<Look>
  /** Returns the monotonic time at which `reserve` may succeed without a callback; Infinity for never. */
  nextReserveMs(): number
  /** Returns when `reserveAlone` may succeed. Infinity: wait for the callback of `whenIdle`. */
  nextAloneMs(whenIdle: () => void): number
  /** This puller is done for now: capacity that it was called for and did not need goes to the next one. */
  passOn(): void
  onError(error: unknown): void
}

/** The times at which a cell needs attention, by reason. */
interface CellTimes {
  ringMs: number
  /** `ringMs` by the timetable's clock. */
  ringRecordMs: number
  /** The earliest wake since the last claim was sent: the answer to that claim may not include it. */
  wokenMs: number
  wokenRecordMs: number
  suspectMs: number
  leaseEndMs: number
  lookMs: number
  /** Claims of this cell that failed in a row, and the time of the retry. Other cells do not wait for it. */
  failures: number
  notBeforeMs: number
}

/** The times of a cell before its first claim: due now. */
const UNKNOWN: CellTimes = {
  ringMs: 0,
  ringRecordMs: NEVER,
  wokenMs: NEVER,
  wokenRecordMs: NEVER,
  suspectMs: NEVER,
  leaseEndMs: NEVER,
  lookMs: 0,
  failures: 0,
  notBeforeMs: 0,
}

export class Puller<R> {
  readonly #clock: Clock
  readonly #host: PullerHost<R>
  readonly #lookMs: number
  readonly #times = new Map<number, CellTimes>()
  readonly #alarm: Alarm
  #loop: Promise<void> | null = null
  #isStopped = false
  #isNudged = false
  #wakeUp: (() => void) | null = null
  #sleepsUntilMs = NEVER

  constructor(clock: Clock, host: PullerHost<R>, cells: readonly number[], lookMs: number) {
    this.#clock = clock
    this.#host = host
    this.#lookMs = lookMs
    this.#alarm = new Alarm(clock, () => this.nudge())
    for (const cell of cells) this.#times.set(cell, { ...UNKNOWN })
  }

  start(): void {
    this.#loop ??= this.#run()
  }

  /** Stops claiming. Resolves when the claim under way is handed over. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#alarm.off()
    this.nudge()
    await this.#loop
  }

  /** The cell's next ring is `inMs` from now, at `ringRecordMs` by the timetable's clock. */
  wake(cell: number, inMs: number, ringRecordMs: number): void {
    const times = this.#times.get(cell)
    if (times === undefined) return
    // The store can be reached again: no need to wait for the retry of a failed claim.
    times.failures = 0
    times.notBeforeMs = 0
    const atMs = this.#clock.monotonicNow() + Math.max(0, inMs)
    if (atMs < times.wokenMs) {
      times.wokenMs = atMs
      times.wokenRecordMs = ringRecordMs
    }
    this.#takeWake(times)
    if (!this.#isStopped) this.#alarm.noLaterThan(times.ringMs)
  }

  /**
   * The timetable's clock has reached `recordMs`, as a claim of another puller just returned. Our own estimate lags by up
   * to a millisecond: without this, tasks of one moment would arrive in as many batches as there are pullers.
   */
  reached(recordMs: number): void {
    const nowMs = this.#clock.monotonicNow()
    // Our own timer may be due without having fired: timers have a resolution of one millisecond.
    let isDue = this.#sleepsUntilMs <= nowMs
    for (const times of this.#times.values()) {
      if (times.ringRecordMs > recordMs || times.ringMs <= nowMs) continue
      times.ringMs = nowMs
      isDue = true
    }
    if (isDue) this.nudge()
  }

  /** Starts the next pass now, because capacity or configuration changed. */
  readonly nudge = (): void => {
    this.#isNudged = true
    this.#wakeUp?.()
  }

  /** Makes one pass over the cells that are due, the most overdue first. Returns the time of the next pass. */
  async step(): Promise<number> {
    const seen = new Set<CellTimes>()
    let isStarved = false
    for (let next = this.#mostOverdue(seen); next !== null; next = this.#mostOverdue(seen)) {
      seen.add(next.times)
      if ((await this.#guardedPull(next.cell, next.times)) === 'no-capacity') isStarved = true
    }
    this.#host.passOn()
    return this.#isStopped ? NEVER : this.#nextMs(isStarved)
  }

  /** Computed anew after each claim: its answer may show that other cells are due, too. */
  #mostOverdue(seen: ReadonlySet<CellTimes>): { cell: number; times: CellTimes } | null {
    if (this.#isStopped) return null
    const nowMs = this.#clock.monotonicNow()
    let most: { cell: number; times: CellTimes } | null = null
    for (const [cell, times] of this.#times) {
      if (earliest(times) > nowMs || seen.has(times)) continue
      if (most === null || times.ringMs < most.times.ringMs) most = { cell, times }
    }
    return most
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isNudged = false
      const nextMs = await this.step()
      if (this.#isNudged) continue
      // Yield to the event loop between two passes, so that a long backlog does not starve timers and I/O.
      if (nextMs <= this.#clock.monotonicNow()) await this.#clock.turn()
      else await this.#sleepUntil(nextMs)
    }
  }

  async #guardedPull(cell: number, times: CellTimes): Promise<'pulled' | 'no-capacity' | 'waits'> {
    try {
      const pulled = await this.#pull(cell, times)
      times.failures = 0
      return pulled
    } catch (error) {
      this.#host.onError(error)
      const waitMs = Math.min(RETRY_MS_MIN * 2 ** times.failures++, RETRY_MS_MAX)
      times.notBeforeMs = this.#clock.monotonicNow() + waitMs
      return 'waits'
    }
  }

  async #pull(cell: number, times: CellTimes): Promise<'pulled' | 'no-capacity' | 'waits'> {
    const nowMs = this.#clock.monotonicNow()
    const alone = times.suspectMs <= nowMs ? this.#host.reserveAlone(this.nudge) : null
    if (alone !== null) {
      await this.#claim(cell, times, alone)
      return 'pulled'
    }
    const isDue = times.ringMs <= nowMs
    const reservation = isDue ? this.#host.reserve(this.nudge) : null
    // Expired leases are rescued by a claim even if there is no capacity for tasks.
    if (reservation !== null || times.leaseEndMs <= nowMs) await this.#claim(cell, times, reservation)
    else if (times.lookMs <= nowMs) await this.#look(cell, times)
    return !isDue ? 'waits' : reservation === null ? 'no-capacity' : 'pulled'
  }

  async #claim(cell: number, times: CellTimes, reservation: R | null): Promise<void> {
    times.wokenMs = NEVER
    const claim = await this.#host.claim(cell, reservation)
    const nowMs = this.#clock.monotonicNow()
    const inMs = (recordMs: number | null) =>
      recordMs === null ? NEVER : nowMs + Math.max(0, recordMs - claim.nowMs)
    times.ringMs = inMs(claim.nextRingMs)
    times.ringRecordMs = claim.nextRingMs ?? NEVER
    this.#takeWake(times)
    times.suspectMs = inMs(claim.nextSuspectMs)
    times.leaseEndMs = claim.nextLeaseEndInMs === null ? NEVER : nowMs + claim.nextLeaseEndInMs
    times.lookMs = this.#nextLookMs(nowMs)
  }

  /** Guards against a lost wake and a step of the timetable's clock. A look only moves times nearer, never away. */
  async #look(cell: number, times: CellTimes): Promise<void> {
    const { ringInMs, leaseEndInMs } = await this.#host.look(cell)
    const nowMs = this.#clock.monotonicNow()
    if (ringInMs !== null && nowMs + ringInMs < times.ringMs) {
      times.ringMs = nowMs + ringInMs
      times.ringRecordMs = NEVER
    }
    if (leaseEndInMs !== null) times.leaseEndMs = Math.min(times.leaseEndMs, nowMs + leaseEndInMs)
    times.lookMs = this.#nextLookMs(nowMs)
  }

  /** Returns a whole multiple of the interval, so that all cells are looked at together. */
  #nextLookMs(nowMs: number): number {
    return (Math.floor(nowMs / this.#lookMs) + 1) * this.#lookMs
  }

  /** Applies a wake that arrived since the last claim was sent, if it rings before the answer of that claim. */
  #takeWake(times: CellTimes): void {
    if (times.wokenMs >= times.ringMs) return
    times.ringMs = times.wokenMs
    times.ringRecordMs = times.wokenRecordMs
  }

  /** A starved puller is nudged when there is capacity: until then it does not wake up for tasks that are due. */
  #nextMs(isStarved: boolean): number {
    const nowMs = this.#clock.monotonicNow()
    let nextMs = isStarved ? this.#host.nextReserveMs() : NEVER
    for (const times of this.#times.values()) {
      const ringMs = isStarved && times.ringMs <= nowMs ? NEVER : times.ringMs
      // A suspect that is due waits until the host is idle. The host nudges, or returns when to try again.
      const suspectMs = times.suspectMs <= nowMs ? this.#host.nextAloneMs(this.nudge) : times.suspectMs
      const soonestMs = Math.min(ringMs, suspectMs, times.leaseEndMs, times.lookMs)
      nextMs = Math.min(nextMs, Math.max(soonestMs, times.notBeforeMs))
    }
    return nextMs
  }

  async #sleepUntil(atMs: number): Promise<void> {
    this.#alarm.noLaterThan(atMs)
    this.#sleepsUntilMs = atMs
    await new Promise<void>((resolve) => {
      this.#wakeUp = resolve
    })
    this.#wakeUp = null
    this.#sleepsUntilMs = NEVER
  }
}

function earliest({ ringMs, suspectMs, leaseEndMs, lookMs, notBeforeMs }: CellTimes): number {
  return Math.max(Math.min(ringMs, suspectMs, leaseEndMs, lookMs), notBeforeMs)
}
