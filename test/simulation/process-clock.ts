import type { Clock } from '../../src/clock.ts'
import type { WorldClock } from './world-clock.ts'

/** Where the wall clocks of a run begin. */
export const START_MS = Date.UTC(2026, 0, 1)

/**
 * The clocks of one process. Its wall clock may be wrong, and be set; its steady one runs a little fast or slow. While
 * the process is stopped, nothing rings, and afterwards all does; when it is dead, nothing does any more.
 */
export class ProcessClock implements Clock {
  readonly #world: WorldClock
  readonly #driftFactor: number
  readonly #timers = new Set<() => void>()
  #wallOffsetMs: number
  #state: 'runs' | 'stopped' | 'dead' = 'runs'
  #waiting: (() => void)[] = []
  #waitingTurns: (() => void)[] = []

  constructor(world: WorldClock, skewMs = 0, driftPpm = 0) {
    this.#world = world
    this.#wallOffsetMs = START_MS + skewMs
    this.#driftFactor = 1 + driftPpm / 1e6
  }

  now(): number {
    return Math.floor(this.#wallOffsetMs + this.#world.nowMs)
  }

  monotonicNow(): number {
    return this.#world.nowMs * this.#driftFactor
  }

  after(delayMs: number, ring: () => void): () => void {
    const forget = () => {
      cancel()
      this.#timers.delete(forget)
    }
    // Never too early by its own steady clock, however the numbers are rounded.
    const cancel = this.#world.after(Math.max(0, delayMs) / this.#driftFactor + 1e-6, () => {
      this.#timers.delete(forget)
      this.reach(ring)
    })
    if (this.#state !== 'dead') this.#timers.add(forget)
    else cancel()
    return forget
  }

  turn(): Promise<void> {
    return new Promise((resolve) => this.#turn(resolve))
  }

  #turn(go: () => void): void {
    this.#world.turn(() => {
      if (this.#state === 'runs') go()
      else if (this.#state === 'stopped') this.#waitingTurns.push(go)
    })
  }

  /** Something comes from outside: now, or when the process goes on, or never. */
  reach(happen: () => void): void {
    if (this.#state === 'runs') happen()
    else if (this.#state === 'stopped') this.#waiting.push(happen)
  }

  stepWall(byMs: number): void {
    this.#wallOffsetMs += byMs
  }

  stop(): void {
    if (this.#state === 'runs') this.#state = 'stopped'
  }

  goOn(): void {
    if (this.#state !== 'stopped') return
    this.#state = 'runs'
    const waiting = this.#waiting
    const waitingTurns = this.#waitingTurns
    this.#waiting = []
    this.#waitingTurns = []
    // Turns stay turns: the simulation's clock serves new turns before its next moment, so an old turn that came as a
    // moment would wait for ever behind a loop of turns.
    for (const go of waitingTurns) this.#turn(go)
    for (const happen of waiting) this.#world.after(0, () => this.reach(happen))
  }

  die(): void {
    this.#state = 'dead'
    this.#waiting = []
    this.#waitingTurns = []
    for (const forget of this.#timers) forget()
  }

  get isDead(): boolean {
    return this.#state === 'dead'
  }

  get isStopped(): boolean {
    return this.#state === 'stopped'
  }

  get timerCount(): number {
    return this.#timers.size
  }
}
