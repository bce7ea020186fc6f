/**
 * The pull job of one slot. It sleeps until a task of one of its cells is due. Then it reserves capacity at its host,
 * and the host claims up to that many tasks. A wake, the timetable's notice of an earlier ring time, shortens the
 * sleep. The puller does not poll for tasks: the periodic look at each cell only protects against a lost wake and a
 * clock that jumps.
 *
 * All times are monotonic milliseconds of this process, except for `…RecordMs`, which are times of the timetable's
 * clock. Both come from the timetable's answers ('rings in 250 ms'), never from this machine's wall clock.
 */
import type { Clock } from '../clock.ts'
import type { Claim, Look } from '../timetable.ts'
import { Alarm } from '../lib/alarm.ts'
import type { SuspectWaiter } from './capacity.ts'

const NEVER = Number.POSITIVE_INFINITY

/** The delay before the first retry of a failed claim, and the maximum delay. The delay doubles after each failure. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000

/** A wake arrives within this time, or it is lost. */
const WAKE_MS = 1_000

/** The host of a puller: a consumer, or the pending HTTP pulls of a topic. `R` is a reservation of capacity. */
export interface PullerHost<R> {
  /**
   * Reserves capacity for a claim. Returns null if the host is full, paused or rate limited. The puller tries again
   * when `whenFree` is called, or at the time of `nextReserveMs`.
   */
  reserve(whenFree: () => void): R | null
  /**
   * Reserves capacity for one suspect. Returns null if the suspect has to wait. The puller tries again when `waiter` is
   * called, or at the time of `nextAloneMs`.
   */
  reserveAlone(waiter: SuspectWaiter): R | null
  /**
   * Claims tasks for a reservation and runs or delivers them. Reserved capacity that was not used is free again. A
   * claim without a reservation takes no tasks. It only makes tasks with expired leases available again.
   */
  claim(cell: number, reservation: R | null): Promise<Claim>
  /** Returns when the cell's next task rings and its next lease ends, without claiming. */
  look(cell: number): Promise<Look>
  /** Returns the monotonic time at which `reserve` may succeed; Infinity if the callback `whenFree` must come first. */
  nextReserveMs(): number
  /**
   * Returns the monotonic time at which `reserveAlone` may succeed; Infinity if a call of `waiter` must come first.
   */
  nextAloneMs(waiter: SuspectWaiter): number
  /** Called when a look, and no wake, led to these tasks. */
  foundByLook(count: number): void
  /**
   * Called at the end of a pass. Offers the capacity that this puller did not need to the next puller. `offered` is the
   * puller if the host was offered to it for a suspect before the pass began, and null otherwise.
   */
  passOn(offered: SuspectWaiter | null): void
  onError(error: unknown): void
}

/** One moment by two clocks: the monotonic clock of this process, and the timetable's clock. */
export interface Moment {
  readonly atMs: number
  readonly recordMs: number
}

/** The times at which the puller must act on a cell, by reason. */
interface CellTimes {
  /** In the past if the cell's next task is overdue, so that the most overdue cell comes first. */
  ringMs: number
  /** The time of `ringMs` on the timetable's clock; Infinity if it is not known, or if no task waits. */
  ringRecordMs: number
  /**
   * The earliest ring time of the wakes that arrived after the last claim was sent; Infinity if there were none. The
   * answer to that claim may not take these wakes into account.
   */
  wokenMs: number
  wokenRecordMs: number
  suspectMs: number
  leaseEndMs: number
  lookMs: number
  /** The time of the look that told the ring time; null if a claim or a wake told it. */
  foundMs: number | null
  /**
   * The number of claims of this cell that failed in a row, and the time of the retry. Other cells do not wait for the
   * retry.
   */
  failures: number
  notBeforeMs: number
}

/** The times of a cell before its first claim: the cell is due now. */
const UNKNOWN: CellTimes = {
  ringMs: 0,
  ringRecordMs: NEVER,
  wokenMs: NEVER,
  wokenRecordMs: NEVER,
  suspectMs: NEVER,
  leaseEndMs: NEVER,
  lookMs: 0,
  foundMs: null,
  failures: 0,
  notBeforeMs: 0,
}

export class Puller<R> implements SuspectWaiter {
  readonly #clock: Clock
  readonly #host: PullerHost<R>
  readonly #lookMs: number
  readonly #times = new Map<number, CellTimes>()
  readonly #alarm: Alarm
  #loop: Promise<void> | null = null
  #isStopped = false
  #isNudged = false
  #isOffered = false
  #wakeUp: (() => void) | null = null
  #sleepsUntilMs = NEVER
  /** When the claim that is under way was sent; Infinity if none is under way. */
  #claimSentMs = NEVER

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

