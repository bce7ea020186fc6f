import type { Database } from 'better-sqlite3'
import { type Clock, sleep } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { Records } from './records.ts'
import { Tokens } from './tokens.ts'
import type { Transitions } from './transitions.ts'
import { isBusy, toTocsinError } from './driver-errors.ts'

/** Target for how long one transaction may block the event loop, including its commit. */
const HOLD_MS = 20
/** The maximum number of tasks of calls that are carried out as one. They take about HOLD_MS. */
const RUN_MAX = 2_000
/**
 * Delay before BEGIN is retried while another connection writes. The delay doubles from the minimum to the maximum.
 * SQLite's own busy handler is not used, because it would block the event loop.
 */
const BUSY_MS_MIN = 1
const BUSY_MS_MAX = 50

/**
 * A call of one method that changes tasks or the board. The step has the name of the method instead of a function, so
 * it can be sent to another thread.
 */
export interface Step {
  readonly name: StepName | BoardStepName
  readonly args: readonly unknown[]
}

export type StepName = Exclude<keyof Transitions, 'writeBooks' | 'undone'>
export type BoardStepName = keyof BoardSteps
/** The steps that change the board. */
export type BoardSteps = Pick<Records, 'createRecord' | 'changeRecord'> &
  Pick<Tokens, 'putToken' | 'dropToken'>

/**
 * Runs the steps that write, in the calling thread or in a worker thread. Steps take effect, and are answered, in the
 * order of the calls. Only an error may be reported before the answers to earlier steps.
 */
export interface Writer {
  run(step: Step): Promise<unknown>
  /** Resolves when all steps are answered, including steps that are added meanwhile. */
  drained(): Promise<void>
}

interface Job {
  readonly step: Step
  readonly deadlineMs: number
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

/**
 * Group commit: the steps of one turn of the event loop share one transaction, and so one wait for the disk. If these
 * steps take too long (HOLD_MS), the rest goes into the next transaction. Steps run in the order of the calls, and are
 * answered in this order after the commit. A step that throws is rejected at once; the steps before it run again.
 */
export class Committer implements Writer {
  readonly #database: Database
  readonly #transitions: Transitions
  readonly #board: BoardSteps
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  readonly #where: string
  readonly #jobs: Job[] = []
  #running: Promise<void> | null = null
  /**
   * Moving average of the time that a commit takes. The longer a commit takes, the fewer steps share a transaction, so
   * that the transaction stays within HOLD_MS.
   */
  #commitMs = 0
  /** The number of next jobs that are carried out one by one. */
  #apart = 0

  constructor(
    database: Database,
    transitions: Transitions,
    clock: Clock,
    callTimeoutMs: number,
    where: string,
  ) {
    this.#database = database
    this.#transitions = transitions
    this.#board = boardSteps(database)
    this.#clock = clock
    this.#callTimeoutMs = callTimeoutMs
    this.#where = where
  }

  /** The average time that a commit takes on this disk. */
  get commitMs(): number {
    return this.#commitMs
  }

