import { type Clock, systemClock } from '../clock.ts'
import { Heap, type HeapMember } from '../lib/heap.ts'

class Timer implements HeapMember {
  readonly key: string
  readonly ring: () => void
  position = -1
  isWaiting = true

  constructor(sequence: number, ring: () => void) {
    // Timers that are set for the same time ring in the order in which they were set: the heap orders them by key.
    this.key = String(sequence).padStart(12, '0')
    this.ring = ring
  }
}

/** A clock that moves only when `moveTo` is called. It never sets a real timer. */
export class VirtualClock implements Clock {
  readonly #timers = new Heap<Timer>()
  #elapsedMs = 0
  #wallMs: number
  #sequence = 0
  #turns = 0

  constructor(startMs: number) {
    this.#wallMs = startMs
  }

  now(): number {
    return this.#wallMs + this.#elapsedMs
  }

  monotonicNow(): number {
    return this.#elapsedMs
  }

  after(delayMs: number, ring: () => void): () => void {
    const timer = new Timer(this.#sequence++, ring)
    this.#timers.push(timer, this.#elapsedMs + Math.max(0, Math.ceil(delayMs)))
    return () => {
      if (timer.isWaiting) this.#timers.remove(timer)
      timer.isWaiting = false
    }
  }

  async turn(): Promise<void> {
    this.#turns++
    await systemClock.turn()
    this.#turns--
  }

  /** True while a caller waits for a turn of the event loop, that is, while code still runs. */
  get isTurning(): boolean {
    return this.#turns > 0
  }

  /** Returns the monotonic time of the next timer; Infinity if none is set. */
  nextTimerMs(): number {
    return this.#timers.headScore()
  }

  get timerCount(): number {
    return this.#timers.size
  }

  /** Moves the clock to `atMs` and rings every timer that is set for that time or earlier. */
  moveTo(atMs: number): void {
    this.#elapsedMs = Math.max(this.#elapsedMs, atMs)
    while (this.#timers.headScore() <= this.#elapsedMs) {
      const timer = this.#timers.pop() as Timer
      timer.isWaiting = false
      timer.ring()
    }
  }

  /** Changes the wall clock only. Timers and leases are not affected. */
  stepWall(byMs: number): void {
    this.#wallMs += byMs
  }
}
