/** Payloads against a topic's schema: as JSON will deliver them, both when scheduled and when they arrive. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type Clock, withDeadline } from '../clock.ts'
import { boundedText, describeError, TocsinError } from '../errors.ts'
import { decodePayload } from './payload.ts'

/** The payload a handler gets, or why the stored one does not fit the topic any more. */
export type Decoded<Out> = { readonly payload: Out } | { readonly problem: string }

/** A schema that has not answered by then never will. */
const ANSWER_MS = 10_000

/** What a schema answers, or 'timeout': every call has a deadline. */
export function inTime<T>(clock: Clock, answer: Promise<T>): Promise<T> {
  const late = () => new TocsinError('timeout', 'payload: the schema did not answer within 10s')
  return withDeadline(clock, ANSWER_MS, answer, late)
}

/** Throws 'bad-payload', now or later, when the schema would refuse what is about to be stored. */
export function checkAgainst(schema: StandardSchemaV1 | null, body: string): void | Promise<void> {
  if (schema === null) return
  const decoded = decodeBody(schema, body)
  return decoded instanceof Promise ? decoded.then(refuse) : refuse(decoded)
}

/**
 * Never throws: what no longer fits comes back as a problem, and the task is dead for it, with its payload kept. A
 * schema that throws, or answers nothing that a schema may answer, has refused.
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

/** Any library's promise, of any realm. */
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

/** May throw on an answer that is none; its caller takes that as a refusal. */
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
