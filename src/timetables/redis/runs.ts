import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'

/** One script call takes at most this many tasks: Lua hands on only some 8,000 values at once. */
const RUN_MAX = 1_000

/** Steps of one kind on one cell, carried out together: one call, one answer for each item. */
export interface RunKind<I, A> {
  /** Whose queue it goes into. */
  readonly cell: string
  /** Steps of the same name go into one run. */
  readonly name: string
  send(items: readonly I[], deadlineMs: number): Promise<readonly A[]>
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
    this.#answers = new Array<A>(count).fill(undefined as A)
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
  readonly kind: RunKind<unknown, unknown>
  readonly deadlineMs: number
  readonly keys: Set<string>
  readonly items: unknown[]
  readonly tickets: Ticket<unknown>[]
  readonly indexes: number[]
}

interface Queue {
  readonly runs: Run[]
  isBusy: boolean
}

/**
 * Micro-batching: what is called during one turn of the event loop, or while the call before is under way, becomes
 * one script call per cell. A cell's steps keep their order: a new run begins where the kind of step changes, or
 * where a key comes a second time, and runs are sent one after the other.
 */
export class Runs {
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
    kindOf: (item: I) => RunKind<I, A>,
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

  #enqueue<I extends { readonly key: string }, A>(
    items: readonly I[],
    kindOf: (item: I) => RunKind<I, A>,
    ticket: Ticket<A>,
  ): void {
    const deadlineMs = this.#clock.monotonicNow() + this.#callTimeoutMs
    for (let index = 0; index < items.length; index++) {
      const item = items[index] as I
      const run = this.#runFor(kindOf(item) as RunKind<unknown, unknown>, item.key, deadlineMs)
      run.items.push(item)
      run.tickets.push(ticket as Ticket<unknown>)
      run.indexes.push(index)
    }
  }

  #runFor(kind: RunKind<unknown, unknown>, key: string, deadlineMs: number): Run {
    const queue = this.#queueOf(kind.cell)
    const last = queue.runs.at(-1)
    if (
      last !== undefined &&
      last.kind.name === kind.name &&
      last.items.length < RUN_MAX &&
      !last.keys.has(key)
    ) {
      last.keys.add(key)
      return last
    }
    const run = { kind, deadlineMs, keys: new Set([key]), items: [], tickets: [], indexes: [] }
    queue.runs.push(run)
    return run
  }

  #queueOf(cell: string): Queue {
    let queue = this.#queues.get(cell)
    if (queue === undefined) {
      queue = { runs: [], isBusy: false }
      this.#queues.set(cell, queue)
    }
    if (!queue.isBusy) {
      queue.isBusy = true
      this.#busyCount++
      if (this.#waking.length === 0) void this.#clock.turn().then(() => this.#wake())
      this.#waking.push(queue)
    }
    return queue
  }

  #wake(): void {
    const queues = this.#waking
    this.#waking = []
    for (const queue of queues) void this.#drain(queue)
  }

  async #drain(queue: Queue): Promise<void> {
    for (let run = queue.runs.shift(); run !== undefined; run = queue.runs.shift()) await carryOut(run)
    queue.isBusy = false
    if (--this.#busyCount > 0) return
    const waiting = this.#whenDrained
    this.#whenDrained = []
    for (const resolve of waiting) resolve()
  }
}

async function carryOut({ kind, items, deadlineMs, tickets, indexes }: Run): Promise<void> {
  try {
    const answers = await kind.send(items, deadlineMs)
    for (let i = 0; i < items.length; i++) tickets[i]?.answer(indexes[i] as number, answers[i])
  } catch (error) {
    for (const ticket of tickets) ticket.fail(error)
  }
}
