/**
 * What the user's handler is wrapped in. Tasks flow one way:
 *
 *   puller ──claim──▶ queue ──▶ admission (ours? late? payload fits?) ──▶ guard ──▶ handler ──▶ settler
 *
 * The queue is the prefetch: small, and given back on stop and pause. 'The handler failed' and 'recording it failed'
 * meet nowhere: a performer turns whatever the user's code does into a verdict, and the settler alone deals with a
 * timetable that fails.
 */
import { cellsOfSlot, prefixOf } from '../cell.ts'
import { type Clock, sleep } from '../clock.ts'
import type { Settings } from '../config.ts'
import { durationText } from '../duration.ts'
import type { Announcer } from '../events.ts'
import type { Logger } from '../logger.ts'
import type { Random } from '../random.ts'
import type { Decoded } from '../schema.ts'
import type { Claim, SettleAnswer, SettleOutcome, Timetable } from '../timetable.ts'
import { isTrusted, lateOutcome, taskFor } from './admission.ts'
import { type Admitted, Calls } from './calls.ts'
import { HeldClaim, type HeldTask } from './held.ts'
import type { Performer } from './performer.ts'
import { Puller, type PullerHost } from './puller.ts'
import { Renewer } from './renewer.ts'
import { Room } from './room.ts'
import { Settler } from './settler.ts'
import { settleOutcomeOf, type Verdict } from './verdict.ts'

export interface ConsumerParts<Out> {
  readonly topic: string
  readonly timetable: Timetable
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly announcer: Announcer
  /** In force right now. */
  readonly settings: () => Settings
  readonly paused: () => boolean
  readonly decode: (body: string) => Decoded<Out> | Promise<Decoded<Out>>
  readonly performer: Performer<Out>
  /** Asked before the performer, about many tasks at once. */
  readonly guard: Performer<Out> | null
  /** Calls of the handler at a time. */
  readonly concurrency: number
  /** A batch handler gets up to `batchSize` tasks per call, any other one. */
  readonly batched: boolean
}

export interface StopReport {
  /** Tasks whose handlers ended while we waited. */
  readonly finished: number
  /** Tasks given back: due at once for somebody else, no failure. */
  readonly released: number
}

export class RunningConsumer<Out> implements PullerHost {
  readonly #parts: ConsumerParts<Out>
  readonly #room: Room
  readonly #calls: Calls<Out>
  readonly #settler: Settler
  readonly #renewer: Renewer
  readonly #unwatch: () => void
  #pullers: Puller[] = []
  #retiring: Promise<void> = Promise.resolve()
  #queue: HeldTask[] = []
  #pumpsSoon = false
  #stopping: Promise<StopReport> | null = null
  #finished = 0
  #released = 0
  /** Called when the last running handler of a stopping consumer ends. */
  #whenQuiet: (() => void) | null = null
  /** Outcomes that came too late to count: the claim was not ours any more. */
  staleCount = 0

