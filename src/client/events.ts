/** Live events of a server. Events are not stored: a client does not get the events from before its connection. */
import { TocsinError } from '../errors.ts'
import { EVENT_NAMES, type EventName, type TocsinEvents } from '../telemetry/events.ts'
import type { Http } from './http.ts'
import { linesOf } from './lines.ts'
import { queryOut } from './wire.ts'

/** An event of the library, with its name as `type`. */
export type ServerEvent =
  | { [N in Exclude<EventName, 'error'>]: { readonly type: N } & TocsinEvents[N] }[Exclude<
      EventName,
      'error'
    >]
  | {
      readonly type: 'error'
      readonly topic: string
      readonly doing: string
      readonly error: string | { readonly code: string; readonly message: string }
    }
  /** The number of events that were dropped because this client read too slowly. */
  | { readonly type: 'missed'; readonly count: number }

export interface EventsOptions {
  /** Yields only events of this topic. */
  readonly topic?: string | undefined
  readonly type?: EventName | undefined
  /** Ends the iteration without an error. */
  readonly signal?: AbortSignal | undefined
}

const KNOWN: readonly string[] = [...EVENT_NAMES, 'missed']

/** Yields events. Ends when the caller leaves the loop or the signal aborts. Throws when the server ends the stream. */
export async function* eventsOf(
  http: Http,
  { topic, type, signal }: EventsOptions,
): AsyncGenerator<ServerEvent, void, undefined> {
  if (signal?.aborted) return
  const path = `/v1/events${queryOut({ topic, type })}`
  const headers = { accept: 'text/event-stream' }
  const opened = await http.open('GET', path, { headers, signal }).catch((error: unknown) => {
    if (signal?.aborted) return null
    throw error as Error
  })
  if (opened === null) return
  let hasEnded = false
  try {
    yield* parsedEvents(opened.body)
    hasEnded = true
  } catch (thrown) {
    if (signal?.aborted) return
    throw opened.failure(thrown)
  } finally {
    opened.close()
  }
  if (hasEnded && !signal?.aborted)
    throw new TocsinError('unreachable', 'the server ended the event stream; it may be shutting down')
}

async function* parsedEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent, void, undefined> {
  let type = ''
  let data = ''
  for await (const line of linesOf(body)) {
    const [, field, value] = /^(\w*): ?(.*)$/s.exec(line) ?? []
    if (field === 'event') type = value ?? ''
    else if (field === 'data') data += data === '' ? value : `\n${value}`
    if (line !== '') continue
    // A newer server may send events that this client does not know. Skip them.
    if (data !== '' && KNOWN.includes(type)) yield { ...(JSON.parse(data) as object), type } as ServerEvent
    type = ''
    data = ''
  }
}
