import type { StandardSchemaV1 } from '@standard-schema/spec'
import { type Clock, sleep, systemClock } from './clock.ts'
import { driftOf } from './config.ts'
import { STOP_TIMEOUT } from './consume.ts'
import { type Duration, durationMs } from './duration.ts'
import { describeValue, TocsinError } from './errors.ts'
import { Announcer, EVENT_NAMES, type EventName, type TocsinEvents } from './events.ts'
import type { Jsonified } from './json.ts'
import { checkTopicName } from './key.ts'
import { type Logger, plainLogger, silentLogger } from './logger.ts'
import { badOption, checkOptions, nearest, needsLedger } from './options.ts'
import { type Random, systemRandom } from './random.ts'
import { Governor } from './runtime/governor.ts'
import type { TaskStore, TopicAudit } from './store.ts'
import { openStore, STORE_FIELDS, type StoreOptions } from './open-store.ts'
import { defineTopic, type TopicDefinition, type WithoutSchema, type WithSchema } from './topic.ts'
import type { Consumer, Topic } from './topic-api.ts'
import { TopicHandle } from './topic-handle.ts'
import { TopicSettings } from './topic-settings.ts'

export interface OpenOptions extends StoreOptions {
  /** Anything like pino; false for silence. By default warnings and errors go to standard error. */
  readonly logger?: Logger | false | undefined
}

/** What a Tocsin is made of; tests bring their own clock. */
export interface TocsinParts {
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
}

interface KnownTopic {
  readonly handle: TopicHandle<unknown, unknown>
  /** Only its name was given so far. */
  isBare: boolean
}

export class Tocsin implements AsyncDisposable {
  readonly #parts: TocsinParts
  readonly #announcer: Announcer
  readonly #topics = new Map<string, KnownTopic>()
  readonly #consumers = new Set<Consumer>()
  #closing: Promise<void> | null = null

  static async open(options: OpenOptions = {}): Promise<Tocsin> {
    if (typeof options === 'string') throw addressAlone(options)
    checkOptions(options, OPEN_FIELDS, 'open')
    const logger = checkLogger(options.logger)
    const surroundings = { clock: systemClock, random: systemRandom, logger }
    return new Tocsin({ ...surroundings, store: await openStore(options, surroundings) })
  }

  /** Use `Tocsin.open`. */
  protected constructor(parts: TocsinParts) {
    if (parts === undefined)
      throw new TocsinError('bad-option', 'a Tocsin is opened, not made: write await Tocsin.open()')
    this.#parts = parts
    this.#announcer = new Announcer(parts.logger)
  }

  /** A topic by its definition, shared by producers and workers; or by its name, with settings or without. */
  topic<In, Out>(definition: TopicDefinition<In, Out>): Topic<In, Out>
  topic<S extends StandardSchemaV1>(
    name: string,
    config: WithSchema<S>,
  ): Topic<StandardSchemaV1.InferInput<S>, StandardSchemaV1.InferOutput<S>>
  topic<T = unknown>(name: string, config?: WithoutSchema): Topic<T, Jsonified<T>>
  topic(given: TopicDefinition<unknown, unknown> | string, config?: WithoutSchema): Topic<unknown, unknown> {
    this.#checkOpen()
    const byName = typeof given === 'string'
    const definition = byName ? defineTopic(given, config) : checkDefinition(given)
    const known = this.#topics.get(definition.name)
    if (known === undefined) return this.#declare(definition, byName && config === undefined)
    if (byName && config === undefined) return known.handle
    // First used by its name alone, perhaps by a producer, and declared now.
    if (known.isBare) known.handle.declare(definition)
    else checkSameDefinition(known.handle.definition, definition)
    known.isBare = false
    return known.handle
  }

  /** Answers a function that ends it. */
  on<N extends EventName>(event: N, listener: (event: TocsinEvents[N]) => unknown): () => void {
    if (!EVENT_NAMES.includes(event)) {
      const near = nearest(String(event), EVENT_NAMES)
      const hint = near === null ? `events: ${EVENT_NAMES.join(', ')}` : `did you mean '${near}'?`
      throw new TocsinError('bad-option', `on: no event ${describeValue(event)}; ${hint}`, {
        field: 'event',
        hint,
      })
    }
    if (typeof listener !== 'function')
      throw badOption('listener', `expected a function, got ${describeValue(listener)}`)
    return this.#announcer.on(event, listener)
  }

