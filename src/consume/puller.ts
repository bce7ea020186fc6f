/**
 * The pull job of one slot. It sleeps until the next moment at which one of its cells has something to do, claims
 * what there is room for, and hands it over; an earlier arrival wakes it. There is no polling interval: the look
 * that each cell gets now and then only guards against a lost wake and a stepping clock.
 *
 * All its times are monotonic ms of this process, computed from what the timetable said ('rings in 250 ms'), never
 * from this machine's wall clock.
 */
import type { Clock } from '../clock.ts'
import type { Claim, Look } from '../timetable.ts'
import { Alarm } from '../lib/alarm.ts'

const NEVER = Number.POSITIVE_INFINITY

/** After a failed claim, the wait before the next try; doubled up to the second figure. */
const RETRY_MS_MIN = 100
const RETRY_MS_MAX = 5_000

export interface PullerHost {
  /** Reserves room for tasks. 0: full, paused, or held to a rate; `whenRoom` is called when it is worth asking again. */
  reserve(whenRoom: () => void): number
  /** Reserves the consumer for one suspect. False: not yet; `whenIdle` is called when it is worth asking again. */
  reserveAlone(whenIdle: () => void): boolean
  /** Claims up to `limit` tasks and takes them over; what was reserved and not needed is given back. */
  claim(cell: number, limit: number, from: 'lanes' | 'suspects'): Promise<Claim>
  /** Asks when the cell has something to do, and does nothing about it. */
  look(cell: number): Promise<Look>
  /** When it is worth asking for room again without being called: monotonic, Infinity for never. */
  nextRoomMs(): number
  /** When it is worth asking to be alone again. Infinity: `whenIdle` is called. */
  nextAloneMs(whenIdle: () => void): number
  /** This puller is done for now: room that it was called for and did not need goes to the next. */
  passOn(): void
  onError(error: unknown): void
}

/** When each cell wants to be looked at, and why. */
interface CellTimes {
  ringMs: number
  /** The same moment by the timetable's clock. */
  ringRecordMs: number
  /** The earliest wake since the last claim was sent: its answer may not know of it. */
  wokenMs: number
  wokenRecordMs: number
  suspectMs: number
  leaseEndMs: number
  lookMs: number
  /** Claims of this cell that failed in a row, and when to try again: the other cells do not wait for it. */
  failures: number
  notBeforeMs: number
}

/** Before the first look: look now. */
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

export class Puller {
  readonly #clock: Clock
  readonly #host: PullerHost
  readonly #lookMs: number
  readonly #times = new Map<number, CellTimes>()
  readonly #alarm: Alarm
  #loop: Promise<void> | null = null
  #stopped = false
  #nudged = false
  #wakeUp: (() => void) | null = null
  #sleepsUntilMs = NEVER

  constructor(clock: Clock, host: PullerHost, cells: readonly number[], lookMs: number) {
    this.#clock = clock
    this.#host = host
    this.#lookMs = lookMs
    this.#alarm = new Alarm(clock, () => this.nudge())
    for (const cell of cells) this.#times.set(cell, { ...UNKNOWN })
  }

  start(): void {
    this.#loop ??= this.#run()
  }