  /** Stops claiming. Resolves when the tasks of a claim under way are handed over. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#alarm.off()
    this.nudge()
    await this.#loop
  }

  /** Notes that the cell's next task rings in `inMs`, at `ringRecordMs` on the timetable's clock. */
  wake(cell: number, inMs: number, ringRecordMs: number): void {
    const times = this.#times.get(cell)
    if (times === undefined) return
    // The wake shows that the store is reachable again, so do not wait before the retry of a failed claim.
    times.failures = 0
    times.notBeforeMs = 0
    times.foundMs = null
    const nowMs = this.#clock.monotonicNow()
    const atMs = nowMs + inMs
    if (atMs < times.wokenMs) {
      times.wokenMs = atMs
      times.wokenRecordMs = ringRecordMs
    }
    this.#takeWake(times)
    if (!this.#isStopped) this.#alarm.noLaterThan(Math.max(nowMs, times.ringMs))
  }

  /**
   * Called when a claim of any puller returned `recordMs`, the time of the timetable's clock. Makes the cells due whose
   * ring time has come by that clock. This puller's own estimate of that clock lags by up to a millisecond. Without
   * this call, tasks with the same ring time would arrive in one batch per puller. Returns the first ring time of the
   * cells that are due now; null if this puller has nothing new to do.
   */
  reached(recordMs: number): number | null {
    const nowMs = this.#clock.monotonicNow()
    // The timer of this puller may be due without having fired, because timers have a resolution of one millisecond.
    let isDue = this.#sleepsUntilMs <= nowMs
    let firstMs = NEVER
    for (const times of this.#times.values()) {
      if (times.ringRecordMs <= recordMs && times.ringMs > nowMs) {
        times.ringMs = nowMs + times.ringRecordMs - recordMs
        isDue = true
      }
      firstMs = Math.min(firstMs, times.ringMs)
    }
    return isDue ? firstMs : null
  }

  /**
   * Returns true if tasks that ring by `by` are being claimed or wait to be claimed. The timetable's clock counts: this
   * puller's own estimate may be late by the duration of a claim. A cell whose claim failed does not count, and neither
   * does any cell while a claim has been under way for `patienceMs`.
   */
  isDueBy(by: Moment, patienceMs: number): boolean {
    if (this.#claimSentMs + patienceMs <= this.#clock.monotonicNow()) return false
    for (const { ringMs, ringRecordMs, failures } of this.#times.values())
      if ((ringMs <= by.atMs || ringRecordMs <= by.recordMs) && failures === 0) return true
    return false
  }

  /** Starts the next pass now, because capacity or configuration changed. */
  readonly nudge = (): void => {
    this.#isNudged = true
    this.#wakeUp?.()
  }

  /** Starts the next pass now, with the cells that have a suspect first: the host is kept idle for it. */
  readonly offerAlone = (): void => {
    this.#isOffered = true
    this.nudge()
  }

  /**
   * Makes one pass over the cells that are due, the most overdue cell first. If the host is kept idle for a suspect of
   * this puller, the cells with suspects come before the others. Returns the monotonic time of the next pass; Infinity
   * after `stop`.
   */
  async step(): Promise<number> {
    const isOffered = this.#isOffered
    this.#isOffered = false
    const seen = new Set<CellTimes>()
    const next = () => this.#mostOverdue(seen, isOffered)
    let isStarved = false
    for (let due = next(); due !== null; due = next()) {
      seen.add(due.times)
      if ((await this.#guardedPull(due.cell, due.times)) === 'no-capacity') isStarved = true
    }
    this.#host.passOn(isOffered ? this : null)
    return this.#isStopped ? NEVER : this.#nextMs(isStarved)
  }

  /**
   * Returns the most overdue cell that is not in `seen`; null if no other cell is due. A pass calls this after each
   * claim, because more cells may be due by then.
   */
  #mostOverdue(
    seen: ReadonlySet<CellTimes>,
    suspectsFirst: boolean,
  ): { cell: number; times: CellTimes } | null {
    if (this.#isStopped) return null
    const nowMs = this.#clock.monotonicNow()
    let most: { cell: number; times: CellTimes } | null = null
    let mostMs = NEVER
    for (const [cell, times] of this.#times) {
      if (earliest(times) > nowMs || seen.has(times)) continue
      const ringMs = suspectsFirst && times.suspectMs <= nowMs ? Number.NEGATIVE_INFINITY : times.ringMs
      if (most !== null && ringMs >= mostMs) continue
      most = { cell, times }
      mostMs = ringMs
    }
    return most
  }

  async #run(): Promise<void> {
    while (!this.#isStopped) {
      this.#isNudged = false
      const nextMs = await this.step()
      if (this.#isNudged) continue
      // Yield to the event loop between two passes, so that a long backlog does not block timers and I/O.
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
    const alone = times.suspectMs <= nowMs ? this.#host.reserveAlone(this) : null
    if (alone !== null) {
      await this.#claim(cell, times, alone)
      return 'pulled'
    }
    const isDue = times.ringMs <= nowMs
    const reservation = isDue ? this.#host.reserve(this.nudge) : null
    // A claim makes tasks with expired leases available again, even if there is no capacity to take tasks.
    if (reservation !== null || times.leaseEndMs <= nowMs) await this.#claim(cell, times, reservation)
    else if (times.lookMs <= nowMs) await this.#look(cell, times)
    return !isDue ? 'waits' : reservation === null ? 'no-capacity' : 'pulled'
  }

  async #claim(cell: number, times: CellTimes, reservation: R | null): Promise<void> {
    times.wokenMs = NEVER
    const sentMs = this.#clock.monotonicNow()
    this.#claimSentMs = sentMs
    let claim: Claim
    try {
      claim = await this.#host.claim(cell, reservation)
    } finally {
      this.#claimSentMs = NEVER
    }
    if (times.foundMs !== null) this.#host.foundByLook(unannounced(claim, sentMs - times.foundMs))
    times.foundMs = null
    const nowMs = this.#clock.monotonicNow()
    const inMs = (recordMs: number | null) => (recordMs === null ? NEVER : nowMs + recordMs - claim.nowMs)
    times.ringMs = passesOver(claim) ? nowMs : inMs(claim.nextRingMs)
    times.ringRecordMs = claim.nextRingMs ?? NEVER
    this.#takeWake(times)
    times.suspectMs = inMs(claim.nextSuspectMs)
    times.leaseEndMs = claim.nextLeaseEndInMs === null ? NEVER : nowMs + claim.nextLeaseEndInMs
    times.lookMs = this.#nextLookMs(nowMs)
  }

  /**
   * Asks the timetable for the cell's times, in case a wake was lost or the timetable's clock jumped. A look only makes
   * times earlier, never later.
   */
  async #look(cell: number, times: CellTimes): Promise<void> {
    const { ringInMs, leaseEndInMs } = await this.#host.look(cell)
    const nowMs = this.#clock.monotonicNow()
    if (ringInMs !== null && nowMs + ringInMs < times.ringMs) {
      // Two estimates of one ring time differ by a little. A ring time of which no wake has told differs by more.
      if (nowMs + ringInMs + WAKE_MS <= times.ringMs) times.foundMs = nowMs
      times.ringMs = nowMs + ringInMs
      times.ringRecordMs = NEVER
    }
    if (leaseEndInMs !== null) times.leaseEndMs = Math.min(times.leaseEndMs, nowMs + leaseEndInMs)
    times.lookMs = this.#nextLookMs(nowMs)
  }

  /** Returns the next multiple of the look interval, so that all cells are looked at together. */
  #nextLookMs(nowMs: number): number {
    return (Math.floor(nowMs / this.#lookMs) + 1) * this.#lookMs
  }

  /**
   * Applies the wakes that arrived after the last claim was sent, if their ring time is earlier than the ring time in
   * the answer to that claim.
   */
  #takeWake(times: CellTimes): void {
    if (times.wokenMs >= times.ringMs) return
    times.ringMs = times.wokenMs
    times.ringRecordMs = times.wokenRecordMs
  }

  /**
   * Returns the time of the next pass. If the host has no capacity (`isStarved`), tasks that are due do not determine
   * this time: the host calls `nudge` when it has capacity.
   */
  #nextMs(isStarved: boolean): number {
    const nowMs = this.#clock.monotonicNow()
    let nextMs = isStarved ? this.#host.nextReserveMs() : NEVER
    for (const times of this.#times.values()) {
      const ringMs = isStarved && times.ringMs <= nowMs ? NEVER : times.ringMs
      // A suspect that is due waits until the host is idle. The host calls `nudge`, or returns when to try again.
      const suspectMs = times.suspectMs <= nowMs ? this.#host.nextAloneMs(this) : times.suspectMs
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

/**
 * Tells pullers of one topic that the timetable's clock has reached `recordMs`. The puller whose task rang first starts
 * first: after a stall, tasks of several slots are due, and few of them may fit the capacity.
 */
export function reachedBy<R>(pullers: Iterable<Puller<R>>, recordMs: number): void {
  const due: { readonly puller: Puller<R>; readonly firstMs: number }[] = []
  for (const puller of pullers) {
    const firstMs = puller.reached(recordMs)
    if (firstMs !== null) due.push({ puller, firstMs })
  }
  if (due.length > 1) due.sort((a, b) => (a.firstMs < b.firstMs ? -1 : 1))
  for (const { puller } of due) puller.nudge()
}

/**
 * Returns true if the claim took tasks that rang after a task which still waits with a lower priority. That task must
 * not put its cell before the others again and again, while tasks of higher priority arrive.
 */
function passesOver({ tasks, nowMs, nextRingMs }: Claim): boolean {
  return nextRingMs !== null && nextRingMs < nowMs && tasks.some(({ ringMs }) => ringMs > nextRingMs)
}

function earliest({ ringMs, suspectMs, leaseEndMs, lookMs, notBeforeMs }: CellTimes): number {
  return Math.max(Math.min(ringMs, suspectMs, leaseEndMs, lookMs), notBeforeMs)
}

/**
 * Returns how many tasks of a claim no wake had told of, if a look told the ring time `sinceMs` before the claim. A wake of
 * a task that was due at the look may just be late.
 */
function unannounced({ tasks, nowMs }: Claim, sinceMs: number): number {
  return tasks.filter(({ ringMs }) => sinceMs >= WAKE_MS || nowMs - ringMs >= WAKE_MS).length
}
