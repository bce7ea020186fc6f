import { Heap, type HeapMember } from '../../src/lib/heap.ts'

class Moment implements HeapMember {
  readonly key: string
  readonly happen: () => void
  position = -1
  waits = true

  constructor(sequence: number, happen: () => void) {
    // Things of one moment happen in the order in which they were planned.
    this.key = String(sequence).padStart(12, '0')
    this.happen = happen
  }
}

/**
 * The one true time of a run: it stands still while anything is going on, and then goes on to the next thing that was
 * planned. One thing at a time, each carried to its end before the next: so a run is the same whenever it is repeated.
 */
export class WorldClock {
  readonly #moments = new Heap<Moment>()
  #turns: (() => void)[] = []
  #sequence = 0
  #quiets = 0
  #countedMs = 0
  #counted = 0
  #nowMs = 0

  get nowMs(): number {
    return this.#nowMs
  }

  /** Answers how to call it off. */
  after(delayMs: number, happen: () => void): () => void {
    const moment = new Moment(this.#sequence++, happen)
    this.#moments.push(moment, this.#nowMs + Math.max(0, delayMs))
    return () => {
      if (moment.waits) this.#moments.remove(moment)
      moment.waits = false
    }
  }

  /** Called when everything that can go on without time passing has done so, once. */
  turn(go: () => void): void {
    this.#turns.push(go)
  }

  /** Lets time pass until `untilMs`, or until `isOver`. */
  async run(untilMs: number, isOver: () => boolean = () => false): Promise<void> {
    await this.#quiet()
    while (!isOver()) {
      const nextMs = this.#moments.headScore()
      if (nextMs > untilMs) break
      const moment = this.#moments.pop() as Moment
      moment.waits = false
      this.#nowMs = Math.max(this.#nowMs, nextMs)
      this.#count()
      moment.happen()
      await this.#quiet()
    }
    if (!isOver()) this.#nowMs = Math.max(this.#nowMs, untilMs)
  }

  /** Throws if too much happens without time passing: a busy loop would never end. */
  #count(): void {
    if (this.#nowMs >= this.#countedMs + BUSY_MS) {
      this.#countedMs = this.#nowMs
      this.#counted = 0
    }
    if (++this.#counted > BUSY_MAX) throw new Error(`over ${BUSY_MAX} things happened within ${BUSY_MS} ms`)
  }

  async #quiet(): Promise<void> {
    do {
      const turns = this.#turns
      this.#turns = []
      for (const go of turns) go()
      // All promises that can be kept are kept before the next tick. A turn of the event loop would do as well, and takes
      // as long as all the rest; the process itself needs one only now and then.
      await (++this.#quiets % TICKS_PER_TURN === 0 ? eventLoopTurn() : nextTick())
    } while (this.#turns.length > 0)
  }
}

const TICKS_PER_TURN = 1_000
const BUSY_MS = 100
const BUSY_MAX = 20_000

function nextTick(): Promise<void> {
  return new Promise((resolve) => process.nextTick(resolve))
}

function eventLoopTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
