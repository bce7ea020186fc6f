/**
 * Validates payloads against the topic's schema, when a task is scheduled and again when it is delivered. The schema
 * gets the payload as parsed from its JSON text.
 */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type Clock, withDeadline } from '../clock.ts'
import { boundedText, describeError, TocsinError } from '../errors.ts'
import { decodePayload } from './payload.ts'

/** The payload for the handler, or the reason why the schema refuses the stored payload. */
export type Decoded<Out> = { readonly payload: Out } | { readonly problem: string }

/** The time limit for the answer of an async schema. */
const ANSWER_MS = 10_000

/** Returns the result of `answer`, or rejects with 'timeout' after `ANSWER_MS`. */
export function inTime<T>(clock: Clock, answer: Promise<T>): Promise<T> {
  const late = () => new TocsinError('timeout', 'payload: the schema did not answer within 10s')
  return withDeadline(clock, ANSWER_MS, answer, late)
}

/** Throws 'bad-payload' if the schema refuses the payload. With an async schema, rejects with 'bad-payload' instead. */
export function checkAgainst(schema: StandardSchemaV1 | null, body: string): void | Promise<void> {
  if (schema === null) return
  const decoded = decodeBody(schema, body)
  return decoded instanceof Promise ? decoded.then(refuse) : refuse(decoded)
}

/**
 * Returns the parsed payload, or a problem if the schema refuses the payload. If the schema throws, or returns an
 * invalid result, this counts as a refusal. On delivery, a refused task is dead and keeps its payload.
 */
export function decodeBody<Out>(
  schema: StandardSchemaV1<unknown, Out> | null,
  body: string,
): Decoded<Out> | Promise<Decoded<Out>> {
  if (schema === null) return { payload: decodePayload(body) as Out }
  try {
    const result: unknown = schema['~standard'].validate(decodePayload(body))
    return isThenable(result)
      ? Promise.resolve(result)
          .then(read<Out>)
          .catch(refused)
      : read<Out>(result)
  } catch (thrown) {
    return refused(thrown)
  }
}

/** Returns true for the promises of any library and realm. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function'
}

function refused(thrown: unknown): { problem: string } {
  return { problem: `the schema refuses it: ${describeError(thrown)}` }
}

function refuse(decoded: Decoded<unknown>): void {
  if ('payload' in decoded) return
  const message = `payload: ${decoded.problem}. It is checked as JSON will deliver it: a Date, for one, arrives as text`
  throw new TocsinError('bad-payload', message, { field: 'payload' })
}

/** Converts the result of a schema. Throws if the result is invalid, which the caller treats as a refusal. */
function read<Out>(answer: unknown): Decoded<Out> {
  const result = answer as StandardSchemaV1.Result<Out>
  if (result.issues === undefined) {
    if ('value' in result) return { payload: result.value }
    throw new TypeError('the schema answered neither a value nor issues')
  }
  const lines = result.issues.map(({ path, message }) => {
    const steps = (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
    return steps.length === 0 ? message : `${steps.join('.')}: ${message}`
  })
  return { problem: boundedText(`the schema refuses it: ${lines.join('; ')}`) }
}
