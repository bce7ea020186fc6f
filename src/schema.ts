/** Payloads against a topic's schema: as JSON will deliver them, both when scheduled and when they arrive. */
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { Clock } from './clock.ts'
import { boundedText, describeError, TocsinError } from './errors.ts'
import { decodePayload } from './payload.ts'

/** The payload a handler gets, or why the stored one does not fit the topic any more. */
export type Decoded<Out> = { readonly payload: Out } | { readonly problem: string }

type Result = StandardSchemaV1.Result<unknown>

/** A schema that has not answered by then never will. */
const ANSWER_MS = 10_000

/** What a schema answers, or 'timeout': every call has a deadline. */
export function inTime<T>(clock: Clock, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const giveUp = () => reject(new TocsinError('timeout', 'payload: the schema did not answer within 10s'))
    const cancel = clock.after(ANSWER_MS, giveUp)
    void answer.then(resolve, reject).finally(cancel)
  })
}

/** Throws 'bad-payload', now or later, when the schema would refuse what is about to be stored. */
export function checkAgainst(schema: StandardSchemaV1 | null, body: string): void | Promise<void> {
  if (schema === null) return
  const result = validate(schema, body)
  return result instanceof Promise ? result.then(refuse) : refuse(result)
}

/** Never throws: what no longer fits comes back as a problem, and the task is dead for it, with its payload kept. */
export function decodeBody<Out>(
  schema: StandardSchemaV1<unknown, Out> | null,
  body: string,
): Decoded<Out> | Promise<Decoded<Out>> {
  if (schema === null) return { payload: decodePayload(body) as Out }
  const result = validate(schema, body)
  return result instanceof Promise ? result.then(read<Out>) : read<Out>(result)
}

/** A schema that throws, or answers nothing that a schema may answer, has refused. */
function validate(schema: StandardSchemaV1, body: string): Result | Promise<Result> {
  const refusal = (thrown: unknown): Result => ({ issues: [{ message: describeError(thrown) }] })
  try {
    const result: unknown = schema['~standard'].validate(decodePayload(body))
    return isThenable(result) ? Promise.resolve(result).then(checkResult).catch(refusal) : checkResult(result)
  } catch (thrown) {
    return refusal(thrown)
  }
}

/** Any library's promise, of any realm. */
function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as PromiseLike<unknown> | null | undefined)?.then === 'function'
}

function checkResult(result: unknown): Result {
  if (result !== null && typeof result === 'object' && ('value' in result || 'issues' in result))
    return result as Result
  throw new TypeError('the schema answered neither a value nor issues')
}

function refuse(result: Result): void {
  const problem = problemOf(result)
  if (problem === null) return
  const message = `payload: ${problem}. It is checked as JSON will deliver it: a Date, for one, arrives as text`
  throw new TocsinError('bad-payload', message, { field: 'payload' })
}

function read<Out>(result: Result): Decoded<Out> {
  const problem = problemOf(result)
  return problem === null ? { payload: (result as StandardSchemaV1.SuccessResult<Out>).value } : { problem }
}

function problemOf(result: Result): string | null {
  if (result.issues === undefined) return null
  const lines = result.issues.map(({ path, message }) => {
    const steps = (path ?? []).map((step) => String(typeof step === 'object' ? step.key : step))
    return steps.length === 0 ? message : `${steps.join('.')}: ${message}`
  })
  return boundedText(`the schema refuses it: ${lines.join('; ')}`)
}
