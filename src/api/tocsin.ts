import type { StandardSchemaV1 } from '@standard-schema/spec'
import { hostname } from 'node:os'
import type { Board } from '../board.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'
import { Cluster } from '../cluster/cluster.ts'
import { MemoryBoard } from '../boards/memory-board.ts'
import { DEFAULT_CONFIG, driftOf, type TopicConfig } from '../values/config.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import { Announcer, EVENT_NAMES, type EventName, type TocsinEvents } from '../telemetry/events.ts'
import type { Jsonified } from '../values/json.ts'
import { checkTopicName } from '../values/key.ts'
import { type Logger, plainLogger, silentLogger } from '../telemetry/logger.ts'
import { type Meter, noMeter } from '../telemetry/meter.ts'
import { badOption, checkOptions, nearest } from '../values/options.ts'
import { type Random, systemRandom } from '../random.ts'
import { RateLimiter } from '../lib/rate-limiter.ts'
import type { TaskStore, TopicAudit } from '../store.ts'
import { STOP_TIMEOUT, type Stoppable } from './consumer-handle.ts'
import { openStore, STORE_FIELDS, type StoreOptions } from './open-store.ts'
import { defineTopic, type TopicDefinition, type WithoutSchema, type WithSchema } from './topic-definition.ts'
import type { Topic } from './topic.ts'
import { TopicHandle } from './topic-handle.ts'
import { TopicSettings } from './topic-settings.ts'
import { VERSION } from '../values/version.ts'

export interface OpenOptions extends StoreOptions {
  /** A logger like pino, or false to log nothing. By default, warnings and errors are printed on standard error. */
  readonly logger?: Logger | false | undefined
  /** The name of this process in the cluster: 'host:pid' by default. */
  readonly node?: string | undefined
}

/** A process of the cluster. */
export interface NodeInfo {
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  readonly startedAt: Date
  /** True for this process. */
  readonly isSelf: boolean
  /** Maximum number of handler calls that run at a time, over all topics. */
  readonly capacity: number
  /** The slots that the process pulls, by topic. */
  readonly slots: Readonly<Record<string, readonly number[]>>
  /** Number of tasks that the process holds. */
  readonly inFlight: number
  /** Number of tasks whose handlers ended in time, since the process started. */
  readonly handled: number
  /** How far the clock of the process is ahead of the clock of the store's server; null if not measured. */
  readonly clockAheadMs: number | null
}

/** The metrics of a server: counts tasks, and measures the calls to the store. */
export interface Instruments extends Meter {
  timed(store: TaskStore): TaskStore
}

/** The parts of a Tocsin. Tests pass a clock of their own. */
export interface TocsinParts {
  readonly store: TaskStore
  /** The board that the nodes of the cluster share. By default a board in memory, for this process only. */
  readonly board?: Board | undefined
  /** The name of this process. */
  readonly node?: string | undefined
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly meter?: Meter | undefined
  /** Settings that topics have unless they are set: these replace the usual defaults. */
  readonly defaults?: TopicConfig | undefined
}

interface KnownTopic {
  readonly handle: TopicHandle<unknown, unknown>
  readonly settings: TopicSettings
  /** True if the topic was used only by its name so far, without a definition or settings. */
  isBare: boolean
}

export class Tocsin implements AsyncDisposable {
  readonly #parts: TocsinParts
  readonly #board: Board
  readonly #cluster: Cluster
  readonly #announcer: Announcer
  readonly #topics = new Map<string, KnownTopic>()
  readonly #consumers = new Set<Stoppable>()
  #closing: Promise<void> | null = null

  /** Opens the store and joins the cluster. `instruments` collect the metrics of a server. */
  static async open(options: OpenOptions = {}, instruments?: Instruments): Promise<Tocsin> {
    if (typeof options === 'string') throw addressAlone(options)
    checkOptions(options, OPEN_FIELDS, 'open')
    const logger = checkLogger(options.logger)
    const node = checkNode(options.node)
    const surroundings = { clock: systemClock, random: systemRandom, logger, meter: instruments }
    const opened = await openStore(options, surroundings)
    const store = instruments?.timed(opened.store) ?? opened.store
    const toc = new Tocsin({ ...surroundings, ...opened, store, node })
    try {
      await toc.join()
    } catch (error) {
      await toc.close()
      throw error
    }
    return toc
  }

