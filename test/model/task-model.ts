/**
 * The model of tasks for timetables and ledgers alike, in plain Maps. Where the ports leave a choice (where a rescued task
 * waits, which of equals a claim takes), the model takes over the choice from the answer.
 */
import { poisonText } from '../../src/values/rescue.ts'
import type { ClaimVerdict, LedgerClaimRequest, LedgerSettlement } from '../../src/ledger.ts'
import type { DeadCause, Priority, State } from '../../src/task.ts'
import type { Books, NewEntry, Place, Replayable, ReplayAnswer } from '../../src/timetable.ts'
import type { RingTime } from '../../src/values/ring-time.ts'

/** One claim: of several tasks on a timetable, of one task in a ledger. Its lease ends by the steady clock. */
export interface Hold {
  readonly stamp: number
  readonly req: string
  readonly alone: boolean
  leaseEndMs: number
}

export interface Task extends Place {
  readonly body: string
  readonly priority: Priority
  readonly tags: readonly string[]
  readonly createdMs: number
  /** Null until an answer has shown it. It may change as long as the task was never started. */
  id: string | null
  state: State
  dueMs: number
  /** For a task that has ended: the time of its end. */
  ringMs: number
  /** Greater than `ringMs` until an answer has shown where in between the task waits. */
  ringMaxMs: number
  failures: number
  lost: number
  deliveries: number
  hold: Hold | null
  begun: boolean
  /** Cancelled while held. */
  marked: boolean
  error: string | null
  cause: DeadCause | null
  /** Dead, and its key was scheduled again since. */
  superseded: boolean
}

export const isSuspect = ({ lost }: Task): boolean => lost >= 2

export class TaskModel {
  readonly live = new Map<string, Task>()
  readonly graves = new Map<string, Task>()
  /** Done, cancelled, obsolete: only a ledger shows them. */
  readonly past: Task[] = []
  readonly ends = { scheduled: 0, done: 0, cancelled: 0, obsolete: 0, purged: 0 }
  /** Judged poison, and not reported in an answer yet. */
  readonly convicted: Task[] = []
  steadyMs = 0

  constructor(public nowMs: number) {}

  pass(ms: number): void {
    this.nowMs += ms
    this.steadyMs += ms
  }

  isTrusted({ hold }: Task): boolean {
    return hold !== null && hold.leaseEndMs > this.steadyMs
  }

  waiting(cell: number, suspects: boolean): Task[] {
    return this.#all().filter((t) => t.cell === cell && t.hold === null && isSuspect(t) === suspects)
  }

  held(hold: Hold): Task[] {
    return this.#all().filter((task) => task.hold === hold)
  }

