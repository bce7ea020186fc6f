import type { Clock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import type { Caller } from './caller.ts'

/**
 * Waits for replicas to confirm writes (option `waitReplicas`). A WAIT covers all earlier writes of its connection. So
 * all writes that are answered before the next WAIT is sent share that WAIT.
 */
export class Replicas {
  readonly #caller: Caller
  readonly #clock: Clock
  readonly #wanted: number
  readonly #waitMs: number
  #underWay: Promise<void> = Promise.resolve()
  #next: Promise<void> | null = null

  constructor(caller: Caller, clock: Clock, wanted: number, callTimeoutMs: number) {
    this.#caller = caller
    this.#clock = clock
    this.#wanted = wanted
    // WAIT must return before the deadline of its call. The connection is destroyed when a deadline passes.
    this.#waitMs = Math.floor(callTimeoutMs / 2)
  }

  /**
   * Resolves to the same answers, after enough replicas have confirmed the writes. Rejects with 'unknown-outcome' if
   * too few replicas confirm in time.
   */
  confirmed<A>(answers: Promise<A>): Promise<A> {
    if (this.#wanted === 0) return answers
    return answers.then(async (answer) => {
      await this.#confirm()
      return answer
    })
  }

  /** Returns whether enough replicas are connected now. */
  async areThere(): Promise<boolean> {
    return Number(await this.#caller.command(['WAIT', String(this.#wanted), '1'], 'wait')) >= this.#wanted
  }

  #confirm(): Promise<void> {
    // Send one WAIT at a time. Each WAIT blocks the connection, so the last of many would miss its deadline.
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
      const wait = ['WAIT', String(this.#wanted), String(this.#waitMs)]
      confirmed = Number(await this.#caller.command(wait, 'wait'))
      if (confirmed >= this.#wanted) return
    } catch (error) {
      // The WAIT failed after Redis had done the write. Report an unknown outcome, because the write may reach the
      // replicas.
      cause = error
    }
    throw new TocsinError(
      'unknown-outcome',
      `written, but only ${confirmed} of ${this.#wanted} replicas confirmed it in time: a failover now could lose it. Check the replicas, or lower waitReplicas`,
      { confirmed, wanted: this.#wanted },
      cause,
    )
  }
}