  run(step: Step): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const deadlineMs = this.#clock.monotonicNow() + this.#callTimeoutMs
      this.#jobs.push({ step, deadlineMs, resolve, reject })
      this.#running ??= this.#go()
    })
  }

  async drained(): Promise<void> {
    while (this.#running !== null) await this.#running
  }

  async #go(): Promise<void> {
    let busyMs = BUSY_MS_MIN
    await this.#clock.turn()
    while (this.#jobs.length > 0) {
      if (this.#transact()) {
        busyMs = BUSY_MS_MIN
        if (this.#jobs.length > 0) await this.#clock.turn()
      } else {
        this.#giveUpLate()
        await sleep(this.#clock, busyMs)
        busyMs = Math.min(busyMs * 2, BUSY_MS_MAX)
      }
    }
    this.#running = null
  }

  /** Runs jobs in one transaction. Returns false, without any change, if another connection is writing. */
  #transact(): boolean {
    const clock = this.#clock
    const startMs = clock.monotonicNow()
    const done: { job: Job; answer: unknown }[] = []
    let running: readonly Job[] = []
    try {
      this.#database.exec('BEGIN IMMEDIATE')
    } catch (error) {
      if (isBusy(error)) return false
      this.#failAll(this.#jobs.splice(0), error)
      return true
    }
    try {
      // Many jobs share one commit, because each commit waits for the disk. The time limit lets the event loop
      // continue.
      const untilMs = startMs + Math.max(HOLD_MS - this.#commitMs, HOLD_MS / 4)
      do {
        running = this.#nextRun()
        const answers = this.#carryOutRun(running)
        for (const [i, job] of running.entries()) done.push({ job, answer: answers[i] })
        running = []
      } while (this.#jobs.length > 0 && clock.monotonicNow() < untilMs)
      this.#transitions.writeBooks()
      const workedMs = clock.monotonicNow()
      this.#database.exec('COMMIT')
      this.#commitMs += (clock.monotonicNow() - workedMs - this.#commitMs) / 8
    } catch (error) {
      this.#undo()
      const jobs = done.map(({ job }) => job)
      if (running.length === 0) this.#failAll(jobs, error)
      else if (running.length === 1) {
        // Only the failed job is rejected. The rollback also undid the jobs before it, so these run again.
        this.#jobs.unshift(...jobs)
        this.#failAll(running, error)
      } else {
        // One of the jobs that were carried out as one has failed. They run again one by one, to find out which.
        this.#jobs.unshift(...jobs, ...running)
        this.#apart = jobs.length + running.length
      }
      return true
    }
    for (const { job, answer } of done) job.resolve(answer)
    return true
  }

  /**
   * Takes the next job, and those after it that can be carried out with it as one: `cancel` or `settle` calls for the same
   * topic. Each ends tasks, and many that end together take much less time.
   */
  #nextRun(): readonly Job[] {
    const first = this.#jobs.shift() as Job
    const run = [first]
    if (this.#apart > 0) this.#apart--
    else if (isJoinable(first.step)) {
      let size = listOf(first.step).length
      let count = 0
      for (const { step } of this.#jobs) {
        if (!isJoinable(step) || !isLike(step, first.step)) break
        size += listOf(step).length
        if (size > RUN_MAX) break
        count++
      }
      run.push(...this.#jobs.splice(0, count))
    }
    return run
  }

  /** Returns the answer to each job. Jobs that are carried out as one have the time of the first. */
  #carryOutRun(run: readonly Job[]): readonly unknown[] {
    const [first] = run as readonly [Job, ...Job[]]
    if (run.length === 1) return [this.#carryOut(first.step)]
    const lists = run.map(({ step }) => listOf(step))
    const { name, args } = first.step
    const answers = this.#carryOut({ name, args: args.with(1, lists.flat()) }) as readonly unknown[]
    let from = 0
    return lists.map(({ length }) => answers.slice(from, (from += length)))
  }

  #carryOut({ name, args }: Step): unknown {
    const hands = name in this.#board ? this.#board : this.#transitions
    const carry = (hands as Record<Step['name'], (...args: readonly unknown[]) => unknown>)[name]
    return carry.call(hands, ...args)
  }

  #undo(): void {
    this.#transitions.undone()
    // After some errors, such as a full disk, SQLite has already rolled back the transaction.
    try {
      if (this.#database.inTransaction) this.#database.exec('ROLLBACK')
    } catch {
      // Ignored, because the next BEGIN fails with the same problem and reports it.
    }
  }

  #failAll(jobs: readonly Job[], error: unknown): void {
    const reason = toTocsinError(error, this.#where)
    for (const { reject } of jobs) reject(reason)
  }

  /** Rejects the jobs whose deadline has passed. These jobs have written nothing. */
  #giveUpLate(): void {
    const nowMs = this.#clock.monotonicNow()
    while ((this.#jobs[0]?.deadlineMs ?? nowMs) < nowMs) {
      const job = this.#jobs.shift() as Job
      job.reject(
        new TocsinError(
          'ledger-unavailable',
          `${this.#where}: another connection has been writing to it for too long; nothing was written. Keep transactions on this file short`,
        ),
      )
    }
  }
}

/** The arguments of `cancel` and `settle` are the topic, the list, `keepsEnded` and the time. */
function isJoinable({ name }: Step): boolean {
  return name === 'cancel' || name === 'settle'
}

function listOf({ args }: Step): readonly unknown[] {
  return args[1] as readonly unknown[]
}

function isLike(one: Step, other: Step): boolean {
  return one.name === other.name && one.args[0] === other.args[0] && one.args[2] === other.args[2]
}

function boardSteps(database: Database): BoardSteps {
  const records = new Records(database)
  const tokens = new Tokens(database)
  return {
    createRecord: (...args) => records.createRecord(...args),
    changeRecord: (...args) => records.changeRecord(...args),
    putToken: (...args) => tokens.putToken(...args),
    dropToken: (...args) => tokens.dropToken(...args),
  }
}
