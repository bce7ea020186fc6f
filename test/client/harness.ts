import { serve, type ServeOptions } from 'tocsin/server'
import { type ClientOptions, TocsinClient, TocsinError } from 'tocsin/client'

/** A server compiles its schemas first, which takes its time on a busy machine. */
export const STARTS_WITHIN_MS = 60_000

export interface Pair extends AsyncDisposable {
  readonly url: string
  readonly client: TocsinClient
  close(): Promise<void>
}

/** A real server with nothing in it, and a client of it. */
export async function startPair(options: ServeOptions = {}, client: ClientOptions = {}): Promise<Pair> {
  const served = await serve({ port: 0, timetable: 'memory:', logLevel: 'silent', ...options })
  const { url } = served
  const close = () => served.close()
  return { url, client: new TocsinClient({ url, ...client }), close, [Symbol.asyncDispose]: close }
}

/** What a call was refused with. */
export async function refusalOf(call: Promise<unknown>): Promise<TocsinError> {
  const thrown = await call.then(
    (value) => new Error(`it was answered: ${JSON.stringify(value)}`),
    (error: unknown) => error,
  )
  if (TocsinError.is(thrown)) return thrown
  throw thrown as Error
}

/**
 * `fetch` creates one timer with its first connection and keeps it. Created here, before the tests, it is not taken for a timer
 * that the client leaked. No server listens on port 2.
 */
await fetch('http://127.0.0.1:2/').catch(() => {})
