import { BATCH_MAX } from './batch-max.ts'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'

/** Steps of one kind on one cell, gathered and then carried out together: one call, one answer for each. */
export interface Batch<I, A> {
  add(item: I): void
  /** Answers in the order in which the items were added. */
  send(deadlineMs: number): Promise<readonly A[]>
}

/** In place of an answer: this one of a batch failed, and others did not. */
export class Failure {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** In place of an answer: this one of a batch takes longer, and the others need not wait for it. */
export class Later<A> {
  readonly answer: Promise<A>

  constructor(answer: Promise<A>) {
    this.answer = answer
    // Whoever gets it may still be busy with the others of its batch.
    answer.catch(() => {})
  }
}

/** What can be asked of a cell. Made once and kept: single calls come by the hundred thousand. */
export interface BatchKind<I, A> {
  readonly queue: Queue
  /** Steps of the same name go into one run. */
  readonly name: string
  begin(): Batch<I, A>
}

/** A batch that is made of its items when it is sent. */
class Gathered<I, A> implements Batch<I, A> {
  readonly #items: I[] = []
  readonly #send: (items: readonly I[], deadlineMs: number) => Promise<readonly A[]>

  constructor(send: (items: readonly I[], deadlineMs: number) => Promise<readonly A[]>) {
    this.#send = send
  }

  add(item: I): void {
    this.#items.push(item)
  }

  send(deadlineMs: number): Promise<readonly A[]> {
    return this.#send(this.#items, deadlineMs)
  }
}

/** One call of a user, over however many cells and runs: answered when the last of them is. */
class Ticket<A> {
  readonly #answers: A[]
  readonly #resolve: (answers: A[]) => void
  readonly #reject: (error: unknown) => void
  #open: number
  #answered = 0
  #failure: { readonly error: unknown } | null = null

  constructor(count: number, resolve: (answers: A[]) => void, reject: (error: unknown) => void) {
    this.#answers = new Array<A>(count)
    this.#open = count
    this.#resolve = resolve
    this.#reject = reject
  }

