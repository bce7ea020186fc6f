import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import { BATCH_BYTES_MAX, BATCH_MAX, isBatchFull } from './batch-max.ts'

/** The answer to one item of a batch. One item may fail, or be answered later than the other items. */
export type BatchAnswer<A> = A | Failure | Later<A>

/** Takes the place of an answer if one item of a batch failed and the other items may have succeeded. */
export class Failure {
  readonly error: unknown

  constructor(error: unknown) {
    this.error = error
  }
}

/** Takes the place of an answer if one item of a batch takes longer and the other items need not wait for it. */
export class Later<A> {
  readonly answer: Promise<A>

  constructor(answer: Promise<A>) {
    this.answer = answer
    // Mark a rejection as handled: the promise may reject before the batcher awaits it.
    answer.catch(() => {})
  }
}

/** Collects the items of a batch, and sends them as one call. */
export interface BatchBody<I, A> {
  add(item: I): void
  /** Resolves with one answer per item, in the order in which the items were added. */
  send(deadlineMs: number): Promise<readonly BatchAnswer<A>[]>
}

/** Sends a batch. `nth` is the index of the batch's queue in the array given to `kindsOf`. */
export type SendBatch<I, A> = (
  nth: number,
  items: readonly I[],
  deadlineMs: number,
) => Promise<readonly BatchAnswer<A>[]>

/** An operation on one queue. Callers create it once and reuse it, because there are hundreds of thousands of calls. */
export interface BatchKind<I, A> {
  readonly queue: Queue
  /** Items of kinds with the same name may share a batch. */
  readonly name: string
  /** Returns the size of an item's payload. Undefined if the items have no payloads. */
  readonly bytesOf?: ((item: I) => number) | undefined
  begin(): BatchBody<I, A>
}

/** A batch body that keeps its items in an array until they are sent. */
class ItemList<I, A> implements BatchBody<I, A> {
  readonly #items: I[] = []
  readonly #send: (items: readonly I[], deadlineMs: number) => Promise<readonly BatchAnswer<A>[]>

  constructor(send: (items: readonly I[], deadlineMs: number) => Promise<readonly BatchAnswer<A>[]>) {
    this.#send = send
  }

  add(item: I): void {
    this.#items.push(item)
  }

  send(deadlineMs: number): Promise<readonly BatchAnswer<A>[]> {
    return this.#send(this.#items, deadlineMs)
  }
}

/** One call of `Batcher.add`. Its items may be in several batches. It ends when its last item is answered. */
class PendingCall<A> {
  readonly #answers: A[]
  readonly #resolve: (answers: A[]) => void
  readonly #reject: (error: unknown) => void
  #openCount: number
  #answeredCount = 0
  #failure: { readonly error: unknown } | null = null

  constructor(count: number, resolve: (answers: A[]) => void, reject: (error: unknown) => void) {
    this.#answers = new Array<A>(count)
    this.#openCount = count
    this.#resolve = resolve
    this.#reject = reject
  }

