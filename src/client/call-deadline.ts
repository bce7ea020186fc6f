import type { Clock } from '../clock.ts'

/**
 * What may end a call before its answer is there: its deadline, or whoever asked. One for each call, because a signal that
 * serves many calls must not gather what each of them leaves behind.
 */
export class CallDeadline {
  readonly #controller = new AbortController()
  readonly #given: AbortSignal | undefined
  readonly #clock: Clock
  #callOff = () => {}
  #isLate = false

  constructor(clock: Clock, given: AbortSignal | undefined) {
    given?.throwIfAborted()
    this.#clock = clock
    this.#given = given
    given?.addEventListener('abort', this.#abort, { once: true })
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** The deadline came first. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** Whoever asked does not want the answer any more. */
  get isUnwanted(): boolean {
    return this.#given?.aborted ?? false
  }

  get reason(): Error {
    return this.#given?.reason as Error
  }

  /** Null: as long as it takes. Said again, it counts from then on. */
  within(deadlineMs: number | null): void {
    this.#callOff()
    if (deadlineMs === null) return
    this.#callOff = this.#clock.after(deadlineMs, () => {
      this.#isLate = true
      this.#controller.abort()
    })
  }

  /** Hangs up, if the answer is not over yet. */
  hangUp(): void {
    this.release()
    this.#controller.abort()
  }

  release(): void {
    this.#callOff()
    this.#given?.removeEventListener('abort', this.#abort)
  }

  readonly #abort = () => this.#controller.abort(this.#given?.reason)
}
