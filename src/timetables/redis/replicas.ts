import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Caller } from './caller.ts'

/**
 * Has replicas confirm what was written, where the user asked for it: WAIT covers all that its connection wrote
 * before, so that the writes that are answered while one is under way share the next.
 */
export class Replicas {
  readonly #caller: Caller
  readonly #clock: Clock
  readonly #wanted: number
  readonly #patienceMs: number
  #underWay: Promise<void> = Promise.resolve()
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

  /** As many as are wanted are connected now. */
  async areThere(): Promise<boolean> {
    return Number(await this.#caller.command(['WAIT', String(this.#wanted), '1'], 'wait')) >= this.#wanted
  }

  #confirm(): Promise<void> {
    // One at a time: they wait for one another anyway, and in a queue the last would pass its deadline.
    this.#next ??= Promise.allSettled([this.#underWay, this.#clock.turn()]).then(() => {
      this.#next = null
      this.#underWay = this.#wait()
      return this.#underWay
    })
    return this.#next
  }

  async #wait(): Promise<void> {
    let confirmed = 0
    let cause: unknown
    try {
      const wait = ['WAIT', String(this.#wanted), String(this.#patienceMs)]
      confirmed = Number(await this.#caller.command(wait, 'wait'))
      if (confirmed >= this.#wanted) return
    } catch (error) {
      // Whatever became of the question: the write it is about was done.
      cause = error
    }
    throw new TocsinError(
      'unknown-outcome',
      `written, but only ${confirmed} of ${this.#wanted} replicas confirmed it in time: a failover now could lose it. Look at the replicas, or ask for fewer with waitReplicas`,
      { confirmed, wanted: this.#wanted },
      cause,
    )
  }
}
