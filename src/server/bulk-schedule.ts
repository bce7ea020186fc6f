import { PassThrough, type Readable } from 'node:stream'
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../clock.ts'
import { PAYLOAD_BYTES_MAX } from '../values/payload.ts'
import { TocsinError } from '../errors.ts'
import type { NewTask } from '../task.ts'
import type { TopicHandle } from '../api/topic-handle.ts'
import { errorBody, foreseen } from './api-error.ts'
import { NDJSON } from './bodies.ts'
import { headersOf } from './headers.ts'
import { type Line, linesOf } from './line-reader.ts'
import { LineWriter } from './line-writer.ts'
import type { ServerParts } from './parts.ts'
import { ref } from './schemas.ts'

/** A payload, escaped as badly as can be, and the rest of a task. */
export const LINE_BYTES_MAX = PAYLOAD_BYTES_MAX * 6 + 16_384
/** Pieces that may be under way at once, so that the store works while the next ones are read. Half as many are a fifth slower. */
const AHEAD = 8
/** What came in meanwhile is taken at once: a thousand tasks in one call to Redis are cheaper than three calls for them. */
const READ_BYTES = 256 * 1_024
/** Whoever still sends when it is over has so long to hear why. */
const LINGER_MS = 2_000
const NEW_TASK = ref('NewTask')

interface Piece {
  readonly tasks: NewTask<unknown>[]
  readonly numbers: number[]
}

/**
 * NDJSON in, NDJSON out. Each line is a task, checked by itself: one that is wrong is told, with its number, and the others
 * go on. Whoever sends too fast is slowed down, and so is whoever reads too slowly. Without the summary at the end, not all
 * of it is in.
 */
export async function scheduleLines(
  { clock, closing }: ServerParts,
  topic: TopicHandle<unknown, unknown>,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const isEach = (request.query as { results?: string }).results === 'all'
  const summary = { created: 0, replaced: 0, kept: 0, failed: 0 }
  const body = request.body as Readable
  void reply.hijack()
  reply.raw.writeHead(200, { ...headersOf(request), 'content-type': NDJSON })
  // Whoever reads while it writes learns at once that it was let in.
  reply.raw.flushHeaders()
  const writer = new LineWriter(reply.raw)
  const refuse = (line: number, error: unknown) => {
    summary.failed++
    writer.write({ line, ...errorBody(foreseen(error, request.log)) })
  }
  const put = async (piece: Piece) => {
    const { tasks, numbers } = piece
    await topic.scheduleValid(
      tasks,
      (i, error) => refuse(numbers[i] as number, error),
      (i, { key, outcome, dueAt, inFlight }) => {
        summary[outcome]++
        if (isEach) writer.write({ line: numbers[i], key, outcome, dueAt, inFlight })
      },
    )
    writer.flush()
  }
  const stop = new AbortController()
  const close = () => stop.abort(new TocsinError('closed', 'the server closes'))
  closing.addEventListener('abort', close, { once: true })
  if (closing.aborted) close()
  try {
    const taskOf = taskReader(request)
    await eachOf(clock, piecesOf(chunksOf(body, stop.signal), taskOf, refuse, writer, stop.signal), put, stop)
    writer.write({ summary })
  } catch (error) {
    // Whoever still listens hears why there is no summary.
    writer.write(errorBody(foreseen(error, request.log), request.id))
    linger(clock, request, reply)
  } finally {
    closing.removeEventListener('abort', close)
    writer.end()
  }
  return reply
}

/**
 * Works on pieces, some at a time, and is done when all of them are. The first failure ends it: `stop` aborts with it, and those
 * under way are waited for.
 */
async function eachOf<P>(
  clock: Clock,
  pieces: AsyncIterable<P>,
  work: (piece: P) => Promise<void>,
  stop: AbortController,
): Promise<void> {
  const underWay: Promise<void>[] = []
  try {
    for await (const piece of pieces) {
      underWay.push(work(piece).catch((error: unknown) => stop.abort(error)))
      // Others get their turn, and so does the store: what it has taken can be let go of before the next piece is made.
      await clock.turn()
      if (underWay.length === AHEAD) await underWay.shift()
      stop.signal.throwIfAborted()
    }
  } finally {
    await Promise.all(underWay)
  }
  stop.signal.throwIfAborted()
}

/** A body that can be let go of without closing its connection: somebody is still to be told why. */
function chunksOf(body: Readable, stopped: AbortSignal): PassThrough {
  const chunks = new PassThrough({ highWaterMark: READ_BYTES })
  const cut = () => new TocsinError('bad-request', 'body: the connection ended before it did')
  body.once('close', () => body.readableEnded || chunks.destroy(cut()))
  stopped.addEventListener('abort', () => chunks.destroy(stopped.reason as Error), { once: true })
  if (stopped.aborted) chunks.destroy(stopped.reason as Error)
  return body.pipe(chunks)
}

async function* piecesOf(
  chunks: AsyncIterable<Buffer>,
  taskOf: (line: Line) => NewTask<unknown>,
  refuse: (line: number, error: unknown) => void,
  writer: LineWriter,
  stopped: AbortSignal,
): AsyncGenerator<Piece> {
  for await (const lines of linesOf(chunks, LINE_BYTES_MAX)) {
    const piece: Piece = { tasks: [], numbers: [] }
    for (const line of lines) {
      try {
        piece.tasks.push(taskOf(line))
        piece.numbers.push(line.number)
      } catch (error) {
        refuse(line.number, error)
      }
    }
    if (piece.tasks.length > 0) yield piece
    else writer.flush()
    await writer.drained(stopped)
  }
}

/** A line is held to what a single task is held to. */
function taskReader(request: FastifyRequest): (line: Line) => NewTask<unknown> {
  const validate = request.compileValidationSchema(NEW_TASK, 'body') as (
    task: unknown,
  ) => true | { error: Error }
  return ({ text, problem }) => {
    if (problem === 'not-utf8') throw new TocsinError('bad-request', 'line: it is not valid UTF-8')
    if (text === null) throw new TocsinError('too-large', `line: longer than ${LINE_BYTES_MAX} bytes`)
    const task = parsed(text)
    const verdict = validate(task)
    if (verdict !== true) throw verdict.error
    return task as NewTask<unknown>
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new TocsinError('bad-request', 'line: it is not JSON')
  }
}

/**
 * What still comes is taken and thrown away for a while: a connection that is closed while bytes arrive loses the last words on
 * it. Whoever sends on, or does not read, is cut off. It is not used again: a server that closes would wait for it.
 */
function linger(clock: Clock, { raw: body }: FastifyRequest, { raw: answer }: FastifyReply): void {
  const { socket } = body
  if (socket.destroyed) return
  const callOff = clock.after(LINGER_MS, () => socket.destroy(), true)
  const look = () => {
    if (body.complete && answer.writableFinished) socket.end()
  }
  body.once('end', look)
  answer.once('finish', look)
  socket.once('close', callOff)
  body.resume()
}