  answer(index: number, answer: A): void {
    this.#answers[index] = answer
    this.#answered++
    if (--this.#open === 0) this.#close()
  }

  fail(error: unknown): void {
    // One is told, when nothing of the call is under way any more: the first, or one that leaves something open.
    if (this.#failure === null || TocsinError.is(error, 'unknown-outcome')) this.#failure = { error }
    if (--this.#open === 0) this.#close()
  }

  #close(): void {
    if (this.#failure === null) this.#resolve(this.#answers)
    else this.#reject(this.#answered === 0 ? this.#failure.error : this.#inPart(this.#failure.error))
  }

  /** Some cells took their part and others did not. */
  #inPart(error: unknown): TocsinError {
    const gap = this.#answers.findIndex((answer) => answer === undefined)
    const inAll = `${this.#answered} of ${this.#answers.length} took effect, the first ${gap} of them without a gap`
    return new TocsinError(
      TocsinError.is(error, 'unknown-outcome') ? 'unknown-outcome' : 'interrupted',
      `${inAll}; then: ${error instanceof Error ? error.message : String(error)}`,
      { accepted: gap, inAll: this.#answered },
      error,
    )
  }
}

interface Run {
  readonly name: string
  readonly deadlineMs: number
  readonly keys: Set<string>
  readonly batch: Batch<unknown, unknown>
  readonly tickets: Ticket<unknown>[]
  readonly indexes: number[]
}

/** The runs of one cell that are still to be carried out. */
export interface Queue {
  readonly runs: Run[]
  isBusy: boolean
}

/**
 * Micro-batching: what is called during one turn of the event loop, or while the call before is under way, becomes
 * one call per cell. A cell's steps keep their order: a new run begins where the kind of step changes, or
 * where a key comes a second time, and runs are sent one after the other.
 */
export class Batcher {
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  readonly #queues = new Map<string, Queue>()
  #waking: Queue[] = []
  /** Queues that have something to do, and who waits for there being none. */
  #busyCount = 0
  #whenDrained: (() => void)[] = []

  constructor(clock: Clock, callTimeoutMs: number) {
    this.#clock = clock
    this.#callTimeoutMs = callTimeoutMs
  }

  add<I extends { readonly key: string }, A>(
    items: readonly I[],
    kindOf: (item: I) => BatchKind<I, A>,
  ): Promise<A[]> {
    if (items.length === 0) return Promise.resolve([])
    return new Promise((resolve, reject) => {
      this.#enqueue(items, kindOf, new Ticket<A>(items.length, resolve, reject))
    })
  }

  /** Resolves when everything added so far is answered. */
  drained(): Promise<void> {
    if (this.#busyCount === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenDrained.push(resolve))
  }

  /** The same one whenever the same cell is named: its steps keep their order, whatever they are. */
  queueOf(cell: string): Queue {
    let queue = this.#queues.get(cell)
    if (queue === undefined) {
      queue = { runs: [], isBusy: false }
      this.#queues.set(cell, queue)
    }
    return queue
  }

  /** Steps of one kind in each of some queues. */
  kindsOf<I, A>(
    queues: readonly string[],
    name: string,
    send: (nth: number, run: readonly I[], deadlineMs: number) => Promise<readonly A[]>,
  ): readonly BatchKind<I, A>[] {
    return queues.map((queue, nth) => ({
      queue: this.queueOf(queue),
      name,
      begin: () => new Gathered<I, A>((run, deadlineMs) => send(nth, run, deadlineMs)),
    }))
  }

  #enqueue<I extends { readonly key: string }, A>(
    items: readonly I[],
    kindOf: (item: I) => BatchKind<I, A>,
    ticket: Ticket<A>,
  ): void {
    for (let index = 0; index < items.length; index++) {
      const item = items[index] as I
      const run = this.#runFor(kindOf(item) as BatchKind<unknown, unknown>, item.key)
      run.batch.add(item)
      run.tickets.push(ticket as Ticket<unknown>)
      run.indexes.push(index)
    }
  }

  #runFor(kind: BatchKind<unknown, unknown>, key: string): Run {
    const { queue, name } = kind
    if (!queue.isBusy) this.#busy(queue)
    const { runs } = queue
    if (runs.length > 0) {
      const last = runs[runs.length - 1] as Run
      if (last.name === name && last.tickets.length < BATCH_MAX) {
        // One look at the set: it has grown unless the key was there.
        const { keys } = last
        const before = keys.size
        if (keys.add(key).size > before) return last
      }
    }
    const deadlineMs = this.#clock.monotonicNow() + this.#callTimeoutMs
    const run = { name, deadlineMs, keys: new Set([key]), batch: kind.begin(), tickets: [], indexes: [] }
    runs.push(run)
    return run
  }

  #busy(queue: Queue): void {
    queue.isBusy = true
    this.#busyCount++
    if (this.#waking.length === 0) void this.#clock.turn().then(() => this.#wake())
    this.#waking.push(queue)
  }

  #wake(): void {
    const queues = this.#waking
    this.#waking = []
    for (const queue of queues) void this.#drain(queue)
  }

  async #drain(queue: Queue): Promise<void> {
    for (let run = queue.runs.shift(); run !== undefined; run = queue.runs.shift()) await this.#carryOut(run)
    queue.isBusy = false
    this.#over()
  }

  async #carryOut({ batch, deadlineMs, tickets, indexes }: Run): Promise<void> {
    try {
      const answers = await batch.send(deadlineMs)
      for (let i = 0; i < tickets.length; i++) {
        const answer = answers[i]
        const ticket = tickets[i] as Ticket<unknown>
        if (answer instanceof Failure) ticket.fail(answer.error)
        else if (answer instanceof Later) void this.#answerLater(ticket, indexes[i] as number, answer)
        else ticket.answer(indexes[i] as number, answer)
      }
    } catch (error) {
      for (const ticket of tickets) ticket.fail(error)
    }
  }

  async #answerLater(ticket: Ticket<unknown>, index: number, later: Later<unknown>): Promise<void> {
    this.#busyCount++
    try {
      ticket.answer(index, await later.answer)
    } catch (error) {
      ticket.fail(error)
    }
    this.#over()
  }

  #over(): void {
    if (--this.#busyCount > 0) return
    const waiting = this.#whenDrained
    this.#whenDrained = []
    for (const resolve of waiting) resolve()
  }
}
