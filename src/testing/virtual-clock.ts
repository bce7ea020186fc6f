import { type Clock, systemClock } from '../clock.ts'
import { Heap, type HeapMember } from '../lib/heap.ts'

class Timer implements HeapMember {
  readonly key: string
  readonly ring: () => void
  position = -1
  waits = true

  constructor(sequence: number, ring: () => void) {
    // Timers of one moment ring in the order in which they were set.
    this.key = String(sequence).padStart(12, '0')
    this.ring = ring
  }
}

/** Time that moves when it is told to. No real timer is ever set. */
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
      if (timer.waits) this.#timers.remove(timer)
      timer.waits = false
    }
  }

  async turn(): Promise<void> {
    this.#turns++
    await systemClock.turn()
    this.#turns--
  }

  /** Somebody waits for a turn of the event loop: things are still going on. */
  get isTurning(): boolean {
    return this.#turns > 0
  }

  /** Monotonic; Infinity when no timer waits. */
  nextTimerMs(): number {
    return this.#timers.headScore()
  }

  get timerCount(): number {
    return this.#timers.size
  }

  /** Moves on to `atMs` and rings everything set for then or before. */
  moveTo(atMs: number): void {
    this.#elapsedMs = Math.max(this.#elapsedMs, atMs)
    while (this.#timers.headScore() <= this.#elapsedMs) {
      const timer = this.#timers.pop() as Timer
      timer.waits = false
      timer.ring()
    }
  }

  /** The wall clock alone jumps, as when somebody sets it; timers and leases do not notice. */
  stepWall(byMs: number): void {
    this.#wallMs += byMs
  }
}
