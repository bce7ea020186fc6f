import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Caller } from './caller.ts'

/**
 * Has replicas confirm what was written, where the user asked for it: WAIT covers all that its connection wrote
 * before, so that the writes of one turn share one.
 */
export class Replicas {
  readonly #caller: Caller
  readonly #clock: Clock
  readonly #wanted: number
  readonly #patienceMs: number
  #next: Promise<void> | null = null

  constructor(caller: Caller, clock: Clock, wanted: number, callTimeoutMs: number) {
    this.#caller = caller
    this.#clock = clock
    this.#wanted = wanted
    // Well before the call's own deadline, which would take the connection down.
    this.#patienceMs = Math.floor(callTimeoutMs / 2)
  }

  /** The same answers, when enough replicas have what they tell of. */
  confirmed<A>(answers: Promise<A>): Promise<A> {
    if (this.#wanted === 0) return answers
    return answers.then(async (answer) => {
      await this.#confirm()
      return answer
    })
  }

  #confirm(): Promise<void> {
    this.#next ??= this.#clock.turn().then(() => {
      this.#next = null
      return this.#wait()
    })
    return this.#next
  }

  async #wait(): Promise<void> {
    const reply = await this.#caller.command(['WAIT', String(this.#wanted), String(this.#patienceMs)], 'wait')
    const confirmed = Number(reply)
    if (confirmed >= this.#wanted) return
    throw new TocsinError(
      'unknown-outcome',
      `written, but only ${confirmed} of ${this.#wanted} replicas confirmed it in time: a failover now could lose it. Look at the replicas, or ask for fewer with waitReplicas`,
      { confirmed, wanted: this.#wanted },
    )
  }
}
