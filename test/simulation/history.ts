/**
 * What the harness saw. It is recorded by the simulated callers, handlers and servers themselves, never by the engine,
 * and it is all that the checker gets.
 *
 * `seq` numbers the events of a run without gaps, in the order in which they happened; `trueMs` is the simulation's own
 * clock, which no fault touches. Both grow together.
 *
 * A *version* names one call of `schedule`: each puts its own name into the payload, so that a delivery tells which call
 * it comes from. A *life* names one run of a node's process, from its start to its crash or end: 'n2/3'. A *token* names
 * one claim call as its truth knows it.
 */
import type { DeadCause, OnConflict, Priority } from '../../src/task.ts'
import type { SafetyNet } from '../../src/telemetry/meter.ts'
import type { Books, SettleOutcome } from '../../src/timetable.ts'

/** redis: a shared timetable alone. center: with a shared ledger. alone: the shared ledger alone. embedded: SQLite. */
export type Composition = 'redis' | 'center' | 'alone' | 'embedded'

interface Happened {
  readonly seq: number
  readonly trueMs: number
}

/** A caller called the face of a Tocsin. One per key, also where many are given at once. */
export interface CallEvent extends Happened {
  readonly kind: 'call'
  readonly call: number
  readonly life: string
  readonly op: Op
  readonly key: string
  /** Of a schedule. */
  readonly version: string | null
  /** Made in this transaction of the caller: whatever it answers takes effect with the commit, or never. */
  readonly tx: number | null
  /** Of a schedule: how long from now, and what to do with an older task. */
  readonly delayMs: number | null
  readonly onConflict: OnConflict | null
}

/** 'replay-newest' is a sweep over dead tasks: it has no calls of its own for each key. */
export type Op = 'schedule' | 'cancel' | 'reschedule' | 'replay' | 'replay-newest' | 'purge' | 'get'

/** It answered. A call without one is under way for ever: its process died, or the promise is lost. */
export interface ReturnEvent extends Happened {
  readonly kind: 'return'
  readonly call: number
  /** 'created', 'cancelled', 'rescheduled', …; of get: the state, or 'not-found'. Null: it failed. */
  readonly outcome: string | null
  readonly dueMs: number | null
  readonly inFlight: boolean
  /** Null if it succeeded. 'unknown-outcome': it may have had an effect. Any other code: it had none. */
  readonly error: string | null
  /** Of get: the version in the payload. */
  readonly version: string | null
}

/** The truth (the ledger, or the timetable where there is none) carried out a caller's write, at this very moment. */
export interface WriteEvent extends Happened {
  readonly kind: 'write'
  readonly life: string
  readonly op: Exclude<Op, 'get'>
  readonly key: string
  readonly version: string | null
  readonly outcome: string
  /** By the truth's clock: when it is to ring now. Null where the answer has none. */
  readonly dueMs: number | null
  readonly inFlight: boolean
  /** What the truth's clock said when it was carried out. */
  readonly nowMs: number
  readonly tx: number | null
  /** Of a schedule: what it must be delivered with. */
  readonly body: string | null
  readonly tags: readonly string[]
  readonly priority: Priority | null
}

/** The truth gave a task to a claim. Once more with the same token: the answer was lost, and the call repeated. */
export interface ClaimEvent extends Happened {
  readonly kind: 'claim'
  readonly life: string
  readonly key: string
  readonly version: string
  readonly token: string
  /** Taken from the suspects. */
  readonly isAlone: boolean
  /** By the simulation's clock, converted from the storage's: no other claim may have the task before. */
  readonly leaseEndTrueMs: number
  readonly dueMs: number
  readonly ringMs: number
  readonly failures: number
  readonly deliveries: number
}

/** The ledger crashed, and this claim of a task never happened. */
export interface ForgottenEvent extends Happened {
  readonly kind: 'forgotten'
  readonly key: string
  readonly token: string
}

/** The truth prolonged a lease. */
export interface ExtendEvent extends Happened {
  readonly kind: 'extend'
  readonly life: string
  readonly token: string
  /** Those of the claim that were still held by it. Empty: it was stale. */
  readonly keys: readonly string[]
  readonly leaseEndTrueMs: number
}

/** The storage was told how the claim of one task ended. 'lost' comes from the process that found its lease expired. */
export interface SettleEvent extends Happened {
  readonly kind: 'settle'
  readonly life: string
  readonly key: string
  readonly token: string
  readonly outcome: SettleOutcome | { readonly kind: 'lost' }
  readonly answer: 'settled' | 'stale'
  /** When it rings again, by the storage's clock; null if it does not, or if that is not recorded. */
  readonly ringMs: number | null
}

/** A claim, or a rescue, found that the task is dead from now on: poison, or damaged. */
export interface BuriedEvent extends Happened {
  readonly kind: 'buried'
  readonly life: string
  readonly key: string
  readonly cause: DeadCause
}

