import { type Clock, timeout } from '../clock.ts'

/**
 * Aborts a call at its deadline, or when the caller's signal aborts. Each call has its own CallDeadline. When the
 * call ends, the listener on the caller's signal is removed, so that a signal shared by many calls does not accumulate
 * listeners.
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

  /** True if the deadline aborted the call. */
  get isLate(): boolean {
    return this.#isLate
  }

  /** True if the caller's signal has aborted. */
  get isAborted(): boolean {
    return this.#given?.aborted ?? false
  }

  get reason(): Error {
    return this.#given?.reason as Error
  }

  /** Sets the deadline to `deadlineMs` from now, and replaces the previous deadline. Null removes the deadline. */
  set(deadlineMs: number | null): void {
    this.#callOff()
    if (deadlineMs === null) return
    this.#callOff = timeout(this.#clock, deadlineMs, () => {
      this.#isLate = true
      this.#controller.abort()
    })
  }

  /** Ends the call. Closes its connection if the answer is incomplete. */
  abort(): void {
    this.release()
    this.#controller.abort()
  }

  release(): void {
    this.#callOff()
    this.#given?.removeEventListener('abort', this.#abort)
  }

  readonly #abort = () => this.#controller.abort(this.#given?.reason)
}