  answer(index: number, answer: A): void {
    this.#answers[index] = answer
    this.#answeredCount++
    if (--this.#openCount === 0) this.#close()
  }

  fail(error: unknown): void {
    // The call rejects once, after all of its items were answered: with its last 'unknown-outcome' error if there is
    // one, else with its first error.
    if (this.#failure === null || TocsinError.is(error, 'unknown-outcome')) this.#failure = { error }
    if (--this.#openCount === 0) this.#close()
  }

  #close(): void {
    if (this.#failure === null) this.#resolve(this.#answers)
    else this.#reject(this.#answeredCount === 0 ? this.#failure.error : this.#inPart(this.#failure.error))
  }

  /** Returns the error of a call if some of its items took effect and others did not. */
  #inPart(error: unknown): TocsinError {
    const gap = this.#answers.findIndex((answer) => answer === undefined)
    const inAll = `${this.#answeredCount} of ${this.#answers.length} took effect, the first ${gap} of them without a gap`
    return new TocsinError(
      TocsinError.is(error, 'unknown-outcome') ? 'unknown-outcome' : 'interrupted',
      `${inAll}; then: ${error instanceof Error ? error.message : String(error)}`,
      { accepted: gap, inAll: this.#answeredCount },
      error,
    )
  }
}

/** Items of one kind that are sent together, and the calls that wait for their answers. */
interface Batch {
  readonly name: string
  readonly deadlineMs: number
  readonly keys: Set<string>
  readonly body: BatchBody<unknown, unknown>
  readonly calls: PendingCall<unknown>[]
  /** The index of each item in its call. */
  readonly indexes: number[]
  /** The size of the payloads. A batch that has reached `BATCH_BYTES_MAX` gets no more items. */
  bytes: number
  isLarge: boolean
}

export interface Queue {
  /** The batches that are not sent yet. */
  readonly batches: Batch[]
  /** The batches that are sent and not answered. */
  readonly underWay: Set<Batch>
  /** True if batches are sent at the end of this turn of the event loop. */
  isWaking: boolean
}

/** The number of batches of a queue that may be under way at the same time. */
const UNDER_WAY_MAX = 3

/** The size of a large batch: by its items, or by its payloads. More items would not make it much cheaper per item. */
const LARGE = { items: BATCH_MAX / 2, bytes: BATCH_BYTES_MAX / 8 }

/**
 * An item joins one of the last batches that wait in its queue. With only the last one, items of two kinds that alternate
 * would make a batch each. There are as many kinds as other processes whose claims this process settles.
 */
const JOINABLE_BATCHES = 16

/**
 * Combines small calls into batches. Items that are added during one turn of the event loop, or while the queue's
 * previous batch is under way, are sent as one batch of up to `BATCH_MAX` items or `BATCH_BYTES_MAX` bytes.
 *
 * A small batch waits until no other batch of its queue is under way, and grows meanwhile: so a steady flow of single items
 * costs few calls, and the calls become larger the more there is to do. A large batch, as a bulk call or a burst has many, is
 * sent beside the others, so that the store is never idle between two of them.
 *
 * The items of a key keep their order: an item never joins a batch before another item of its key, and two batches that
 * share a key are never under way at the same time.
 */
export class Batcher {
  readonly #clock: Clock
  readonly #callTimeoutMs: number
  /** The queues by topic, then by group. */
  readonly #queues = new Map<string, Map<string, Queue[]>>()
  #waking: Queue[] = []
  /** The number of batches without an answer, plus the number of pending `Later` answers. */
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
      this.#enqueue(items, kindOf, new PendingCall<A>(items.length, resolve, reject))
    })
  }

  /** Resolves when no item waits for an answer. */
  drained(): Promise<void> {
    if (this.#busyCount === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenDrained.push(resolve))
  }

  /**
   * Returns the queues of a topic and group. The first call creates `count` queues, and later calls return the same
   * queues. So items of different kinds keep their order, too.
   */
  queuesOf(topic: string, group: string, count: number): readonly Queue[] {
    let groups = this.#queues.get(topic)
    if (groups === undefined) this.#queues.set(topic, (groups = new Map<string, Queue[]>()))
    let queues = groups.get(group)
    if (queues === undefined) {
      queues = Array.from({ length: count }, () => ({ batches: [], underWay: new Set(), isWaking: false }))
      groups.set(group, queues)
    }
    return queues
  }

  /** Returns one `BatchKind` per queue. */
  kindsOf<I, A>(
    queues: readonly Queue[],
    name: string,
    send: SendBatch<I, A>,
    bytesOf?: (item: I) => number,
  ): readonly BatchKind<I, A>[] {
    return queues.map((queue, nth) => ({
      queue,
      name,
      bytesOf,
      begin: () => new ItemList<I, A>((items, deadlineMs) => send(nth, items, deadlineMs)),
    }))
  }

  #enqueue<I extends { readonly key: string }, A>(
    items: readonly I[],
    kindOf: (item: I) => BatchKind<I, A>,
    call: PendingCall<A>,
  ): void {
    for (let index = 0; index < items.length; index++) {
      const item = items[index] as I
      const kind = kindOf(item) as BatchKind<unknown, unknown>
      const batch = this.#batchFor(kind, item.key)
      batch.body.add(item)
      if (kind.bytesOf !== undefined) batch.bytes += kind.bytesOf(item)
      batch.calls.push(call as PendingCall<unknown>)
      batch.indexes.push(index)
      if (!batch.isLarge && (batch.calls.length >= LARGE.items || batch.bytes >= LARGE.bytes)) {
        batch.isLarge = true
        this.#wakeSoon(kind.queue)
      }
    }
  }