  /**
   * Whether the books of each topic balance, and whether the ledger and the timetable know the same tasks; what does
   * not fit is put right and counted. Needs a ledger.
   */
  async audit(): Promise<TopicAudit[]> {
    this.#checkOpen()
    const { ledger } = this.#parts.store
    if (ledger === undefined) throw needsLedger('audit()')
    return ledger.audit()
  }

  /**
   * Stops every consumer as `consumer.stop` does, then lets go of everything. Idempotent. A handler must not await it:
   * it would wait for itself.
   */
  async close(options: { readonly timeout?: Duration | undefined } = {}): Promise<void> {
    checkOptions(options, ['timeout'], 'close')
    const timeoutMs = durationMs(options.timeout ?? STOP_TIMEOUT, 'timeout')
    this.#closing ??= this.#close(timeoutMs)
    await this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #close(timeout: number): Promise<void> {
    // What was accepted before is written; what comes now is refused.
    const written = Promise.all([...this.#topics.values()].map(({ handle }) => handle.written()))
    const { clock } = this.#parts
    const endMs = clock.monotonicNow() + timeout
    const enough = new AbortController()
    await Promise.race([written, sleep(clock, timeout, enough.signal)])
    enough.abort()
    const left = Math.max(0, endMs - clock.monotonicNow())
    await Promise.all([...this.#consumers].map((consumer) => consumer.stop({ timeout: left })))
    await this.#parts.store.close()
  }

  #declare(definition: TopicDefinition<unknown, unknown>, isBare: boolean): Topic<unknown, unknown> {
    const { store, clock, random, logger } = this.#parts
    const announcer = this.#announcer
    const settings = new TopicSettings(definition.name, definition.config, announcer, logger)
    store.ledger?.govern(definition.name, () => settings.current)
    const handle = new TopicHandle(definition, {
      store,
      clock,
      random,
      logger,
      announcer,
      settings,
      governor: new Governor(),
      checkOpen: () => this.#checkOpen(),
      consumers: this.#consumers,
    })
    this.#topics.set(definition.name, { handle, isBare })
    return handle
  }

  #checkOpen(): void {
    if (this.#closing !== null) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
  }
}

const OPEN_FIELDS = [...STORE_FIELDS, 'logger']

/** It says where tasks live, but not as what. */
function addressAlone(address: string): TocsinError {
  const name = /^(sqlite|postgres(ql)?):/i.test(address) ? 'ledger' : 'timetable'
  // Not the address itself: it may hold a password.
  return badOption('open', `expected an object, got a text; write Tocsin.open({ ${name}: '…' })`)
}

function checkDefinition(given: unknown): TopicDefinition<unknown, unknown> {
  const definition = given as TopicDefinition<unknown, unknown> | null
  if (typeof definition?.name === 'string' && typeof definition.config === 'object')
    return { ...definition, name: checkTopicName(definition.name), schema: definition.schema ?? null }
  throw new TocsinError(
    'bad-topic',
    `expected a topic's name or what defineTopic returned, got ${describeValue(given)}`,
  )
}

/** Two parts of a program that mean different things by one topic would overrule each other by chance. */
function checkSameDefinition(
  known: TopicDefinition<unknown, unknown>,
  given: TopicDefinition<unknown, unknown>,
): void {
  const differs =
    known.schema === given.schema
      ? driftOf(given.config, known.config).concat(driftOf(known.config, given.config))
      : null
  if (differs?.length === 0) return
  const [first] = differs ?? []
  const what =
    first === undefined
      ? 'another schema'
      : `other settings (${first.field}: ${describeValue(first.effective)}, now ${describeValue(first.code)})`
  throw new TocsinError(
    'bad-topic',
    `topic '${given.name}' was declared before with ${what}; share one defineTopic, or leave the settings out`,
    { field: 'topic' },
  )
}

/** A logger that throws must not stop timers. */
function unthrowing(logger: Logger): Logger {
  const safely = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      logger[level](fields, message)
    } catch {
      // There is nobody left to tell.
    }
  }
  return { debug: safely('debug'), info: safely('info'), warn: safely('warn'), error: safely('error') }
}

function checkLogger(logger: unknown): Logger {
  if (logger === undefined) return unthrowing(plainLogger)
  if (logger === false) return silentLogger
  const candidate = logger as Record<string, unknown> | null
  const complete = ['debug', 'info', 'warn', 'error'].every(
    (level) => typeof candidate?.[level] === 'function',
  )
  if (complete) return unthrowing(logger as Logger)
  throw new TocsinError(
    'bad-option',
    'logger: expected debug, info, warn and error, as pino has them, or false',
    { field: 'logger' },
  )
}