  /** Claims nothing more; resolves when the claim under way is handed over. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#alarm.off()
    this.nudge()
    await this.#loop
  }

  /** The cell's next ring is `inMs` from now, at `ringRecordMs` by the timetable's clock. */
  wake(cell: number, inMs: number, ringRecordMs: number): void {
    const times = this.#times.get(cell)
    if (times === undefined) return
    // Somebody spoke of this cell, or its store is back: what failed before says nothing any more.
    times.failures = 0
    times.notBeforeMs = 0
    const atMs = this.#clock.monotonicNow() + Math.max(0, inMs)
    if (atMs < times.wokenMs) {
      times.wokenMs = atMs
      times.wokenRecordMs = ringRecordMs
    }
    this.#takeWake(times)
    if (!this.#stopped) this.#alarm.noLaterThan(times.ringMs)
  }

  /**
   * The timetable's clock has reached `recordMs`, as a claim of some other puller just heard. Our own estimate lags
   * by up to a millisecond: without this, tasks of one moment would come in as many pieces as there are pullers.
   */
  reached(recordMs: number): void {
    const nowMs = this.#clock.monotonicNow()
    // Its own timer may be due and not have rung: timers go by whole milliseconds.
    let rings = this.#sleepsUntilMs <= nowMs
    for (const times of this.#times.values()) {
      if (times.ringRecordMs > recordMs || times.ringMs <= nowMs) continue
      times.ringMs = nowMs
      rings = true
    }
    if (rings) this.nudge()
  }

  /** Something changed (room, configuration): look again now. */
  readonly nudge = (): void => {
    this.#nudged = true
    this.#wakeUp?.()
  }

  /** One pass over the cells whose time has come, the most overdue first. Answers when to come back. */
  async step(): Promise<number> {
    const seen = new Set<CellTimes>()
    let starved = false
    for (let next = this.#mostOverdue(seen); next !== null; next = this.#mostOverdue(seen)) {
      seen.add(next.times)
      if ((await this.#guardedPull(next.cell, next.times)) === 'no-room') starved = true
    }
    this.#host.passOn()
    return this.#stopped ? NEVER : this.#nextMs(starved)
  }

  /** Asked anew after each claim: its answer may have told us that the time of others has come, too. */
  #mostOverdue(seen: ReadonlySet<CellTimes>): { cell: number; times: CellTimes } | null {
    if (this.#stopped) return null
    const nowMs = this.#clock.monotonicNow()
    let most: { cell: number; times: CellTimes } | null = null
    for (const [cell, times] of this.#times) {
      if (earliest(times) > nowMs || seen.has(times)) continue
      if (most === null || times.ringMs < most.times.ringMs) most = { cell, times }
    }
    return most
  }

  async #run(): Promise<void> {
    while (!this.#stopped) {
      this.#nudged = false
      const nextMs = await this.step()
      if (this.#nudged) continue
      // Between two passes the event loop gets its turn, so that a long backlog does not starve timers and I/O.
      if (nextMs <= this.#clock.monotonicNow()) await this.#clock.turn()
      else await this.#sleepUntil(nextMs)
    }
  }

  async #guardedPull(cell: number, times: CellTimes): Promise<'pulled' | 'no-room' | 'waits'> {
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

  async #pull(cell: number, times: CellTimes): Promise<'pulled' | 'no-room' | 'waits'> {
    const nowMs = this.#clock.monotonicNow()
    if (times.suspectMs <= nowMs && this.#host.reserveAlone(this.nudge)) {
      await this.#claim(cell, times, 1, 'suspects')
      return 'pulled'
    }
    const wanted = times.ringMs <= nowMs
    const room = wanted ? this.#host.reserve(this.nudge) : 0
    // Without room there is still a reason to call: leases that ran out are rescued by a claim of nothing.
    if (room > 0 || times.leaseEndMs <= nowMs) await this.#claim(cell, times, room, 'lanes')
    else if (times.lookMs <= nowMs) await this.#look(cell, times)
    return !wanted ? 'waits' : room === 0 ? 'no-room' : 'pulled'
  }

  async #claim(cell: number, times: CellTimes, limit: number, from: 'lanes' | 'suspects'): Promise<void> {
    times.wokenMs = NEVER
    const claim = await this.#host.claim(cell, limit, from)
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

  /** In case a wake was lost, or the timetable's clock stepped: what we know can only have come nearer. */
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

  /** At whole multiples, so that the cells are looked at together and not one by one. */
  #nextLookMs(nowMs: number): number {
    return (Math.floor(nowMs / this.#lookMs) + 1) * this.#lookMs
  }

  /** Of what a claim said and what a wake said since it was sent, the nearer counts. */
  #takeWake(times: CellTimes): void {
    if (times.wokenMs >= times.ringMs) return
    times.ringMs = times.wokenMs
    times.ringRecordMs = times.wokenRecordMs
  }

  /** A starved puller is nudged when there is room: until then, what has rung already is no reason to get up. */
  #nextMs(starved: boolean): number {
    const nowMs = this.#clock.monotonicNow()
    let nextMs = starved ? this.#host.nextRoomMs() : NEVER
    for (const times of this.#times.values()) {
      const ringMs = starved && times.ringMs <= nowMs ? NEVER : times.ringMs
      // A suspect whose time has come waits for the whole consumer, which nudges, or says when to ask.
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
