/**
 * Those who wait for tasks of a topic, and the pullers that claim for them. The pullers are those of any consumer, over all
 * cells: whoever waits gets what is due, whichever process owns the slot; claims are atomic, so that two processes which
 * reach for the same task cost a call in vain. They claim only while somebody waits, and what nobody asks about for a while
 * is not watched any more.
 */
import { ALL_CELLS, cellsOfSlot } from '../values/cell.ts'
import type { Clock } from '../clock.ts'
import type { Settings } from '../values/config.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import type { CellAddress, Claim, Look, SettleOutcome } from '../timetable.ts'
import { lateOutcome } from '../consume/admission.ts'
import { groupBy } from '../lib/group-by.ts'
import { PendingPull, type Pulled } from './pending-pull.ts'
import type { RateLimiter, Rate } from '../lib/rate-limiter.ts'
import type { SentClaim } from '../consume/held.ts'
import type { Reporter } from '../consume/reporter.ts'
import { Puller, type PullerHost } from '../consume/puller.ts'
import { UnansweredClaims } from '../consume/unanswered-claims.ts'

export interface PendingPullsParts {
  readonly topic: string
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  readonly rateLimiter: RateLimiter
  readonly settings: () => Settings
  readonly paused: () => boolean
  /** This process's part of the topic's rate. */
  readonly rate: () => Rate | null
}

/** One claim call moves at most this many tasks. */
const CLAIM_MAX = 1_000
/** Nobody asked for so long: the topic is left alone until somebody does. */
const IDLE_MS = 60_000
/** Of a claim that took more than this share of its lease to come back, too little is left to hand it on. */
const SPENT_SHARE = 0.5
const PULLERS = 16
/** A claim takes at most its share of what is asked for, so that all cells are asked at once; fewer are not worth a call. */
const SHARE_MIN = 8

export class PendingPulls implements PullerHost {
  readonly #parts: PendingPullsParts
  readonly #reporter: Reporter
  /** First come, first served. */
  readonly #waiting = new Set<PendingPull>()
  /** Pullers that found nobody waiting, or nobody without anything yet. */
  readonly #idle = new Set<() => void>()
  #pullers: Puller[] = []
  #unwatch: () => void = () => {}
  #callOffIdle: () => void = () => {}
  readonly #unanswered: UnansweredClaims
  /** What nobody has waited for. */
  readonly #givingBack = new Set<Promise<void>>()
  /** Whom the claim is for that comes right after its reservation. */
  #next: { readonly pull: PendingPull; readonly places: number } | null = null
  #isClosed = false

  constructor(parts: PendingPullsParts, reporter: Reporter) {
    this.#parts = parts
    this.#reporter = reporter
    this.#unanswered = new UnansweredClaims(parts.clock)
  }

  get count(): number {
    return this.#waiting.size
  }

