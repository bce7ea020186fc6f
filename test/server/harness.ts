/** A real server on a free port; every answer that a test gets through it is held to the document that the server serves. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import { type Served, type ServeOptions, serve } from 'tocsin/server'

const DECLARE_TRIES = 20
const DECLARE_AGAIN_MS = 200

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  // oxlint-disable-next-line typescript/no-explicit-any -- tests reach into answers of every shape
  readonly json: any
}

interface Described {
  readonly content?: Record<string, { schema: object }>
}

interface Operation {
  readonly responses: Record<string, Described | { readonly $ref: string }>
}

interface Document {
  readonly paths: Record<string, Record<string, Operation>>
  readonly components: {
    readonly schemas: Record<string, object>
    readonly responses: Record<string, Described>
  }
}

export interface RequestOptions {
  readonly body?: unknown
  /** As it is, instead of `body`. */
  readonly raw?: NonNullable<RequestInit['body']>
  readonly headers?: Record<string, string>
  readonly token?: string | null
  readonly signal?: AbortSignal
}

export class TestServer implements AsyncDisposable {
  readonly served: Served
  readonly log: string[]
  /** Answers that are not what the document says. */
  readonly #document: Document
  readonly #validators = new Map<string, ValidateFunction>()
  readonly #ajv = new Ajv2020({ strict: false, validateFormats: false })
  token: string | null = null

  private constructor(served: Served, log: string[], document: Document) {
    this.served = served
    this.log = log
    this.#document = document
    this.#ajv.addSchema(document, 'openapi')
  }

  static async start(options: ServeOptions = {}): Promise<TestServer> {
    const log: string[] = []
    const isStored = options.timetable !== undefined || options.ledger !== undefined
    const served = await serve({
      port: 0,
      ...(isStored ? {} : { timetable: 'memory:' }),
      logTo: { write: (line: string) => void log.push(line) },
      ...options,
    })
    const document = (await (await fetch(`${served.url}/openapi.json`)).json()) as Document
    return new TestServer(served, log, document)
  }

  get url(): string {
    return this.served.url
  }

  get document(): Document {
    return this.#document
  }

  async request(method: string, path: string, options: RequestOptions = {}): Promise<Answer> {
    const { body, raw, headers = {}, token = this.token, signal } = options
    const response = await fetch(`${this.url}${path}`, {
      method,
      headers: {
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(raw === undefined ? {} : { body: raw }),
      ...(signal === undefined ? {} : { signal }),
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
    const answer = {
      status: response.status,
      headers: response.headers,
      text,
      json: isJson ? JSON.parse(text) : null,
    }
    this.#check(method, new URL(`${this.url}${path}`).pathname, answer)
    return answer
  }

  get(path: string, options?: RequestOptions): Promise<Answer> {
    return this.request('GET', path, options)
  }

  post(path: string, body: unknown = {}, options?: RequestOptions): Promise<Answer> {
    return this.request('POST', path, { body, ...options })
  }

  async declare(topic: string, config: object = {}): Promise<void> {
    let { status, text } = await this.request('PUT', `/v1/topics/${topic}`, { body: config })
    // A server that has just started on a busy machine may have lost its connection: 'retryable'.
    for (let tries = 1; status === 503 && tries < DECLARE_TRIES; tries++) {
      await sleep(DECLARE_AGAIN_MS)
      ;({ status, text } = await this.request('PUT', `/v1/topics/${topic}`, { body: config }))
    }
    if (status > 201)
      throw new Error(`PUT ${topic}: ${status} ${text}\nthe server's log:\n${this.log.slice(-5).join('')}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.served.close()
  }

  /** Throws where the document does not know the answer: then it is the document that is wrong, or the server. */
  #check(method: string, path: string, { status, headers, json, text }: Answer): void {
    for (const name of ['x-request-id', 'x-content-type-options', 'content-security-policy', 'cache-control'])
      if (headers.get(name) === null) throw new Error(`${method} ${path} → ${status} has no ${name}`)
    const template = this.#templateOf(path)
    if (template === null) {
      if (status === 404 && json?.error?.code === 'not-found') return
      if (status === 400 && json?.error?.code === 'bad-request') return
      throw new Error(`${method} ${path} → ${status}: no such path in the document`)
    }
    const operation = this.#document.paths[template]?.[method.toLowerCase()]
    if (operation === undefined) {
      if (status === 405 && json?.error?.code === 'method-not-allowed' && headers.has('allow')) return
      if (status === 204 && method === 'OPTIONS' && headers.has('allow')) return
      // The access is checked first.
      if (status === 401 || status === 403 || status === 429) return
      throw new Error(`${method} ${template} → ${status}: not in the document`)
    }
    const response = operation.responses[status]
    const shared = response !== undefined && '$ref' in response ? nameOf(response.$ref) : null
    const described = shared === null ? (response as Described) : this.#document.components.responses[shared]
    if (described === undefined)
      throw new Error(`${method} ${template} → ${status} is not in the document: ${text}`)
    const type = headers.get('content-type')?.split(';')[0] ?? ''
    const schema = described.content?.[type]?.schema
    if (schema === undefined)
      throw new Error(`${method} ${template} → ${status} as ${type} is not in the document`)
    const isLines = type === 'application/x-ndjson'
    if (type !== 'application/json' && !isLines) return
    const inline = `paths/${escaped(template)}/${method.toLowerCase()}/responses/${status}`
    const place = shared === null ? inline : `components/responses/${shared}`
    const where = `#/${place}/content/${escaped(type)}/schema`
    const validate = this.#validators.get(where) ?? this.#ajv.compile({ $ref: `openapi${where}` })
    this.#validators.set(where, validate)
    const values = isLines
      ? text
          .split('\n')
          .filter(Boolean)
          .map((line) => JSON.parse(line) as unknown)
      : [json]
    for (const value of values)
      if (!validate(value))
        throw new Error(
          `${method} ${template} → ${status}: ${this.#ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`,
        )
  }

  #templateOf(path: string): string | null {
    const parts = path.split('/')
    const templates = Object.keys(this.#document.paths).filter((template) => {
      const own = template.split('/')
      return own.length === parts.length && own.every((part, i) => part.startsWith('{') || part === parts[i])
    })
    // The one with the fewest gaps is meant.
    const gaps = (template: string) => template.split('{').length
    return templates.toSorted((a, b) => gaps(a) - gaps(b))[0] ?? null
  }
}

/** '#/components/responses/Refused' → 'Refused'. */
function nameOf(reference: string): string {
  const name = /^#\/components\/responses\/(\w+)$/.exec(reference)?.[1]
  if (name === undefined) throw new Error(`${reference} does not refer to a response of the document`)
  return name
}

/** As JSON pointers have it. */
function escaped(name: string): string {
  return name.replaceAll('~', '~0').replaceAll('/', '~1')
}
