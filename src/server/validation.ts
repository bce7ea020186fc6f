/**
 * Validates requests by the schemas of the OpenAPI document. In bodies, types must match exactly. In URLs, values are
 * text and are converted to the expected type.
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
  // Adds the schema to each error. The schema lists the known field names.
  verbose: true,
} as const

/**
 * Returns the function with which Fastify compiles a schema to a validator. `shared` are the schemas that other schemas
 * refer to by `$id`.
 */
export function validatorCompiler(shared: readonly object[]): FastifySchemaCompiler<object> {
  const bodies = new Ajv2020({ ...OPTIONS, coerceTypes: false })
  const urls = new Ajv2020({ ...OPTIONS, coerceTypes: true })
  for (const ajv of [bodies, urls]) for (const schema of shared) ajv.addSchema(schema)
  return ({ schema, httpPart }) => {
    const validate: ValidateFunction = (httpPart === 'body' ? bodies : urls).compile(schema)
    return (data: unknown) => {
      // A stream is validated later, line by line, while it is read.
      if (data instanceof Readable || validate(data)) return true
      return { error: refusal(validate.errors ?? [], httpPart ?? 'request') }
    }
  }
}

/** Returns an error for the first mistake. */
function refusal(errors: readonly ErrorObject[], part: string): TocsinError {
  // `anyOf` reports the errors of every alternative. An unknown field in one alternative is more useful than 'none
  // matches'.
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
  return error?.message ?? 'invalid'
}

/** The names of expected types. Messages never quote what was sent, because it may be a secret. */
const TYPES: Readonly<Record<string, string>> = {
  string: 'text',
  integer: 'a whole number',
  number: 'a number',
  boolean: 'true or false',
  object: 'an object',
  array: 'a list',
}

/** Converts a JSON pointer to a field name: '/tasks/3/key' → 'tasks[3].key'. */
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

/** The position in a list of tasks. */
type Index = { readonly index?: number }

function indexOf(path: string): Index {
  const index = /^\/\w+\/(\d+)(\/|$)/.exec(path)?.[1]
  return index === undefined ? {} : { index: Number(index) }
}

/**
 * Throws if the query is not percent-encoded UTF-8. Fastify would pass on the undecoded text, which matches nothing.
 */
function checkEncoding(url: string): void {
  const at = url.indexOf('?')
  if (at === -1 || !url.includes('%', at)) return
  try {
    decodeURIComponent(url.slice(at))
  } catch {
    throw new TocsinError('bad-request', 'query: not percent-encoded UTF-8')
  }
}

/**
 * Installs validation. Unknown query parameters are rejected, except on public routes, because health probes may add
 * parameters.
 */
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
