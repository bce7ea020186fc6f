import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { NewTask } from '../task.ts'
import { taskOut } from './wire.ts'

export interface RefusedLine {
  /** The position of the task in the stream, starting at 1. */
  readonly line: number
  readonly error: TocsinError
}

type Tasks = Iterable<NewTask<unknown>> | AsyncIterable<NewTask<unknown>>
type Turn = IteratorResult<NewTask<unknown>>

/** Lines are joined into chunks of about this length, and each chunk is written at once. */
const CHUNK_LENGTH = 65_536

/**
 * A request body with one task per line. It is produced on demand, as fast as the connection accepts it. If the source
 * of tasks is slow, its lines are sent at once and do not wait for a full chunk.
 */
export class TaskLines {
  readonly body: ReadableStream<Uint8Array>
  readonly #next: () => Turn | Promise<Turn>
  readonly #leave: () => unknown
  readonly #onRefused: (refused: RefusedLine) => void
  readonly #clock: Clock
  readonly #encoder = new TextEncoder()
  /** The next task, if the source had not returned it yet when the last chunk was sent. */
  #pending: Promise<Turn> | null = null
  #line = 0
  #isOver = false
  #problem: { readonly thrown: unknown } | null = null

  constructor(tasks: Tasks, onRefused: (refused: RefusedLine) => void, clock: Clock) {
    const iterator = Symbol.asyncIterator in tasks ? tasks[Symbol.asyncIterator]() : tasks[Symbol.iterator]()
    this.#next = () => iterator.next()
    this.#leave = () => iterator.return?.()
    this.#onRefused = onRefused
    this.#clock = clock
    this.body = new ReadableStream<Uint8Array>(
      { pull: (controller) => this.#pull(controller), cancel: () => this.end() },
      { highWaterMark: 0 },
    )
  }

  /**
   * The error that the source threw; null if there is none. The body ends normally before the error, so that the server
   * reports how many tasks it accepted.
   */
  get problem(): { readonly thrown: unknown } | null {
    return this.#problem
  }

  /** Ends the source, so that it can clean up, as after a `break`. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    // The source may never return, so do not await it. Ignore its errors, because no caller is left to get them.
    void (async () => this.#leave())().catch(() => {})
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const chunk = await this.#chunk()
    if (chunk !== '') controller.enqueue(this.#encoder.encode(chunk))
    if (this.#isOver) controller.close()
  }

  async #chunk(): Promise<string> {
    let chunk = ''
    try {
      while (chunk.length < CHUNK_LENGTH && !this.#isOver) {
        const turn = await this.#turn(chunk === '')
        if (turn === null) break
        if (turn.done === true) this.#isOver = true
        else chunk += `${this.#lineOf(turn.value)}\n`
      }
    } catch (thrown) {
      this.#problem = { thrown }
      this.#isOver = true
    }
    return chunk
  }

  /** Returns the next task, or the end. Returns null if the source is not ready and there are lines to send. */
  async #turn(mayWait: boolean): Promise<Turn | null> {
    const next = this.#pending ?? this.#next()
    this.#pending = null
    if (!(next instanceof Promise) || mayWait) return next
    const first = await Promise.race([next, this.#clock.turn()])
    if (first !== undefined) return first
    // The next #turn awaits the same promise and handles its rejection.
    next.catch(() => {})
    this.#pending = next
    return null
  }

  /**
   * Returns the line of a task. A task that is rejected here becomes an empty line, which the server counts, so that
   * later lines keep their numbers.
   */
  #lineOf(task: NewTask<unknown>): string {
    this.#line++
    try {
      return taskOut(task)
    } catch (error) {
      if (!TocsinError.is(error)) throw error
      this.#onRefused({ line: this.#line, error })
      return ''
    }
  }
}