/** A suspect's start is on record: only then can a lost lease convict it. */
export interface BeginEvent extends Happened {
  readonly kind: 'begin'
  readonly life: string
  readonly key: string
  readonly token: string
  readonly isHeld: boolean
}

/** A handler was called. */
export interface StartEvent extends Happened {
  readonly kind: 'start'
  readonly life: string
  readonly run: number
  readonly key: string
  /** Out of the payload. */
  readonly version: string
  readonly body: string
  readonly id: string
  readonly attempt: number
  readonly deliveries: number
  readonly dueMs: number
  readonly tags: readonly string[]
  readonly priority: Priority
  /** The latest moment that any clock that may ring had shown by then. */
  readonly recordMs: number
  /** The claim token that the client got with a pulled task. The process that claimed it may be gone by now. */
  readonly token?: string
  /** Of what was pulled: how many others came with it. */
  readonly beside?: number
  /** The number of the call of a batch handler; undefined for other handlers. */
  readonly batch?: number
}

/** A client outside of the cluster pulls tasks from a process, and waits. */
export interface PullEvent extends Happened {
  readonly kind: 'pull'
  readonly pull: number
  readonly life: string
  readonly limit: number
}

/** The pull was answered. `isGone`: the client had disconnected before. */
export interface PulledEvent extends Happened {
  readonly kind: 'pulled'
  readonly pull: number
  readonly count: number
  readonly isGone: boolean
}

/** Who bears a task asks some process to settle it, or to prolong its lease. One per task, also where many are asked for. */
export interface AskEvent extends Happened {
  readonly kind: 'ask'
  readonly ask: number
  /** Who is asked. */
  readonly life: string
  readonly key: string
  readonly token: string
  readonly what: 'extend' | 'done' | 'failed' | 'snooze' | 'dead'
}

/** The request was answered. 'failed': it may have had an effect. */
export interface ToldEvent extends Happened {
  readonly kind: 'told'
  readonly ask: number
  readonly answer: 'settled' | 'extended' | 'stale' | 'failed'
}

/** It answered, or threw. A run without one never ended: its process died, or it hangs. */
export interface EndEvent extends Happened {
  readonly kind: 'end'
  readonly life: string
  readonly run: number
  readonly outcome: 'done' | 'throw' | 'retry' | 'snooze' | 'dead'
  readonly delayMs: number | null
  /** What it wrote is in this transaction, which is to commit with its outcome. */
  readonly tx: number | null
}

/** A process takes part in pulling: so many calls of its handler may run at a time. */
export interface ConsumeEvent extends Happened {
  readonly kind: 'consume'
  readonly life: string
  readonly capacity: number
}

/** A process announced which slots it pulls, and of how many. */
export interface SlotsEvent extends Happened {
  readonly kind: 'slots'
  readonly life: string
  readonly owned: readonly number[]
  readonly slots: number
}

/** A process announced by which settings the topic runs, or said so when it was opened. */
export interface ConfigEvent extends Happened {
  readonly kind: 'config'
  readonly life: string
  readonly version: number
  readonly isPaused: boolean
}

/** An operator changes the topic's settings, in a process. */
export interface ConfigureEvent extends Happened {
  readonly kind: 'configure'
  readonly call: number
  readonly life: string
  readonly op: 'configure' | 'declare' | 'pause' | 'resume'
  /** In the patch, and in no other. Null: pausing and resuming have none. */
  readonly mark: string | null
  readonly ifVersion: number | null
}

/** The change was answered. 'failed': it had no effect. 'unknown': it may have had one. */
export interface ConfiguredEvent extends Happened {
  readonly kind: 'configured'
  readonly call: number
  readonly outcome: 'ok' | 'conflict' | 'failed' | 'unknown'
  /** In force when it answered. */
  readonly version: number | null
  readonly error: string | null
}

/** What can be changed of a topic's settings, however the fields of each part are ordered. */
export interface Content {
  readonly declared: unknown
  readonly live: unknown
  readonly isPaused: boolean
}

/** The board created the topic, or was asked to change its settings, at this very moment. */
export interface RecordEvent extends Happened {
  readonly kind: 'record'
  readonly life: string
  readonly op: 'create' | 'change'
  /** Of a change: the version whose place it takes, its id, what it was about, and what all was to be afterwards. */
  readonly asked: {
    readonly expected: number
    readonly changeId: string
    readonly mark: string | null
    readonly speaksOf: keyof Content
    readonly content: string
  } | null
  /** Of a change: it is in force, now or since it was sent before. */
  readonly isOurs: boolean
  /** As it is now. Null: there is no such topic. */
  readonly version: number | null
  /** In force now. */
  readonly slots: number
  readonly isPaused: boolean
  /** A `Content`, as a text. */
  readonly content: string
}

