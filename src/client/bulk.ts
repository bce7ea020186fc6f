/**
 * Schedules any number of tasks in one request. The client reads the answer while it sends the body, so the memory
 * needed is constant.
 *
 *   tasks ──▶ TaskLines, in batches ──▶ server ──▶ { line, error } …, { summary }
 *
 * If the answer ends without the summary, some tasks may not be scheduled.
 */
import type { Clock } from '../clock.ts'
import { describeError, TocsinError } from '../errors.ts'
import type { NewTask } from '../task.ts'
import { type SentRequest, refused } from './failure.ts'
import type { Http, Opened } from './http.ts'
import { linesOf } from './lines.ts'
import { type RefusedLine, TaskLines } from './task-lines.ts'

export interface StreamOptions {
  /** Called for each task that the server or this client rejects. All other tasks are scheduled. */
  readonly onRefused?: ((refused: RefusedLine) => void) | undefined
  readonly signal?: AbortSignal | undefined
}

export interface StreamSummary {
  readonly created: number
  readonly replaced: number
  readonly kept: number
  readonly failed: number
}

interface AnswerLine {
  readonly line?: number
  readonly error?: unknown
  readonly summary?: StreamSummary
}

const NDJSON = 'application/x-ndjson'

export async function scheduleStream(
  http: Http,
  path: string,
  tasks: Iterable<NewTask<unknown>> | AsyncIterable<NewTask<unknown>>,
  { onRefused = () => {}, signal }: StreamOptions,
  clock: Clock,
): Promise<StreamSummary> {
  let refusedHere = 0
  const refuse = (refusal: RefusedLine) => {
    refusedHere++
    onRefused(refusal)
  }
  const lines = new TaskLines(tasks, refuse, clock)
  try {
    const headers = { 'content-type': NDJSON }
    const opened = await http
      .open('POST', path, { body: lines.body, headers, signal, waitMs: null })
      .catch((error: unknown) => {
        throw TocsinError.is(error, 'unknown-outcome') ? cutShort(error) : (error as Error)
      })
    const summary = await summaryOf(opened, onRefused)
    const total = { ...summary, failed: summary.failed + refusedHere }
    if (lines.problem !== null) throw brokenOff(lines.problem.thrown, total)
    return total
  } finally {
    lines.end()
  }
}

async function summaryOf(opened: Opened, onRefused: (refused: RefusedLine) => void): Promise<StreamSummary> {
  const answers = linesOf(opened.body)
  try {
    for (;;) {
      const next = await answers.next().catch((thrown: unknown) => {
        const error = opened.failure(thrown)
        throw TocsinError.is(error) ? cutShort(error) : error
      })
      if (next.done === true) throw cutShort()
      if (next.value === '') continue
      const { line, error, summary } = parsed(next.value)
      if (summary !== undefined) return summary
      if (error === undefined) continue
      const refusal = errorOf({ error })
      if (line === undefined) throw cutShort(refusal)
      onRefused({ line, error: refusal })
    }
  } finally {
    opened.close()
  }
}

function parsed(text: string): AnswerLine {
  try {
    return JSON.parse(text) as AnswerLine
  } catch (error) {
    throw cutShort(error as Error)
  }
}

/** Describes the request for an error in a line of the answer. The line has no HTTP status of its own. */
const IN_A_LINE: SentRequest = { method: 'POST', url: 'a line', isRepeatable: false }

function errorOf(body: object): TocsinError {
  return refused(IN_A_LINE, { status: 400, body, retryAfter: null }, 0)
}

function cutShort(cause?: Error): TocsinError {
  const why = cause === undefined ? 'the answer ended without its summary' : cause.message
  const details = TocsinError.is(cause) ? cause.details : {}
  return new TocsinError('interrupted', `not all tasks were accepted, perhaps some: ${why}`, details, cause)
}

/**
 * Returns the error to throw if the caller's stream of tasks threw. It reports how many tasks the server accepted
 * before. If the server accepted none, returns the thrown error itself.
 */
function brokenOff(thrown: unknown, { created, replaced, kept, failed }: StreamSummary): Error {
  const accepted = created + replaced + kept
  if (accepted === 0) return thrown as Error
  const message = `${accepted} tasks were accepted, then the stream of tasks failed: ${describeError(thrown)}`
  return new TocsinError('interrupted', message, { accepted, failed }, thrown)
}
