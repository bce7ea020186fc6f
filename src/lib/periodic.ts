import type { Clock } from '../clock.ts'

/** A step that is taken now and then, never twice at once. A step that fails is told of, and the next one comes. */
export class Periodic {
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #step: () => Promise<unknown>
  readonly #onError: (error: unknown) => void
  #isStopped = false
  #isHurried = false
  /** Ends the rest that is under way. */
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

  /** The first step comes at once, or after the first pause. */
  start(first: 'now' | 'later'): void {
    this.#running = this.#run(first)
  }

  /** The next step comes now, or as soon as the one that is under way is over. */
  hurry(): void {
    this.#isHurried = true
    this.#wake()
  }

  /** Waits for the step that is under way. */
  async stop(): Promise<void> {
    this.#isStopped = true
    this.#wake()
    await this.#running
  }

  async #run(first: 'now' | 'later'): Promise<void> {
    if (first === 'later') await this.#rest()
    while (!this.isStopped) {
      this.#isHurried = false
      await this.#step().catch(this.#onError)
      await this.#rest()
    }
  }

  /** No signal is made for it: a process rests several times a second, and signals are dear. */
  #rest(): Promise<void> {
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
