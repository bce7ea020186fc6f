import type { TopicConfig } from '../values/config.ts'
import type { Json } from '../errors.ts'
import type { Logger } from './logger.ts'
import type { DeadCause } from '../task.ts'

/** What this process saw. Other processes see their own. */
export interface TocsinEvents {
  /** A task fired later than its topic's objective. */
  late: { topic: string; key: string; id: string; latenessMs: number; objectiveMs: number }
  retry: { topic: string; key: string; id: string; attempt: number; error: string; retryInMs: number }
  dead: { topic: string; key: string; id: string | null; cause: DeadCause; error: string }
  /** The live configuration of a topic changed. */
  config: { topic: string; version: number; effective: TopicConfig; paused: boolean }
  /** The code asks for a value that is not in force. */
  drift: { topic: string; field: string; code: Json; effective: Json }
  /** The slots whose tasks this process pulls. */
  slots: { topic: string; owned: readonly number[] }
  /** Something went wrong that no caller was waiting for. Nothing is lost by it; it will be tried again. */
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
    // Each registration is its own, so that one `off` never silences another.
    const own = (event: TocsinEvents[EventName]) => listener(event as TocsinEvents[N])
    listeners.add(own)
    return () => void listeners.delete(own)
  }

  emit<N extends EventName>(name: N, event: TocsinEvents[N]): void {
    for (const listener of this.#listeners.get(name) ?? []) {
      // A listener's mistake must not stop the timers, nor, when it comes as a rejection, the process.
      const complain = (error: unknown) =>
        this.#logger.error({ event: name, error }, 'an event listener threw')
      try {
        const returned: unknown = listener(event)
        if (returned instanceof Promise) returned.catch(complain)
      } catch (error) {
        complain(error)
      }
    }
  }
}
