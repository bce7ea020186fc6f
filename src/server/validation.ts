/**
 * Requests are held to the same schemas that the OpenAPI document is made of. Bodies as they are; what comes in a URL is text
 * and is read as a number where one is meant.
 */
import { Readable } from 'node:stream'
import { type ErrorObject, type ValidateFunction } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { FastifyInstance, FastifySchemaCompiler } from 'fastify'
import { TocsinError } from '../errors.ts'
import { nearest } from '../values/options.ts'
import { object } from './schemas.ts'

const OPTIONS = {
  strict: false,
  removeAdditional: false,
  useDefaults: false,
  allowUnionTypes: true,
  validateFormats: false,
  // A mistake brings the schema along that it was found by: that knows which names would have been right.
  verbose: true,
} as const

/** `shared` are the schemas that others refer to by their `$id`. */
export function validatorCompiler(shared: readonly object[]): FastifySchemaCompiler<object> {
  const bodies = new Ajv2020({ ...OPTIONS, coerceTypes: false })
  const urls = new Ajv2020({ ...OPTIONS, coerceTypes: true })
  for (const ajv of [bodies, urls]) for (const schema of shared) ajv.addSchema(schema)
  return ({ schema, httpPart }) => {
    const validate: ValidateFunction = (httpPart === 'body' ? bodies : urls).compile(schema)
    return (data: unknown) => {
      // A stream is checked line by line, by whoever reads it.
      if (data instanceof Readable || validate(data)) return true
      return { error: refusal(validate.errors ?? [], httpPart ?? 'request') }
    }
  }
}

/** The first mistake, so that it can be found and mended. */
function refusal(errors: readonly ErrorObject[], part: string): TocsinError {
  // Of alternatives every one complains; what is wrong within one of them says more than that none fits.
  const error = errors.find(({ keyword }) => keyword === 'additionalProperties') ?? errors[0]
  const where = fieldOf(error?.instancePath ?? '')
  const index = indexOf(error?.instancePath ?? '')
  if (error?.keyword === 'additionalProperties') {
    const name = String(error.params['additionalProperty'])
    const known = Object.keys((error.parentSchema?.['properties'] as object | undefined) ?? {})
    return unknownField(where === '' ? name : `${where}.${name}`, name, known, index)
  }
  const missing = error?.keyword === 'required' ? String(error.params['missingProperty']) : null
  const field = missing === null ? where : where === '' ? missing : `${where}.${missing}`
  const message = missing === null ? wordsOf(error) : 'is missing'
  return new TocsinError('bad-request', `${field === '' ? part : field}: ${message}`, {
    ...(field === '' ? {} : { field }),
    ...index,
  })
}

function unknownField(field: string, name: string, known: readonly string[], index: Index): TocsinError {
  const near = nearest(name, known)
  const all = known.length === 0 ? 'there are none here' : `known: ${known.join(', ')}`
  const hint = near === null ? all : `did you mean '${near}'?`
  return new TocsinError('bad-request', `${field.slice(0, 200)}: unknown field; ${hint}`, {
    field: field.slice(0, 200),
    hint,
    ...index,
  })
}

function wordsOf(error: ErrorObject | undefined): string {
  if (error?.keyword === 'enum')
    return `use one of ${(error.params['allowedValues'] as unknown[]).join(', ')}`
  if (error?.keyword === 'type') {
    const { description = '' } = (error.parentSchema ?? {}) as { description?: string }
    const unit = description.includes('With a unit') ? ", with a unit: '500ms', '30s', '2h'" : ''
    return `expected ${TYPES[String(error.params['type'])] ?? String(error.params['type'])}${unit}`
  }
  if (error?.keyword === 'minimum') return `expected at least ${String(error.params['limit'])}`
  if (error?.keyword === 'maximum') return `expected at most ${String(error.params['limit'])}`
  return error?.message ?? 'is not what is expected here'
}

/** What is meant, never what was sent: that may be a secret. */
const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
}

/** '/tasks/3/key' → 'tasks[3].key'. */
function fieldOf(path: string): string {
  return path
    .slice(1)
    .split('/')
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce(
      (field, part) => (/^\d+$/.test(part) ? `${field}[${part}]` : field === '' ? part : `${field}.${part}`),
      '',
    )
}

/** Which of several. */
type Index = { readonly index?: number }

function indexOf(path: string): Index {
  const index = /^\/\w+\/(\d+)(\/|$)/.exec(path)?.[1]
  return index === undefined ? {} : { index: Number(index) }
}

/** What cannot be decoded would be taken as it stands, and found by nobody who writes it rightly. */
function checkEncoding(url: string): void {
  const at = url.indexOf('?')
  if (at === -1 || !url.includes('%', at)) return
  try {
    decodeURIComponent(url.slice(at))
  } catch {
    throw new TocsinError('bad-request', 'query: it is not percent-encoded UTF-8')
  }
}

/** Also what a route does not ask for at all is refused rather than passed over; probes may add to their URL what they like. */
export function useValidation(app: FastifyInstance, shared: readonly object[]): void {
  for (const schema of shared) app.addSchema(schema)
  app.setValidatorCompiler(validatorCompiler(shared))
  app.addHook('onRoute', ({ schema, config }) => {
    if (schema !== undefined && config?.scope !== null) schema.querystring ??= object({})
  })
  app.addHook('preValidation', async ({ raw, routeOptions }) => {
    if (routeOptions.config.scope !== null) checkEncoding(raw.url ?? '')
  })
}