  /** Tasks as soon as there are any; none after `waitMs`, or when `signal` aborts. */
  wait(limit: number, leaseMs: number, waitMs: number, signal: AbortSignal): Promise<Pulled[]> {
    if (this.#isClosed || signal.aborted) return Promise.resolve([])
    this.#open()
    return new Promise((resolve) => {
      const pull = new PendingPull(limit, leaseMs, (tasks) => {
        callOff()
        signal.removeEventListener('abort', leave)
        this.#waiting.delete(pull)
        if (this.#waiting.size === 0) this.#leaveSoon()
        resolve(this.#fresh(tasks))
      })
      const leave = () => pull.close()
      const callOff = this.#parts.clock.after(waitMs, () => {
        pull.timeIsUp()
        this.#closeSoon(pull)
      })
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.add(pull)
      this.#callIdle()
    })
  }

  /** Back to where they were, as if they had not been claimed. Never rejects: otherwise their lease ends. */
  async giveBack(tasks: readonly Pulled[]): Promise<void> {
    const { store, topic } = this.#parts
    const outcome = { kind: 'return' } as const
    await Promise.all(
      [...groupBy(tasks, ({ cell }) => cell)].map(([cell, some]) =>
        store
          .settle(
            { topic, cell },
            some.map(({ entry, stamp }) => ({ key: entry.key, stamp, outcome })),
          )
          .catch((error: unknown) => this.#reporter.callFailed('settle', error)),
      ),
    )
  }

  /** The topic was paused or resumed, or its rate is another one. */
  reconfigure(): void {
    for (const puller of this.#pullers) puller.nudge()
  }

  async stop(): Promise<void> {
    this.#isClosed = true
    for (const pull of this.#waiting) pull.close()
    this.#callOffIdle()
    await this.#close()
    await Promise.all(this.#givingBack)
  }

  reserve(whenRoom: () => void): number {
    const { rateLimiter, rate, clock } = this.#parts
    const pull = this.#mayClaim() ? this.#firstWithRoom() : undefined
    const wanted = Math.min(pull?.room ?? 0, pull?.share(PULLERS, SHARE_MIN) ?? 0, CLAIM_MAX)
    const places = wanted === 0 ? 0 : rateLimiter.take(wanted, rate(), clock.monotonicNow())
    if (pull === undefined || places === 0) {
      this.#idle.add(whenRoom)
      return 0
    }
    this.#next = { pull, places }
    pull.reserve(places)
    return places
  }

  /** A suspect is alone in its answer: whoever gets it has nothing else of ours that it could take down. */
  reserveAlone(whenIdle: () => void): boolean {
    const { rateLimiter, rate, clock } = this.#parts
    const pull = this.#mayClaim() ? [...this.#waiting].find(({ isEmpty }) => isEmpty) : undefined
    if (pull === undefined || rateLimiter.take(1, rate(), clock.monotonicNow()) === 0) {
      this.#idle.add(whenIdle)
      return false
    }
    this.#next = { pull, places: pull.room }
    pull.reserve(pull.room)
    return true
  }

  nextRoomMs(): number {
    const { rateLimiter, rate, clock } = this.#parts
    if (!this.#mayClaim() || this.#firstWithRoom() === undefined) return Number.POSITIVE_INFINITY
    const nowMs = clock.monotonicNow()
    return Math.max(nowMs, rateLimiter.nextMs(rate(), nowMs))
  }

  nextAloneMs(whenIdle: () => void): number {
    this.#idle.add(whenIdle)
    return Number.POSITIVE_INFINITY
  }

  async claim(cell: number, limit: number, from: 'lanes' | 'suspects'): Promise<Claim> {
    const { topic, store, clock, rateLimiter } = this.#parts
    const grant = limit === 0 ? null : this.#next
    this.#next = null
    const at = { topic, cell }
    const sent = this.#unanswered.take(cell, from) ?? this.#newClaim(limit, from, grant?.pull)
    const { leaseMs } = sent.request
    let isAnswered = false
    let brought: Pulled[] = []
    try {
      const claim = await store.claim(at, sent.request)
      isAnswered = true
      this.#reporter.poisoned(claim.poisoned)
      if (claim.tasks.length > 0) for (const puller of this.#pullers) puller.reached(claim.nowMs)
      const { sentMs } = sent
      const spentMs = clock.monotonicNow() - sentMs
      const common = {
        cell,
        stamp: claim.stamp,
        req: sent.request.req,
        firedMs: claim.nowMs,
        sentMs,
        leaseMs,
      }
      // Of a claim whose first answer was lost, what is left of its lease.
      const leaseUntilMs = claim.nowMs + leaseMs - Math.ceil(spentMs)
      const tasks = claim.tasks.map((entry): Pulled => ({ ...common, entry, leaseUntilMs }))
      const isWanted = grant !== null && !grant.pull.isClosed && this.#mayClaim()
      if (!isWanted || this.#isSpent(sentMs, leaseMs)) await this.giveBack(tasks)
      else brought = await this.#handedOut(at, await this.#admitted(at, tasks, from))
      return claim
    } finally {
      if (!isAnswered) this.#unanswered.keep(cell, sent)
      rateLimiter.giveBack(Math.max(0, limit - brought.length))
      if (grant !== null) this.#hand(grant.pull, grant.places, brought, from)
    }
  }

  look(cell: number): Promise<Look> {
    return this.#parts.store.look({ topic: this.#parts.topic, cell })
  }

  /** Those that have something are closed when their last claim is back. */
  passOn(): void {}

  onError(error: unknown): void {
    this.#reporter.callFailed('claim', error)
  }

  /** It may have left meanwhile: then nobody has them. */
  #hand(pull: PendingPull, places: number, tasks: Pulled[], from: 'lanes' | 'suspects'): void {
    // A repeated claim may bring more than there is room for now.
    const taken = pull.isClosed ? [] : tasks.slice(0, places)
    this.#letGo(tasks.slice(taken.length))
    pull.release(places, taken)
    // Whoever has a suspect gets nothing beside it.
    if (pull.room === 0 || (from === 'suspects' && taken.length > 0)) pull.close()
    else this.#closeSoon(pull)
    this.#callIdle()
  }

  /** A pull waits for all claims under way: what came first may have come too early to be handed on by now. */
  #fresh(tasks: readonly Pulled[]): Pulled[] {
    const spent = tasks.filter(({ sentMs, leaseMs }) => this.#isSpent(sentMs, leaseMs))
    this.#letGo(spent)
    const fresh = tasks.filter((task) => !spent.includes(task))
    for (const { entry, firedMs } of fresh) {
      this.#reporter.fired(firedMs - entry.ringMs)
      this.#reporter.checkLateness(entry, firedMs - entry.ringMs)
    }
    return fresh
  }

  #isSpent(sentMs: number, leaseMs: number): boolean {
    return this.#parts.clock.monotonicNow() - sentMs > leaseMs * SPENT_SHARE
  }

  #letGo(tasks: readonly Pulled[]): void {
    if (tasks.length === 0) return
    const done = this.giveBack(tasks).finally(() => this.#givingBack.delete(done))
    this.#givingBack.add(done)
  }

  /** What is too late for its purpose ends here; a suspect's start is recorded before it is handed over. */
  async #admitted(at: CellAddress, tasks: Pulled[], from: 'lanes' | 'suspects'): Promise<Pulled[]> {
    const { store, settings } = this.#parts
    const { late } = settings()
    const fresh: Pulled[] = []
    const stale: { readonly task: Pulled; readonly outcome: SettleOutcome }[] = []
    for (const task of tasks) {
      const outcome = lateOutcome(late, task.firedMs - task.entry.ringMs)
      if (outcome === null) fresh.push(task)
      else stale.push({ task, outcome })
    }
    if (stale.length > 0) {
      const answers = await store.settle(
        at,
        stale.map(({ task, outcome }) => ({ key: task.entry.key, stamp: task.stamp, outcome })),
      )
      for (const [i, { task, outcome }] of stale.entries())
        if (answers[i] === 'settled') this.#reporter.announce(task.entry, outcome)
    }
    const [suspect] = from === 'suspects' ? fresh : []
    if (suspect === undefined) return fresh
    return (await store.begin(at, suspect.entry.key, suspect.stamp)) ? fresh : []
  }

  /** From now on others may speak for them, anywhere; and the claim is not repeated: it was answered. */
  async #handedOut(at: CellAddress, tasks: Pulled[]): Promise<Pulled[]> {
    const [first] = tasks
    if (first === undefined) return tasks
    const keys = tasks.map(({ entry }) => entry.key)
    await this.#parts.store.ledger?.handOut(at, first.stamp, keys)
    return tasks
  }

  #newClaim(limit: number, from: 'lanes' | 'suspects', pull: PendingPull | undefined): SentClaim {
    const { clock, random, settings } = this.#parts
    const { mergeMs, leaseMs: usualMs } = settings()
    const leaseMs = pull?.leaseMs ?? usualMs
    const request = { req: random.uniqueId(), limit, leaseMs, from, wholePrefixes: mergeMs > 0 }
    return { request, sentMs: clock.monotonicNow() }
  }

  #mayClaim(): boolean {
    return !this.#isClosed && !this.#parts.paused()
  }

  #firstWithRoom(): PendingPull | undefined {
    for (const pull of this.#waiting) if (pull.room > 0) return pull
    return undefined
  }

  #callIdle(): void {
    const idle = [...this.#idle]
    this.#idle.clear()
    for (const call of idle) call()
  }

  #open(): void {
    this.#callOffIdle()
    if (this.#pullers.length > 0) return
    const { clock, store, topic } = this.#parts
    this.#pullers = Array.from(
      { length: PULLERS },
      (_, slot) => new Puller(clock, this, cellsOfSlot(slot, PULLERS), store.lookMs),
    )
    this.#unwatch = store.watch(topic, {
      wake: (cell, ...ring) => this.#pullers[cell % PULLERS]?.wake(cell, ...ring),
      // Whoever has it is elsewhere, and finds out when it settles or extends.
      fence: () => {},
      limit: () => {},
      missed: () => this.reconfigure(),
    })
    store.ledger?.pulls(topic, ALL_CELLS)
    for (const puller of this.#pullers) puller.start()
  }

  /** A turn later: by then whoever can bring more of the same moment has begun to. */
  #closeSoon(pull: PendingPull): void {
    if (!pull.isSettled) return
    void this.#parts.clock.turn().then(() => {
      if (pull.isSettled) pull.close()
    })
  }

  #leaveSoon(): void {
    this.#callOffIdle()
    this.#callOffIdle = this.#parts.clock.after(IDLE_MS, () => void this.#close(), true)
  }

  async #close(): Promise<void> {
    const pullers = this.#pullers
    this.#pullers = []
    this.#idle.clear()
    this.#unwatch()
    this.#unwatch = () => {}
    await Promise.all(pullers.map((puller) => puller.stop()))
  }
}