  /** Not for users: they call `Tocsin.open`. */
  protected constructor(parts: TocsinParts) {
    if (parts === undefined)
      throw new TocsinError('bad-option', 'use await Tocsin.open() instead of new Tocsin()')
    this.#parts = parts
    const { clock, random, logger } = parts
    this.#announcer = new Announcer(logger)
    this.#board = parts.board ?? new MemoryBoard(clock)
    this.#cluster = new Cluster({
      board: this.#board,
      clock,
      random,
      logger,
      announcer: this.#announcer,
      identity: {
        name: parts.node ?? `${hostname()}:${process.pid}`,
        host: hostname(),
        pid: process.pid,
        version: VERSION,
      },
      timetableNowMs: () => parts.store.nowMs(),
      slotsOf: (topic) => this.#slotsOf(topic),
    })
  }

  /** The number of claimed tasks that wait for the other tasks of their batch. */
  protected get gatheredCount(): number {
    return [...this.#consumers].reduce((sum, { gatheredCount = 0 }) => sum + gatheredCount, 0)
  }

  /** Reads the configuration of the topics, and joins the cluster. */
  protected async join(): Promise<void> {
    await this.#cluster.open()
  }

  /** Returns a topic. Takes a definition, which producers and workers can share, or a name with or without settings. */
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
    // Until now this process, for example a producer, used only the name of the topic.
    if (known.isBare) known.handle.declare(definition)
    else checkSameDefinition(known.handle.definition, definition)
    known.isBare = false
    return known.handle
  }

  /** @internal Returns the time of the store's clock. */
  recordMs(): Promise<number> {
    return this.#parts.store.nowMs()
  }

  /**
   * Returns by how many ms the loading of hints lags behind the ledger's clock. Null without a ledger, or if this
   * process does not pull the topic.
   * @internal
   */
  loaderLagMs(topic: string): number | null {
    return this.#parts.store.features.loaderLagMs(topic)
  }

  /** @internal Returns a topic by its name, with the methods that only a server uses. */
  handle(name: string): TopicHandle<unknown, unknown> {
    this.topic(name)
    return (this.#topics.get(name) as KnownTopic).handle
  }

  /** Adds a listener of an event. Returns a function that removes the listener. */
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
   * Checks whether the books of each topic balance, and reports it. Also compares the ledger with the timetable for
   * each topic that this process loads: repairs the timetable, and reports the number of repairs. Needs a ledger.
   */
  async audit(): Promise<TopicAudit[]> {
    this.#checkOpen()
    return this.#parts.store.features.audit()
  }

  /** Returns the live processes of the cluster, this process first. */
  async nodes(): Promise<NodeInfo[]> {
    this.#checkOpen()
    return (await this.#cluster.cards()).map(({ card, isSelf }) => ({
      name: card.name,
      host: card.host,
      pid: card.pid,
      version: card.version,
      startedAt: new Date(card.startedMs),
      isSelf,
      capacity: card.topics.reduce((sum, { capacity }) => sum + capacity, 0),
      slots: Object.fromEntries(card.topics.map(({ topic, owned }) => [topic, owned])),
      ...card.figures,
    }))
  }

  /**
   * The board methods for access tokens, which all servers of the cluster share.
   * @internal
   */
  get accessTokenBoard(): Pick<Board, 'tokens' | 'putToken' | 'dropToken'> {
    this.#checkOpen()
    return this.#board
  }

  /**
   * Returns true if the topic existed at the last beat.
   * @internal
   */
  knows(topic: string): boolean {
    return this.#cluster.configs.get(topic) !== null
  }

  /**
   * Returns the sorted names of all topics that existed at the last beat.
   * @internal
   */
  topicNames(): string[] {
    return this.#cluster.configs.names()
  }

  /**
   * Reads the topics from the board now, without waiting for the next beat.
   * @internal
   */
  async refreshTopics(): Promise<void> {
    this.#checkOpen()
    await this.#cluster.configs.refresh()
  }

  /**
   * Stops every consumer as `consumer.stop` does, then closes all connections. Idempotent. A handler must not await
   * `close`, because `close` waits for the handler.
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
    // Wait until the writes called so far are passed to the store. Later calls are refused.
    const written = Promise.all([...this.#topics.values()].map(({ handle }) => handle.written()))
    const { clock } = this.#parts
    const endMs = clock.monotonicNow() + timeout
    const enough = new AbortController()
    await Promise.race([written, sleep(clock, timeout, enough.signal)])
    enough.abort()
    const left = Math.max(0, endMs - clock.monotonicNow())
    await Promise.all([...this.#consumers].map((consumer) => consumer.stop({ timeout: left })))
    await this.#cluster.leave()
    await this.#board.close()
    await this.#parts.store.close()
  }

  #declare(definition: TopicDefinition<unknown, unknown>, isBare: boolean): Topic<unknown, unknown> {
    const { store, clock, random, logger } = this.#parts
    const announcer = this.#announcer
    const cluster = this.#cluster
    const settings = new TopicSettings(
      definition.name,
      definition.config,
      !isBare,
      cluster.configs,
      announcer,
      logger,
      this.#parts.defaults,
    )
    settings.onChange(() => cluster.reslotted())
    store.features.configure(
      definition.name,
      () => settings.current,
      () => settings.creating,
    )
    const handle = new TopicHandle(definition, {
      store,
      clock,
      random,
      logger,
      announcer,
      meter: this.#parts.meter ?? noMeter,
      settings,
      cluster,
      rateLimiter: new RateLimiter(),
      checkOpen: () => {
        this.#checkOpen()
        settings.check()
      },
      consumers: this.#consumers,
    })
    this.#topics.set(definition.name, { handle, settings, isBare })
    return handle
  }

  /** Returns the number of slots of a topic. Reads the topic's record if this process does not use the topic. */
  #slotsOf(topic: string): number {
    const known = this.#topics.get(topic)?.settings.current.slots
    if (known !== undefined) return known
    const record = this.#cluster.configs.get(topic)
    return record?.live.slots ?? record?.slots ?? DEFAULT_CONFIG.slots
  }

  #checkOpen(): void {
    if (this.#closing !== null) throw new TocsinError('closed', 'this Tocsin was closed; open a new one')
  }
}

