import type { Clock } from '../clock.ts'

/** Runs a step periodically, never twice at the same time. Passes the error of a step to `onError`, then goes on. */
export class Periodic {
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #step: () => Promise<unknown>
  readonly #onError: (error: unknown) => void
  #isStopped = false
  #isHurried = false
  /** Ends the current pause. */
  #wake = () => {}
  #running: Promise<void> = Promise.resolve()

  constructor(
    clock: Clock,
    everyMs: number,
    step: () => Promise<unknown>,
    onError: (error: unknown) => void,
  ) {
    this.#clock = clock
    this.#everyMs = everyMs
    this.#step = step
    this.#onError = onError
  }

  get isStopped(): boolean {
    return this.#isStopped
  }

  /** Runs the first step at once, or after the first pause. */
  start(first: 'now' | 'later'): void {
    this.#running = this.#run(first)
  }

  /** Runs the next step now, or as soon as the current step has ended. */
  hurry(): void {
    this.#isHurried = true
    this.#wake()
  }

  /** Starts no more steps. Resolves when the current step has ended. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#wake()
    await this.#running
  }

  async #run(first: 'now' | 'later'): Promise<void> {
    if (first === 'later') await this.#pause()
    while (!this.isStopped) {
      this.#isHurried = false
      await this.#step().catch(this.#onError)
      await this.#pause()
    }
  }

  /**
   * Waits for the interval, or until `#wake` is called. Uses no AbortSignal: a process pauses several times a second,
   * and signals are expensive.
   */
  #pause(): Promise<void> {
    if (this.#isHurried || this.isStopped) return Promise.resolve()
    return new Promise((resolve) => {
      const callOff = this.#clock.after(this.#everyMs, resolve, true)
      this.#wake = () => {
        callOff()
        resolve()
      }
    })
  }
}