/** The board removed a node's card: the node left, or another one took it for dead. */
export interface CardEvent extends Happened {
  readonly kind: 'card'
  /** Who asked for it. */
  readonly life: string
  readonly phase: 'left' | 'buried'
  /** Whose it is. */
  readonly of: string
  /** Since its last beat reached the board. */
  readonly silentMs: number
  /** How many beats of the reporting node reached the board since then; more than a few are not counted. */
  readonly looks: number
}

/** In a quiet moment the ledger had a task that rings soon, and the timetable did not know of it. */
export interface MissingEvent extends Happened {
  readonly kind: 'missing'
  readonly key: string
  readonly ringMs: number
}

/**
 * A safety net found tasks. The engine counts this itself: what it was not told of cannot be seen from outside. It is used for
 * one rule only, about runs without a fault.
 */
export interface NetEvent extends Happened {
  readonly kind: 'net'
  readonly life: string
  readonly net: SafetyNet
  readonly count: number
}

/** A fault began or ended. `life`: whom it concerns, if only one; not `isEverybody`. */
export interface FaultEvent extends Happened {
  readonly kind: 'fault'
  readonly fault: string
  readonly phase: 'begin' | 'end'
  readonly life: string | null
  readonly isEverybody?: boolean
}

/** A process began, has joined the others, or ended: whatever it still had under way then will never be heard of. */
export interface LifeEvent extends Happened {
  readonly kind: 'life'
  readonly life: string
  readonly phase: 'starts' | 'opens' | 'crashes' | 'closes' | 'closed'
}

/** The engine announced a death to its users. */
export interface DeadEvent extends Happened {
  readonly kind: 'dead'
  readonly life: string
  readonly key: string
  readonly cause: DeadCause
}

/** Something that must never happen, whatever else does: an unhandled rejection, a call past its deadline. */
export interface TroubleEvent extends Happened {
  readonly kind: 'trouble'
  readonly what: string
}

export type Event =
  | CallEvent
  | ReturnEvent
  | WriteEvent
  | ClaimEvent
  | ForgottenEvent
  | ExtendEvent
  | SettleEvent
  | BuriedEvent
  | BeginEvent
  | StartEvent
  | EndEvent
  | PullEvent
  | PulledEvent
  | AskEvent
  | ToldEvent
  | ConsumeEvent
  | SlotsEvent
  | ConfigEvent
  | ConfigureEvent
  | ConfiguredEvent
  | RecordEvent
  | CardEvent
  | MissingEvent
  | NetEvent
  | FaultEvent
  | LifeEvent
  | DeadEvent
  | TroubleEvent

/** How a key is at the end, when all faults are healed and everything due had its time. */
export interface FinalState {
  readonly key: string
  /** 'none': neither live, nor dead, nor (with a ledger) in its history. */
  readonly state: 'pending' | 'claimed' | 'done' | 'dead' | 'cancelled' | 'obsolete' | 'none'
  readonly version: string | null
  readonly deadCause: DeadCause | null
  readonly failures: number
  readonly dueMs: number | null
}

export interface Ending {
  readonly trueMs: number
  /** The clock of record at the end. Everything due before `settledBeforeMs` of it had its time to be handled. */
  readonly recordMs: number
  readonly settledBeforeMs: number
  readonly keys: readonly FinalState[]
  readonly books: Books
  /** With a ledger: rows counted one by one; whether audit() found all in order; what it found missing in the timetable. */
  readonly audit: { readonly balances: boolean; readonly missing: number; readonly orphaned: number } | null
  /** The topic's settings as the board has them, and which version each process had. Null: a story without a board. */
  readonly config: {
    readonly version: number
    readonly isPaused: boolean
    /** The newest first. */
    readonly past: readonly number[]
    readonly seen: readonly { readonly life: string; readonly version: number }[]
  } | null
  /** Timers that still wait after everything was closed. */
  readonly timersLeft: number
}

export interface History {
  readonly composition: Composition
  readonly events: readonly Event[]
  readonly ending: Ending
  /** Every run of a handler is in it. A story made by hand may leave them out. */
  readonly hasHandlers: boolean
  /** The topic's: a task is dead after so many failures. */
  readonly attemptsMax: number
  /** The topic's: at most so many starts in any span; null: no limit. */
  readonly rate: { readonly limit: number; readonly perMs: number } | null
  /** The topic's: a crash of the ledger may undo claims of its last moments. Left out: false. */
  readonly fastClaims?: boolean
}

export interface Violation {
  /** 'I4', 'L1', … */
  readonly invariant: string
  /** One line for people: what happened, to which key and version, and why it must not. */
  readonly message: string
  /** Of the event that shows it; -1: the ending does. */
  readonly seq: number
}