  holds(cell: number): Set<Hold> {
    return new Set(this.#all().flatMap((t) => (t.cell === cell && t.hold !== null ? [t.hold] : [])))
  }

  /** `inFlight` is null if the lease is over and not yet counted as lost: the ports leave open whether that is in flight. */
  schedule(entry: NewEntry, mergeMs: number): { outcome: string; dueMs: number; inFlight: boolean | null } {
    const { key, cell, body, priority, tags } = entry
    const old = this.live.get(key)
    const inFlight = old === undefined || old.hold === null ? false : this.isTrusted(old) || null
    if (old !== undefined && entry.onConflict === 'keep' && !old.marked)
      return { outcome: 'kept', dueMs: old.dueMs, inFlight }
    const dueMs = this.#ringAt(entry.when, this.nowMs, mergeMs)
    if (old === undefined) this.ends.scheduled++
    const times = { dueMs, ringMs: dueMs, ringMaxMs: dueMs, createdMs: this.nowMs }
    const claim = { hold: null, begun: false, marked: false, failures: 0, lost: 0, deliveries: 0 }
    const fixed = { key, cell, body, priority, tags: tags ?? [], id: null, error: null, cause: null }
    const grave = this.graves.get(key)
    if (grave !== undefined) grave.superseded = true
    this.live.set(key, { ...fixed, ...claim, ...times, state: 'pending', superseded: false })
    return { outcome: old === undefined ? 'created' : 'replaced', dueMs, inFlight }
  }

  cancel({ key }: Place): 'cancelled' | 'in-flight' | 'not-found' {
    const task = this.live.get(key)
    if (task === undefined) return 'not-found'
    if (!this.isTrusted(task)) return this.#end(task, 'cancelled')
    task.marked = true
    return 'in-flight'
  }

  reschedule({ key }: Place, when: RingTime, mergeMs: number): 'rescheduled' | 'in-flight' | 'not-found' {
    const task = this.live.get(key)
    if (task === undefined) return 'not-found'
    if (this.isTrusted(task)) return 'in-flight'
    if (task.marked) {
      this.#end(task, 'cancelled')
      return 'not-found'
    }
    const ringAt = (wasMs: number): number => this.#ringAt(when, wasMs, mergeMs)
    this.#wait(task, ringAt(task.ringMs), ringAt(task.ringMaxMs))
    Object.assign(task, { dueMs: task.ringMs, failures: 0, lost: 0 })
    return 'rescheduled'
  }

  take(task: Task, hold: Hold): void {
    Object.assign(task, { hold, state: 'claimed', begun: false, deliveries: task.deliveries + 1 })
  }

  /** The verdict of a ledger on the claim of a key. */
  verdict({ key }: Place, request: LedgerClaimRequest): ClaimVerdict['kind'] {
    const { stamp, leaseMs, nowMs, alone } = request
    const task = this.live.get(key)
    if (task === undefined) return 'gone'
    if (this.isTrusted(task)) return task.hold?.stamp === stamp ? 'ours' : 'held'
    if (task.hold === null && task.ringMs > nowMs) return 'later'
    if (task.hold !== null) {
      // It rang before: the clock may have been set back since.
      const fate = this.#lapse(task)
      if (fate !== null) return fate === 'poison' ? fate : 'gone'
      this.#wait(task, task.ringMs)
    }
    if (isSuspect(task) && !alone) return 'suspect'
    this.take(task, { stamp, req: String(stamp), alone, leaseEndMs: this.steadyMs + leaseMs })
    return 'ours'
  }

  begin(key: string, stamp: number): boolean {
    const task = this.#heldUnder(key, stamp)
    if (task !== null) task.begun = true
    return task !== null
  }

  extend(hold: Hold | null | undefined, leaseMs: number): boolean {
    if (hold) hold.leaseEndMs = this.steadyMs + leaseMs
    return Boolean(hold)
  }

  /** The lease holder may settle the task, also after the end of the lease, until the loss is counted. */
  settle(key: string, stamp: number, outcome: LedgerSettlement['outcome']): 'settled' | 'stale' {
    const task = this.#heldUnder(key, stamp)
    if (task === null || (outcome.kind === 'lost' && this.isTrusted(task))) return 'stale'
    if (outcome.kind === 'done' || outcome.kind === 'obsolete') this.#end(task, outcome.kind)
    else if (outcome.kind === 'dead') {
      if (outcome.failed) task.failures++
      this.#bury(task, outcome.cause, outcome.error)
    } else if (outcome.kind === 'lost') this.lose(task, outcome.spread)
    else if (task.marked) this.#end(task, 'cancelled')
    else if (outcome.kind === 'return') {
      task.deliveries--
      // Never started, so its id was never shown: a timetable makes a new id at the next claim.
      if (task.deliveries === 0 && !task.begun) task.id = null
      this.#wait(task, task.ringMs)
    } else {
      if (outcome.kind === 'retry') Object.assign(task, { failures: task.failures + 1, error: outcome.error })
      task.lost = 0
      this.#wait(task, this.nowMs + outcome.delayMs)
    }
    return 'settled'
  }

  /** The lease expired. Without a given spread, the task waits somewhere within the longest one. */
  lose(task: Task, spread: number | null = null): void {
    if (this.#lapse(task) !== null) return
    const atMs = (fraction: number): number =>
      this.nowMs + Math.ceil(fraction * 1_000 * 2 ** Math.min(task.lost, 4))
    this.#wait(task, atMs(spread ?? 0), atMs(spread ?? 1))
  }

  /** Takes over where an answer says the task waits. Returns false if it must not wait there. */
  follow(task: Task, ringMs: number): boolean {
    const isLegal = ringMs >= task.ringMs && ringMs <= task.ringMaxMs
    task.ringMs = task.ringMaxMs = ringMs
    return isLegal
  }

  replay({ key }: Place, which: Replayable): ReplayAnswer {
    const task = this.graves.get(key)
    if (task === undefined) return 'not-found'
    if (this.live.has(key)) return 'live'
    if (task.superseded && which === 'newest') return 'superseded'
    this.graves.delete(key)
    this.live.set(key, task)
    this.#wait(task, this.nowMs)
    Object.assign(task, {
      dueMs: this.nowMs,
      failures: 0,
      lost: 0,
      error: null,
      cause: null,
      superseded: false,
    })
    return 'replayed'
  }

  purge({ key }: Place): 'purged' | 'not-found' {
    if (!this.graves.delete(key)) return 'not-found'
    this.ends.purged++
    return 'purged'
  }

  books(): Books {
    const claimed = this.#all().filter(({ hold }) => hold !== null).length
    return { ...this.ends, pending: this.live.size - claimed, claimed, dead: this.graves.size }
  }

  /** Counts a lost lease. The third in a row is poison if the task was started alone. */
  #lapse(task: Task): 'cancelled' | 'poison' | null {
    task.lost++
    if (task.marked) return this.#end(task, 'cancelled')
    if (task.hold?.alone !== true || !task.begun || task.lost < 3) return null
    this.#bury(task, 'poison', poisonText(task.lost))
    this.convicted.push(task)
    return 'poison'
  }

  #ringAt({ kind, ms }: RingTime, wasMs: number, mergeMs: number): number {
    const wanted = ms + { at: 0, delay: this.nowMs, shift: wasMs }[kind]
    return mergeMs === 0 ? wanted : Math.ceil(wanted / mergeMs) * mergeMs
  }

  #wait(task: Task, ringMs: number, ringMaxMs = ringMs): void {
    Object.assign(task, { state: 'pending', hold: null, marked: false, ringMs, ringMaxMs })
  }

  #end<S extends 'done' | 'cancelled' | 'obsolete'>(task: Task, state: S): S {
    this.live.delete(task.key)
    Object.assign(task, { state, hold: null, ringMs: this.nowMs })
    this.past.push(task)
    this.ends[state]++
    return state
  }

  /** A second dead task of a key replaces the first. */
  #bury(task: Task, cause: DeadCause, error: string): void {
    this.live.delete(task.key)
    if (this.graves.has(task.key)) this.ends.purged++
    Object.assign(task, { state: 'dead', hold: null, ringMs: this.nowMs, cause, error })
    this.graves.set(task.key, task)
  }

  #heldUnder(key: string, stamp: number): Task | null {
    const task = this.live.get(key)
    return task?.hold?.stamp === stamp ? task : null
  }

  #all(): Task[] {
    return [...this.live.values()]
  }
}
