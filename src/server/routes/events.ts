/** Server-Sent Events of this server. Only live events are sent: events are neither stored nor replayed. */
import type { ServerResponse } from 'node:http'
import type { FastifyInstance } from 'fastify'
import { asTocsinError, orInternal, wordsOf } from '../api-error.ts'
import { EVENT_NAMES, type EventName } from '../../telemetry/events.ts'
import { checkTopic } from '../access.ts'
import { headersOf } from '../headers.ts'
import { route, type ServerParts } from '../parts.ts'
import { FIELDS, object, text } from '../schemas.ts'

/** The interval of pings, which keep proxies from closing an idle stream. */
const PING_MS = 15_000
/**
 * The maximum size of the send buffer. If it is exceeded, events are dropped, and a 'missed' event reports their
 * number.
 */
const BUFFERED_MAX = 256 * 1_024

export function eventRoutes(app: FastifyInstance, { toc, clock, closing }: ServerParts): void {
  route(app, {
    method: 'GET',
    url: '/v1/events',
    name: 'listenToEvents',
    tag: 'figures',
    scope: 'read',
    reach: 'filtered',
    summary: 'Events as they happen, as Server-Sent Events',
    query: object({ topic: text('Only events of this topic.'), type: FIELDS.EVENT }, []),
    answers: { 200: { content: { 'text/event-stream': { schema: { type: 'string' } } } } },
    handler: async (request, reply) => {
      const { topic, type } = request.query as { topic?: string; type?: EventName }
      const prefix = request.access?.topicPrefix ?? null
      if (topic !== undefined && request.access !== null) checkTopic(request.access, topic)
      const isWanted = (of: string) =>
        (topic === undefined || of === topic) && (prefix === null || of.startsWith(prefix))
      void reply.hijack()
      reply.raw.writeHead(200, { ...headersOf(request), 'content-type': 'text/event-stream' })
      // A HEAD request gets only the headers and no events.
      if (request.method === 'HEAD') {
        reply.raw.end()
        return reply
      }
      const stream = new EventStream(reply.raw)
      const names = type === undefined ? EVENT_NAMES : [type]
      const offs = names.map((name) =>
        toc.on(name, (event) => {
          if (isWanted(event.topic)) stream.send(name, plain(event))
        }),
      )
      const ping = () => {
        stream.ping()
        callOff = clock.after(PING_MS, ping, true)
      }
      let callOff = () => {}
      const end = () => reply.raw.end()
      closing.addEventListener('abort', end, { once: true })
      reply.raw.once('close', () => {
        callOff()
        for (const off of offs) off()
        closing.removeEventListener('abort', end)
      })
      stream.comment('listening')
      callOff = clock.after(PING_MS, ping, true)
      return reply
    },
  })
}

class EventStream {
  readonly #response: ServerResponse
  #missed = 0

  constructor(response: ServerResponse) {
    this.#response = response
  }

  send(name: string, event: object): void {
    if (!this.#hasRoom()) this.#missed++
    else this.#write(name, event)
  }

  ping(): void {
    if (this.#hasRoom()) this.comment('ping')
  }

  comment(text: string): void {
    this.#response.write(`: ${text}\n\n`)
  }

  /** Returns false if the send buffer is full. If events were dropped and there is room again, sends 'missed' first. */
  #hasRoom(): boolean {
    if (this.#response.writableLength > BUFFERED_MAX) return false
    if (this.#missed > 0) this.#write('missed', { count: this.#missed })
    this.#missed = 0
    return true
  }

  #write(name: string, event: object): void {
    this.#response.write(`event: ${name}\ndata: ${JSON.stringify(event)}\n\n`)
  }
}

/** Replaces an error by its code and message, without the stack. */
function plain(event: object): object {
  if (!('error' in event) || typeof event.error === 'string') return event
  const error = orInternal(asTocsinError(event.error))
  return { ...event, error: { code: error.code, message: wordsOf(error) } }
}
