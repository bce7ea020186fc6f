/** How bodies are read: as JSON, bounded in size and in time, in UTF-8; or as a stream of lines, handed on as it comes. */
import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'

export const NDJSON = 'application/x-ndjson'
const JSON_TYPE = 'application/json'

export interface BodyLimits {
  readonly bytesMax: number
  /** For a body that is taken as a whole. */
  readonly deadlineMs: number
}

export function useBodies(app: FastifyInstance, clock: Clock, limits: BodyLimits): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  const readJson = async (request: FastifyRequest, payload: Readable): Promise<unknown> => {
    const bytesMax = Math.min(limits.bytesMax, request.access?.bodyBytesMax ?? Number.POSITIVE_INFINITY)
    const body = await read(request, payload, bytesMax, clock, limits.deadlineMs)
    if (!isUtf8(body)) throw new TocsinError('bad-request', 'body: it is not valid UTF-8')
    const text = body.toString()
    if (text === '' && mayBeEmpty(request)) return {}
    return new Promise((resolve, reject) => {
      void parse(request, text, (error, value) => {
        if (error === null) resolve(value)
        else reject(new TocsinError('bad-request', `body: ${reasonOf(text)}`))
      })
    })
  }
  app.addContentTypeParser([JSON_TYPE, 'application/merge-patch+json'], readJson)
  app.addContentTypeParser(NDJSON, (_request, payload, done) => done(null, payload))
  app.addHook('preParsing', async (request, reply) => {
    if (!hasBody(request)) return
    try {
      checkWanted(request)
    } catch (error) {
      // What nobody reads is not waited for, either.
      void reply.header('connection', 'close')
      throw error
    }
  })
  app.addHook('preValidation', async (request) => {
    if (request.body === undefined && mayBeEmpty(request)) request.body = {}
  })
}

/** 'application/json; charset=utf-8' → 'application/json'. */
export function mediaTypeOf({ headers }: FastifyRequest): string {
  return headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? ''
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/**
 * Of a POST nothing is as good as an empty object: what it cannot do without, it misses by name. Not of a PUT, to which nothing
 * would mean 'as by default', nor of a PATCH.
 */
function mayBeEmpty({ method, routeOptions }: FastifyRequest): boolean {
  return method === 'POST' && routeOptions.schema?.body !== undefined
}

/** Each route says what it takes: a body that would be passed over, or taken for something else, is refused. */
function checkWanted(request: FastifyRequest): void {
  const { schema } = request.routeOptions
  if (schema?.body === undefined)
    throw new TocsinError('bad-request', `body: ${request.method} takes none here`)
  const taken = schema.consumes ?? [JSON_TYPE]
  if (!taken.includes(mediaTypeOf(request)))
    throw new TocsinError('bad-media-type', `content-type: send ${taken.join(' or ')}`, {
      field: 'content-type',
    })
  const { 'content-encoding': encoding = 'identity' } = request.headers
  if (encoding.toLowerCase() !== 'identity')
    throw new TocsinError('bad-media-type', 'content-encoding: send it as it is', {
      field: 'content-encoding',
    })
}

/** Why the parser refused it. What V8 says may quote the body, which is nobody's business but its sender's: that is left out. */
function reasonOf(text: string): string {
  try {
    JSON.parse(text.replace(/^\uFEFF/, ''))
    return "it has a key '__proto__', or a 'constructor' with a 'prototype', which turn into an attack when objects are merged"
  } catch (error) {
    const at = /at position \d+|end of JSON input/.exec((error as Error).message)?.[0]
    return at === undefined ? 'it is not JSON' : `it is not JSON: ${at}`
  }
}

async function read(
  request: FastifyRequest,
  payload: Readable,
  bytesMax: number,
  clock: Clock,
  deadlineMs: number,
): Promise<Buffer> {
  const tooLarge = () =>
    new TocsinError('too-large', `body: more than ${bytesMax} bytes; send many tasks as ${NDJSON}`, {
      limit: bytesMax,
    })
  if (Number(request.headers['content-length'] ?? 0) > bytesMax) throw tooLarge()
  const chunks: Buffer[] = []
  let bytes = 0
  return new Promise((resolve, reject) => {
    const end = (say: () => void) => {
      callOff()
      payload.off('data', take)
      payload.off('end', finish)
      payload.off('error', cut)
      payload.off('close', cut)
      say()
    }
    const refuse = (error: TocsinError) =>
      end(() => {
        // What is still to come is not wanted: the connection is not used again.
        payload.resume()
        reject(error)
      })
    const callOff = clock.after(deadlineMs, () =>
      refuse(new TocsinError('request-timeout', `body: it did not come within ${deadlineMs / 1_000} s`)),
    )
    const take = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bytesMax) refuse(tooLarge())
      else chunks.push(chunk)
    }
    const finish = () => end(() => resolve(Buffer.concat(chunks, bytes)))
    const cut = () => refuse(new TocsinError('bad-request', 'body: the connection ended before it did'))
    payload.on('data', take)
    payload.once('end', finish)
    payload.once('error', cut)
    payload.once('close', cut)
  })
}
