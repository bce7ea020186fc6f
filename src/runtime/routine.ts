import { type Clock, sleep } from '../clock.ts'

/** A step that is taken now and then, never twice at once. A step that fails is told of, and the next one comes. */
export class Routine {
  readonly #clock: Clock
  readonly #everyMs: number
  readonly #step: () => Promise<unknown>
  readonly #onError: (error: unknown) => void
  readonly #stop = new AbortController()
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
    return this.#stop.signal.aborted
  }

  /** The first step comes at once, or after the first pause. */
  start(first: 'now' | 'later'): void {
    this.#running = this.#run(first)
  }

  /** Waits for the step that is under way. */
  async stop(): Promise<void> {
    this.#stop.abort()
    await this.#running
  }

  async #run(first: 'now' | 'later'): Promise<void> {
    if (first === 'later') await sleep(this.#clock, this.#everyMs, this.#stop.signal, true)
    while (!this.isStopped) {
      await this.#step().catch(this.#onError)
      await sleep(this.#clock, this.#everyMs, this.#stop.signal, true)
    }
  }
}