  #batchFor(kind: BatchKind<unknown, unknown>, key: string): Batch {
    const { name, queue } = kind
    const { batches } = queue
    for (let nth = batches.length - 1; nth >= 0 && nth >= batches.length - JOINABLE_BATCHES; nth--) {
      const batch = batches[nth] as Batch
      if (batch.name === name && !isBatchFull(batch.calls.length, batch.bytes)) {
        // Compare the sizes instead of calling `has`: this saves a lookup. The set grows unless it already has the key.
        const { keys } = batch
        const before = keys.size
        if (keys.add(key).size > before) return batch
        break
      }
      // Items of one key keep their order.
      if (batch.keys.has(key)) break
    }
    const deadlineMs = this.#clock.monotonicNow() + this.#callTimeoutMs
    const keys = new Set([key])
    const body = kind.begin()
    const batch = { name, deadlineMs, keys, body, calls: [], indexes: [], bytes: 0, isLarge: false }
    batches.push(batch)
    this.#busyCount++
    this.#wakeSoon(queue)
    return batch
  }

  #wakeSoon(queue: Queue): void {
    if (queue.isWaking || !maySendNext(queue)) return
    queue.isWaking = true
    if (this.#waking.length === 0) void this.#clock.turn().then(() => this.#wake())
    this.#waking.push(queue)
  }

  #wake(): void {
    const queues = this.#waking
    this.#waking = []
    for (const queue of queues) {
      queue.isWaking = false
      this.#sendMore(queue)
    }
  }

  #sendMore(queue: Queue): void {
    while (maySendNext(queue)) void this.#follow(queue, queue.batches.shift() as Batch)
  }

  async #follow(queue: Queue, batch: Batch): Promise<void> {
    queue.underWay.add(batch)
    await this.#send(batch)
    queue.underWay.delete(batch)
    this.#sendMore(queue)
    this.#finished()
  }

  async #send({ body, deadlineMs, calls, indexes }: Batch): Promise<void> {
    try {
      const answers = await body.send(deadlineMs)
      for (let i = 0; i < calls.length; i++) {
        const answer = answers[i]
        const call = calls[i] as PendingCall<unknown>
        if (answer instanceof Failure) call.fail(answer.error)
        else if (answer instanceof Later) void this.#answerLater(call, indexes[i] as number, answer)
        else call.answer(indexes[i] as number, answer)
      }
    } catch (error) {
      for (const call of calls) call.fail(error)
    }
  }

  async #answerLater(call: PendingCall<unknown>, index: number, later: Later<unknown>): Promise<void> {
    this.#busyCount++
    try {
      call.answer(index, await later.answer)
    } catch (error) {
      call.fail(error)
    }
    this.#finished()
  }

  #finished(): void {
    if (--this.#busyCount > 0) return
    const waiting = this.#whenDrained
    this.#whenDrained = []
    for (const resolve of waiting) resolve()
  }
}

/** Returns true if the first batch that waits may be sent now. */
function maySendNext({ batches, underWay }: Queue): boolean {
  const [next] = batches
  if (next === undefined) return false
  if (underWay.size === 0) return true
  if (!next.isLarge || underWay.size >= UNDER_WAY_MAX) return false
  for (const { keys } of underWay) if (haveCommon(next.keys, keys)) return false
  return true
}

function haveCommon(some: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  for (const key of some) if (others.has(key)) return true
  return false
}
