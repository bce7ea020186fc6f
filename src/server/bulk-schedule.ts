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

/**
 * The maximum length of a line: a payload of maximum size with every byte escaped ('\u0000' is 6 bytes), and the other
 * fields of a task.
 */
export const LINE_BYTES_MAX = PAYLOAD_BYTES_MAX * 6 + 16_384
/**
 * The maximum number of batches in progress. The store works on these batches while the next batch is read. With 4
 * instead of 8 batches, scheduling is a fifth slower.
 */
const AHEAD = 8
/**
 * The size of the read buffer. A batch has the tasks of one read, and one call to Redis with 1,000 tasks is cheaper
 * than three smaller calls.
 */
const READ_BYTES = 256 * 1_024
/** After a failure, a client that still sends has this time to read the answer. */
const LINGER_MS = 2_000
const NEW_TASK = ref('NewTask')

interface Batch {
  readonly tasks: NewTask<unknown>[]
  readonly numbers: number[]
}

/**
 * Schedules the tasks of an NDJSON body and answers with NDJSON. Each line is one task and is validated on its own: an
 * invalid line is reported with its number, and all other lines are scheduled. Backpressure slows down a client that
 * sends too fast, and pauses reading for a client that reads too slowly. The last line of the answer is a summary. If
 * it is missing, some tasks may not be scheduled.
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
  // Send the headers now, so that a client that reads while it writes learns that the request was accepted.
  reply.raw.flushHeaders()
  const writer = new LineWriter(reply.raw)
  const refuse = (line: number, error: unknown) => {
    summary.failed++
    writer.write({ line, ...errorBody(foreseen(error, request.log)) })
  }
  const put = async (batch: Batch) => {
    const { tasks, numbers } = batch
    await topic.scheduleValid(
      tasks,
      (i, error) => refuse(numbers[i] as number, error),
      (i, key, { outcome, dueMs, inFlight }) => {
        summary[outcome]++
        if (isEach) writer.write({ line: numbers[i], key, outcome, dueAt: new Date(dueMs), inFlight })
      },
    )
    writer.flush()
  }
  const stop = new AbortController()
  const close = () => stop.abort(new TocsinError('closed', 'the server is shutting down'))
  closing.addEventListener('abort', close, { once: true })
  if (closing.aborted) close()
  try {
    const taskOf = taskReader(request)
    await eachOf(
      clock,
      batchesOf(chunksOf(body, stop.signal), taskOf, refuse, writer, stop.signal),
      put,
      stop,
    )
    writer.write({ summary })
  } catch (error) {
    // The error takes the place of the summary.
    writer.write(errorBody(foreseen(error, request.log), request.id))
    linger(clock, request, reply)
  } finally {
    closing.removeEventListener('abort', close)
    writer.end()
  }
  return reply
}

/**
 * Calls `work` for each batch, with up to `AHEAD` batches in progress. Resolves when all batches are done. The first
 * failure aborts `stop`, and is thrown after the batches in progress have ended.
 */
async function eachOf<P>(
  clock: Clock,
  batches: AsyncIterable<P>,
  work: (batch: P) => Promise<void>,
  stop: AbortController,
): Promise<void> {
  const underWay: Promise<void>[] = []
  try {
    for await (const batch of batches) {
      underWay.push(work(batch).catch((error: unknown) => stop.abort(error)))
      // Yield to other requests and to the store: a batch may complete before the next batch is read.
      await clock.turn()
      if (underWay.length === AHEAD) await underWay.shift()
      stop.signal.throwIfAborted()
    }
  } finally {
    await Promise.all(underWay)
  }
  stop.signal.throwIfAborted()
}

/**
 * Returns the body as a separate stream. Destroying it does not close the connection, which is still needed to send the
 * error.
 */
function chunksOf(body: Readable, stopped: AbortSignal): PassThrough {
  const chunks = new PassThrough({ highWaterMark: READ_BYTES })
  const cut = () => new TocsinError('bad-request', 'body: the connection ended before it did')
  body.once('close', () => body.readableEnded || chunks.destroy(cut()))
  stopped.addEventListener('abort', () => chunks.destroy(stopped.reason as Error), { once: true })
  if (stopped.aborted) chunks.destroy(stopped.reason as Error)
  return body.pipe(chunks)
}

async function* batchesOf(
  chunks: AsyncIterable<Buffer>,
  taskOf: (line: Line) => NewTask<unknown>,
  refuse: (line: number, error: unknown) => void,
  writer: LineWriter,
  stopped: AbortSignal,
): AsyncGenerator<Batch> {
  for await (const lines of linesOf(chunks, LINE_BYTES_MAX)) {
    const batch: Batch = { tasks: [], numbers: [] }
    for (const line of lines) {
      try {
        batch.tasks.push(taskOf(line))
        batch.numbers.push(line.number)
      } catch (error) {
        refuse(line.number, error)
      }
    }
    if (batch.tasks.length > 0) yield batch
    else writer.flush()
    await writer.drained(stopped)
  }
}

/** Returns a function that parses a line and validates it by the schema of a single task. */
function taskReader(request: FastifyRequest): (line: Line) => NewTask<unknown> {
  const validate = request.compileValidationSchema(NEW_TASK, 'body') as (
    task: unknown,
  ) => true | { error: Error }
  return ({ text, problem }) => {
    if (problem === 'not-utf8') throw new TocsinError('bad-request', 'line: not valid UTF-8')
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
    throw new TocsinError('bad-request', 'line: not JSON')
  }
}

/**
 * Discards the rest of the body for at most `LINGER_MS`, and then closes the connection. A connection that is closed
 * while bytes arrive is reset, and the client may lose the answer. A connection that stays open would delay the
 * shutdown of the server.
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
