import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'
import type { NewTask } from '../task.ts'
import { taskOut } from './wire.ts'

export interface RefusedLine {
  /** Which of the tasks it was, counted from 1. */
  readonly line: number
  readonly error: TocsinError
}

type Tasks = Iterable<NewTask<unknown>> | AsyncIterable<NewTask<unknown>>
type Turn = IteratorResult<NewTask<unknown>>

/** Large enough for a write to be worth it. */
const PIECE_LENGTH = 65_536

/**
 * Tasks as lines of JSON, made when the connection asks for more. A source that takes its time is not waited for with lines
 * in hand: they go out, and the next ones follow.
 */
export class TaskLines {
  readonly body: ReadableStream<Uint8Array>
  readonly #next: () => Turn | Promise<Turn>
  readonly #leave: () => unknown
  readonly #onRefused: (refused: RefusedLine) => void
  readonly #clock: Clock
  readonly #encoder = new TextEncoder()
  /** Asked for, and not there when the last piece went out. */
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

  /** What the source threw. What it gave before was sent, and the body ended as usual: so the server can say how much is in. */
  get problem(): { readonly thrown: unknown } | null {
    return this.#problem
  }

  /** No more are wanted: the source may clean up, as after a `break`. */
  end(): void {
    if (this.#isOver) return
    this.#isOver = true
    // It may be waiting for something that never comes: nobody waits for it. Nor is there anybody to tell of its mistakes.
    void (async () => this.#leave())().catch(() => {})
  }

  async #pull(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    const piece = await this.#piece()
    if (piece !== '') controller.enqueue(this.#encoder.encode(piece))
    if (this.#isOver) controller.close()
  }

  async #piece(): Promise<string> {
    let piece = ''
    try {
      while (piece.length < PIECE_LENGTH && !this.#isOver) {
        const turn = await this.#turn(piece === '')
        if (turn === null) break
        if (turn.done === true) this.#isOver = true
        else piece += `${this.#lineOf(turn.value)}\n`
      }
    } catch (thrown) {
      this.#problem = { thrown }
      this.#isOver = true
    }
    return piece
  }

  /** Null: it is not there yet, and there are lines to be sent. */
  async #turn(isPatient: boolean): Promise<Turn | null> {
    const next = this.#pending ?? this.#next()
    this.#pending = null
    if (!(next instanceof Promise) || isPatient) return next
    const first = await Promise.race([next, this.#clock.turn()])
    if (first !== undefined) return first
    // Its rejection is met by whoever waits for it next.
    next.catch(() => {})
    this.#pending = next
    return null
  }

  /** Empty when the task is refused here: the server counts it, so that the lines after it keep their numbers. */
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
