import type { TopicConfig } from '../values/config.ts'
import type { Json } from '../errors.ts'
import type { Logger } from './logger.ts'
import type { DeadCause } from '../task.ts'

/** The events that a process emits. A process does not get the events of other processes. */
export interface TocsinEvents {
  /** A task fired later than the objective of its topic allows. */
  late: { topic: string; key: string; id: string; latenessMs: number; objectiveMs: number }
  retry: { topic: string; key: string; id: string; attempt: number; error: string; retryInMs: number }
  dead: { topic: string; key: string; id: string | null; cause: DeadCause; error: string }
  /** The topic's live configuration or its declaration over HTTP changed, or the topic was paused or resumed. */
  config: { topic: string; version: number; effective: TopicConfig; paused: boolean }
  /** A setting in the code is not in force, because another value overrides it. */
  drift: { topic: string; field: string; code: Json; effective: Json }
  /** The slots that this process pulls changed. `owned` lists all slots that it pulls now. */
  slots: { topic: string; owned: readonly number[] }
  /**
   * A background operation failed. No task is lost. Most operations are retried. A conflict is not: the code declares
   * another `slotBy` than the cluster (`doing` is 'create'), and writes to the topic throw until the code is changed.
   */
  error: { topic: string; doing: string; error: unknown }
}

export type EventName = keyof TocsinEvents
export const EVENT_NAMES: readonly EventName[] = [
  'late',
  'retry',
  'dead',
  'config',
  'drift',
  'slots',
  'error',
]

type Listener<N extends EventName> = (event: TocsinEvents[N]) => unknown

export class Announcer {
  readonly #listeners = new Map<EventName, Set<Listener<EventName>>>()
  readonly #logger: Logger

  constructor(logger: Logger) {
    this.#logger = logger
  }

  on<N extends EventName>(name: N, listener: Listener<N>): () => void {
    const listeners = this.#listeners.get(name) ?? new Set()
    this.#listeners.set(name, listeners)
    // Each registration adds a function of its own, so that a listener that was added twice can be removed once.
    const own = (event: TocsinEvents[EventName]) => listener(event as TocsinEvents[N])
    listeners.add(own)
    return () => void listeners.delete(own)
  }

  emit<N extends EventName>(name: N, event: TocsinEvents[N]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      // A listener that throws must not stop the timers. A listener that rejects must not end the process.
      const report = (error: unknown) => this.#logger.error({ event: name, error }, 'an event listener threw')
      try {
        const returned: unknown = listener(event)
        if (returned instanceof Promise) returned.catch(report)
      } catch (error) {
        report(error)
      }
    }
  }
}