const OPEN_FIELDS = [...STORE_FIELDS, 'node', 'logger']

/** Returns the error for `open(address)`: an address alone does not say whether it is a ledger or a timetable. */
function addressAlone(address: string): TocsinError {
  const name = /^(sqlite|postgres(ql)?):/i.test(address) ? 'ledger' : 'timetable'
  // Leave the address out of the message: it may contain a password.
  return badOption('open', `expected an object, got text; write Tocsin.open({ ${name}: '…' })`)
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

/** Throws if two declarations of one topic differ: the order of the calls must not decide which settings apply. */
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

/** Limits the name of the node, because it is printed in logs and stored with configuration changes. */
function checkNode(node: unknown): string | undefined {
  if (node === undefined || (typeof node === 'string' && /^[\x21-\x7e]{1,128}$/.test(node))) return node
  throw badOption('node', `expected 1 to 128 printable characters without spaces, got ${describeValue(node)}`)
}

/** Returns a logger that never throws: a failing logger must not stop timers. */
function safeLogger(logger: Logger): Logger {
  const safely = (level: keyof Logger) => (fields: object, message: string) => {
    try {
      logger[level](fields, message)
    } catch {
      // The error cannot be logged.
    }
  }
  return { debug: safely('debug'), info: safely('info'), warn: safely('warn'), error: safely('error') }
}

function checkLogger(logger: unknown): Logger {
  if (logger === undefined) return safeLogger(plainLogger)
  if (logger === false) return silentLogger
  const candidate = logger as Record<string, unknown> | null
  const complete = ['debug', 'info', 'warn', 'error'].every(
    (level) => typeof candidate?.[level] === 'function',
  )
  if (complete) return safeLogger(logger as Logger)
  throw new TocsinError(
    'bad-option',
    'logger: expected an object with debug, info, warn and error, like pino, or false',
    { field: 'logger' },
  )
}
