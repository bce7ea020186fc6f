/** The parts of the OpenAPI document that do not belong to a single route. */
import { VERSION } from '../values/version.ts'

interface Response {
  readonly description: string
}

interface Document {
  readonly paths: Record<string, Record<string, { responses: Record<string, Response | { $ref: string }> }>>
  readonly components: { responses?: Record<string, Response> }
}

/** The groups of operations, with their descriptions. */
export const TAGS = {
  tasks: 'Schedule, read, reschedule and cancel tasks.',
  work: 'Claim tasks that are due, extend their leases and settle them.',
  topics: 'Declare topics, change their settings, replay and purge their dead tasks.',
  figures: 'Counts, forecasts, nodes, audits and events.',
  tokens: 'Access tokens.',
  system: 'Health, metrics and this document.',
}

/** The responses that nearly every operation has, by their name in `components.responses`. */
export const SHARED_RESPONSES = {
  Refused: 'Refused. The error code says why.',
  Failed: 'Failed. The server log has the details under the request id.',
} as const

export function documentOptions(): object {
  return {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Tocsin',
        version: VERSION,
        description:
          'A timeout center: it holds millions of one-shot timers and fires each one when it is due. At least once, never early.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      servers: [{ url: 'http://127.0.0.1:7420', description: 'The default address.' }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
      components: { securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
      security: [{ token: [] }],
    },
    refResolver: {
      buildLocalReference: (json: { $id?: string }, _base: unknown, _fragment: unknown, i: number) =>
        json.$id ?? `schema-${i}`,
    },
    transformObject: ({ openapiObject }: { openapiObject: Document }) => withSharedResponses(openapiObject),
  }
}

/**
 * Moves the shared responses into `components.responses`. If they were repeated inline, they would be over a third of
 * the document.
 */
function withSharedResponses(document: Document): Document {
  const names = new Map<string, string>(Object.entries(SHARED_RESPONSES).map(([name, text]) => [text, name]))
  const shared: Record<string, Response> = {}
  for (const operations of Object.values(document.paths))
    for (const { responses } of Object.values(operations))
      for (const [status, response] of Object.entries(responses)) {
        const name = 'description' in response ? names.get(response.description) : undefined
        if (name === undefined) continue
        shared[name] = response as Response
        responses[status] = { $ref: `#/components/responses/${name}` }
      }
  return { ...document, components: { ...document.components, responses: shared } }
}
