/**
 * Reads request bodies. A JSON body has a size limit and a timeout. An NDJSON body is passed on as a stream of bytes,
 * which bulk-schedule.ts splits into lines.
 */
import { isUtf8 } from 'node:buffer'
import type { Readable } from 'node:stream'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { TocsinError } from '../errors.ts'

export const NDJSON = 'application/x-ndjson'
const JSON_TYPE = 'application/json'

export interface BodyLimits {
  readonly bytesMax: number
  /** The time limit for a JSON body, which is read as a whole. */
  readonly deadlineMs: number
}

export function useBodies(app: FastifyInstance, clock: Clock, limits: BodyLimits): void {
  const parse = app.getDefaultJsonParser('error', 'error')
  app.removeAllContentTypeParsers()
  const readJson = async (request: FastifyRequest, payload: Readable): Promise<unknown> => {
    const bytesMax = Math.min(limits.bytesMax, request.access?.bodyBytesMax ?? Number.POSITIVE_INFINITY)
    const body = await read(request, payload, bytesMax, clock, limits.deadlineMs)
    if (!isUtf8(body)) throw new TocsinError('bad-request', 'body: not valid UTF-8')
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
      // The body will not be read: close the connection instead of waiting for the rest of the body.
      void reply.header('connection', 'close')
      throw error
    }
  })
  app.addHook('preValidation', async (request) => {
    if (request.body === undefined && mayBeEmpty(request)) request.body = {}
  })
}

/** Returns the media type without parameters: 'application/json; charset=utf-8' → 'application/json'. */
export function mediaTypeOf({ headers }: FastifyRequest): string {
  return headers['content-type']?.split(';')[0]?.trim().toLowerCase() ?? ''
}

function hasBody({ headers }: FastifyRequest): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
}

/**
 * Returns true if an empty body is read as an empty object. Validation then reports missing fields by name. This
 * applies only to POST: a PUT or PATCH must have a body, because an empty object in a PUT would reset the topic to its
 * defaults.
 */
function mayBeEmpty({ method, routeOptions }: FastifyRequest): boolean {
  return method === 'POST' && routeOptions.schema?.body !== undefined
}

/** Throws if the request has a body that the route would ignore or misread. */
function checkWanted(request: FastifyRequest): void {
  const { schema } = request.routeOptions
  if (schema?.body === undefined)
    throw new TocsinError('bad-request', `body: this ${request.method} takes none`)
  const taken = schema.consumes ?? [JSON_TYPE]
  if (!taken.includes(mediaTypeOf(request)))
    throw new TocsinError('bad-media-type', `content-type: send ${taken.join(' or ')}`, {
      field: 'content-type',
    })
  const { 'content-encoding': encoding = 'identity' } = request.headers
  if (encoding.toLowerCase() !== 'identity')
    throw new TocsinError('bad-media-type', 'content-encoding: compressed bodies are not supported', {
      field: 'content-encoding',
    })
}

/**
 * Returns why the parser rejected the text. V8's message may quote the body, and the body may contain secrets, so only
 * the position is returned.
 */
function reasonOf(text: string): string {
  try {
    JSON.parse(text.replace(/^\uFEFF/, ''))
    return "a key '__proto__', or a 'constructor' with a 'prototype', is not allowed: merged into objects it is an attack"
  } catch (error) {
    const at = /at position \d+|end of JSON input/.exec((error as Error).message)?.[0]
    return at === undefined ? 'not JSON' : `not JSON: ${at}`
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
    const end = (settle: () => void) => {
      callOff()
      payload.off('data', take)
      payload.off('end', finish)
      payload.off('error', cut)
      payload.off('close', cut)
      settle()
    }
    const refuse = (error: TocsinError) =>
      end(() => {
        // Discard the rest of the body. The connection is not used again.
        payload.resume()
        reject(error)
      })
    const callOff = clock.after(deadlineMs, () =>
      refuse(new TocsinError('request-timeout', `body: not received within ${deadlineMs / 1_000} s`)),
    )
    const take = (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > bytesMax) refuse(tooLarge())
      else chunks.push(chunk)
    }
    const finish = () => end(() => resolve(Buffer.concat(chunks, bytes)))
    const cut = () => refuse(new TocsinError('bad-request', 'body: the connection closed before its end'))
    payload.on('data', take)
    payload.once('end', finish)
    payload.once('error', cut)
    payload.once('close', cut)
  })
}
