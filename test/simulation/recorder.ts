import type { Event, WriteEvent } from './history.ts'
import type { WorldClock } from './world-clock.ts'

/** An event as its witness tells it. */
export type Told = Event extends infer One ? (One extends Event ? Omit<One, 'seq' | 'trueMs'> : never) : never

/** Writes the history of a run. */
export class Recorder {
  readonly events: Event[] = []
  readonly #world: WorldClock
  readonly #watchers = new Set<(event: Event) => void>()
  #calls = 0
  #runs = 0

  constructor(world: WorldClock) {
    this.#world = world
  }

  tell(told: Told): void {
    const event = { ...told, seq: this.events.length, trueMs: this.#world.nowMs } as Event
    this.events.push(event)
    for (const see of this.#watchers) see(event)
  }

  /** Watchers of events: called at the moment of the event, before any call is answered. */
  watch(see: (event: Event) => void): () => void {
    this.#watchers.add(see)
    return () => this.#watchers.delete(see)
  }

  nextCall(): number {
    return ++this.#calls
  }

  nextRun(): number {
    return ++this.#runs
  }
}

export type ToldWrite = Omit<WriteEvent, 'seq' | 'trueMs'>

/** Every payload of a run names the call that it comes from. */
export interface Payload {
  readonly v: string
  readonly text: string
}

export function versionOf(body: string): string {
  return (JSON.parse(body) as Payload).v
}