  constructor(parts: ConsumerParts<Out>) {
    this.#parts = parts
    const { timetable, clock, logger, settings } = parts
    this.#room = new Room(clock, settings, parts.concurrency, parts.batched)
    this.#calls = new Calls(
      clock,
      this.#room,
      logger,
      () => settings().timeoutMs,
      (call, timeoutMs) => {
        const error = `timeout: the handler ran longer than ${durationText(timeoutMs)}`
        for (const held of call.tasks) this.#judge(held, { kind: 'failed', delayMs: null, error })
        this.#goOn()
      },
    )
    this.#settler = new Settler(
      timetable,
      clock,
      (...args) => this.#settled(...args),
      (error) => this.#report('settle', error),
    )
    this.#renewer = new Renewer(
      timetable,
      clock,
      () => settings().leaseMs,
      (claim) => this.#lost(claim),
      (error) => this.#report('extend', error),
    )
    this.#unwatch = timetable.watch(parts.topic, {
      wake: (cell, inMs) => this.#pullers[cell % this.#pullers.length]?.wake(cell, inMs),
      fence: (cell, key, stamp, cause) => this.#fence(cell, key, stamp, cause),
    })
    this.#deal()
  }

  /** The topic's configuration changed. */
  reconfigure(): void {
    if (this.#stopping !== null) return
    if (this.#parts.paused()) this.#giveBackQueue()
    if (this.#parts.settings().slots !== this.#pullers.length) this.#deal()
    for (const puller of this.#pullers) puller.nudge()
  }

  stop(timeoutMs: number): Promise<StopReport> {
    this.#stopping ??= this.#stop(timeoutMs)
    return this.#stopping
  }

  // The puller's side.

  reserve(whenRoom: () => void): number {
    return this.#takesWork() ? this.#room.reserve(whenRoom) : 0
  }

  reserveAlone(whenIdle: () => void): boolean {
    return this.#takesWork() && this.#room.reserveAlone(whenIdle)
  }

  nextRoomMs(): number {
    return this.#takesWork() ? this.#room.nextMs() : 0
  }

  async claim(cell: number, limit: number, from: 'lanes' | 'suspects'): Promise<Claim> {
    const { topic, timetable, clock, random, settings } = this.#parts
    const { leaseMs, mergeMs } = settings()
    const req = random.uniqueId()
    const at = { topic, cell }
    const sentMs = clock.monotonicNow()
    let taken = 0
    try {
      const claim = await timetable.claim(at, { req, limit, leaseMs, from, wholePrefixes: mergeMs > 0 })
      taken = claim.tasks.length
      for (const key of claim.poisoned)
        this.#announceDeath(key, null, 'poison', 'it took its process down, three times in a row')
      if (taken > 0)
        this.#accept(new HeldClaim(req, at, claim, sentMs + leaseMs, clock.monotonicNow()), leaseMs, from)
      return claim
    } finally {
      if (from === 'lanes') this.#room.claimed(limit, taken)
      else if (taken === 0) this.#room.aloneEnded()
      this.#room.offer()
    }
  }

  onError(error: unknown): void {
    this.#report('claim', error)
  }

  #accept(claim: HeldClaim, leaseMs: number, from: 'lanes' | 'suspects'): void {
    this.#renewer.add(claim, leaseMs)
    if (from === 'suspects') return void this.#runAlone(claim.tasks[0] as HeldTask)
    for (const held of claim.tasks) this.#queue.push(held)
    this.#room.queued = this.#queue.length
    if (this.#takesWork()) this.#pump()
    else this.#giveBackQueue()
  }

  /** A suspect's start is recorded before it starts: only then can a lost lease be held against it. */
  async #runAlone(held: HeldTask): Promise<void> {
    const { claim, entry } = held
    const ours = await this.#parts.timetable
      .begin(claim.at, entry.key, claim.stamp)
      .catch((error) => this.#report('begin', error))
    if (ours === true && this.#takesWork()) await this.#perform([held])
    else this.#conclude(held, { kind: 'return' })
    this.#room.aloneEnded()
  }

  #takesWork(): boolean {
    return this.#stopping === null && !this.#parts.paused()
  }

  // From the queue to the handler.

  /** Batches wait for the end of the turn: what all pullers claimed at one moment then comes in one call. */
  #pump(): void {
    if (!this.#parts.batched) return this.#start()
    if (this.#pumpsSoon) return
    this.#pumpsSoon = true
    void this.#parts.clock.turn().then(() => {
      this.#pumpsSoon = false
      this.#start()
    })
  }

  #start(): void {
    while (this.#queue.length > 0 && this.#room.freePlaces > 0 && this.#takesWork()) {
      // Out of the queue first: the handler starts before this returns, and may pause the topic.
      const batch = this.#queue.splice(0, this.#callSize())
      this.#room.queued = this.#queue.length
      void this.#perform(batch)
    }
  }

  #callSize(): number {
    const { batched, guard, settings } = this.#parts
    if (!batched) return guard === null ? 1 : this.#room.freePlaces
    const { batchSize, mergeMs } = settings()
    return mergeMs === 0 ? batchSize : wholePrefixes(this.#queue, batchSize)
  }

  /** Takes tasks from the queue to their outcomes. Never rejects. */
  async #perform(batch: readonly HeldTask[]): Promise<void> {
    const { guard, performer, batched } = this.#parts
    const places = batched ? 1 : batch.length
    this.#room.occupy(places)
    const admitted: Admitted<Out>[] = []
    for (const held of batch) {
      const admission = this.#admit(held)
      const one = admission instanceof Promise ? await admission : admission
      if (one !== null) admitted.push(one)
    }
    const wanted = guard === null || admitted.length === 0 ? admitted : await this.#ask(guard, admitted)
    this.#room.vacate(places)
    if (batched && wanted.length > 0) await this.#call(performer, wanted)
    else if (!batched) await Promise.all(wanted.map((one) => this.#call(performer, [one])))
    this.#goOn()
  }

  async #ask(guard: Performer<Out>, admitted: readonly Admitted<Out>[]): Promise<Admitted<Out>[]> {
    const verdicts = await this.#calls.invoke(guard, admitted, 0)
    if (verdicts === null) return []
    return admitted.filter(({ held }, i) => {
      const verdict = verdicts[i] as Verdict
      if (verdict.kind !== 'done') this.#judge(held, verdict)
      return !held.ended
    })
  }

  async #call(performer: Performer<Out>, admitted: readonly Admitted<Out>[]): Promise<void> {
    const verdicts = await this.#calls.invoke(performer, admitted, 1)
    if (verdicts === null) return
    if (this.#stopping !== null) this.#finished += admitted.length
    admitted.forEach(({ held }, i) => this.#judge(held, verdicts[i] as Verdict))
    this.#goOn()
  }

  /** Null: not to be started, and dealt with. */
  #admit(held: HeldTask): Admitted<Out> | null | Promise<Admitted<Out> | null> {
    const { clock, settings, decode, topic, announcer } = this.#parts
    const { leaseMs, late, objectiveP99Ms } = settings()
    const nowMs = clock.monotonicNow()
    if (!isTrusted(held, leaseMs, nowMs)) return this.#drop(held)
    // Cancelled or replaced while it waited here: it need not start at all.
    if (held.fenced) return this.#conclude(held, { kind: 'return' })
    const { entry } = held
    const firedMs = held.claim.recordMs(nowMs)
    const behindMs = firedMs - entry.ringMs
    const tooLate = lateOutcome(late, behindMs)
    if (tooLate !== null) return this.#conclude(held, tooLate)
    if (objectiveP99Ms !== null && behindMs > objectiveP99Ms)
      announcer.emit('late', {
        topic,
        key: entry.key,
        id: entry.id,
        latenessMs: behindMs,
        objectiveMs: objectiveP99Ms,
      })
    const admit = (decoded: Decoded<Out>) =>
      'problem' in decoded
        ? this.#conclude(held, { kind: 'dead', cause: 'payload', error: decoded.problem, failed: false })
        : { held, task: taskFor(topic, held, decoded.payload, firedMs) }
    const decoded = decode(entry.body)
    return decoded instanceof Promise ? decoded.then(admit) : admit(decoded)
  }

  /** Without a word: where the task is, it is rescued. */
  #drop(held: HeldTask): null {
    held.ended = true
    this.#forget(held)
    return null
  }

  #forget({ claim }: HeldTask): void {
    if (--claim.open === 0) this.#renewer.remove(claim)
  }

  /** After work ended: start what waits, tell pullers of room, tell a stopping consumer that all is quiet. */
  #goOn(): void {
    if (this.#queue.length > 0) this.#pump()
    this.#room.offer()
    if (this.#calls.count === 0 && this.#room.isIdle) this.#whenQuiet?.()
  }

  // Outcomes.

  #judge(held: HeldTask, verdict: Verdict): void {
    const { settings, random } = this.#parts
    this.#conclude(held, settleOutcomeOf(verdict, held.entry.failures, settings().retry, random.fraction()))
  }

  #conclude(held: HeldTask, outcome: SettleOutcome): null {
    // Timed out or released meanwhile: that was its outcome, and there is only one.
    if (held.ended) return null
    held.ended = true
    held.call = null
    this.#settler.add(held, outcome)
    this.#room.unrecorded = this.#settler.backlog
    return null
  }

  #settled(held: HeldTask, outcome: SettleOutcome, answer: SettleAnswer): void {
    this.#forget(held)
    this.#room.unrecorded = this.#settler.backlog
    if (answer === 'stale') this.staleCount++
    else if (!held.fenced) this.#announce(held, outcome)
    this.#room.offer()
  }

  #announce({ entry }: HeldTask, outcome: SettleOutcome): void {
    const { announcer, topic } = this.#parts
    const { key, id, failures } = entry
    if (outcome.kind === 'dead') this.#announceDeath(key, id, outcome.cause, outcome.error)
    else if (outcome.kind === 'retry')
      announcer.emit('retry', {
        topic,
        key,
        id,
        attempt: failures + 1,
        error: outcome.error,
        retryInMs: outcome.delayMs,
      })
  }

  #announceDeath(
    key: string,
    id: string | null,
    cause: 'attempts' | 'handler' | 'poison' | 'payload' | 'late',
    error: string,
  ): void {
    const { announcer, topic, logger } = this.#parts
    logger.warn({ topic, key, cause, error }, 'a task is dead')
    announcer.emit('dead', { topic, key, id, cause, error })
  }

  /** The timetable does not know the claim any more. Handlers hear of it; what they answer will be found stale. */
  #lost(claim: HeldClaim): void {
    claim.trustedUntilMs = Number.NEGATIVE_INFINITY
    for (const held of claim.tasks) held.call?.fence(held, 'lease-lost')
  }

  #fence(cell: number, key: string, stamp: number, cause: 'cancelled' | 'replaced'): void {
    for (const claim of this.#renewer.claims()) {
      if (claim.stamp !== stamp || claim.at.cell !== cell) continue
      const held = claim.tasks.find((task) => task.entry.key === key)
      if (held === undefined) continue
      held.fenced = true
      held.call?.fence(held, cause === 'cancelled' ? 'cancelled' : 'lease-lost')
    }
  }

  #report(doing: string, error: unknown): void {
    const { announcer, logger, topic } = this.#parts
    logger.error({ topic, doing, error }, 'a call to the timetable failed; it will be tried again')
    announcer.emit('error', { topic, doing, error })
  }

  // Start, change, stop.

  /** Deals the cells to as many pullers as the topic has slots. Nothing moves: only who looks changes. */
  #deal(): void {
    const { clock, settings, timetable, announcer, topic } = this.#parts
    const retired = this.#pullers.map((puller) => puller.stop())
    this.#retiring = Promise.all([this.#retiring, ...retired]).then(() => {})
    this.#room.forgetWaiters()
    const { slots } = settings()
    this.#pullers = Array.from(
      { length: slots },
      (_, slot) => new Puller(clock, this, cellsOfSlot(slot, slots), timetable.lookMs),
    )
    for (const puller of this.#pullers) puller.start()
    announcer.emit('slots', { topic, owned: this.#pullers.map((_, slot) => slot) })
  }

  async #stop(timeoutMs: number): Promise<StopReport> {
    await Promise.all([this.#retiring, ...this.#pullers.map((puller) => puller.stop())])
    this.#giveBackQueue()
    await this.#quiet(timeoutMs)
    for (const call of this.#calls.abandonAll()) {
      call.abort('closed')
      for (const held of call.tasks) {
        if (!held.ended) this.#released++
        this.#conclude(held, { kind: 'snooze', delayMs: 0 })
      }
    }
    await this.#settler.drained()
    await this.#renewer.stop()
    this.#unwatch()
    return { finished: this.#finished, released: this.#released }
  }

  /** Resolves when no handler runs any more, or after `timeoutMs`. */
  async #quiet(timeoutMs: number): Promise<void> {
    if (this.#calls.count === 0 && this.#room.isIdle) return
    const enough = new AbortController()
    this.#whenQuiet = () => enough.abort()
    await sleep(this.#parts.clock, timeoutMs, enough.signal)
    this.#whenQuiet = null
  }

  #giveBackQueue(): void {
    this.#released += this.#stopping === null ? 0 : this.#queue.length
    for (const held of this.#queue) this.#conclude(held, { kind: 'return' })
    this.#queue = []
    this.#room.queued = 0
  }
}

/** How many tasks make a call of at most `max` that splits no prefix, unless one prefix alone is larger. */
function wholePrefixes(queue: readonly HeldTask[], max: number): number {
  const next = queue[max]
  if (next === undefined) return max
  const cut = prefixOf(next.entry.key)
  let size = max
  while (size > 0 && prefixOf((queue[size - 1] as HeldTask).entry.key) === cut) size--
  return size === 0 ? max : size
}
