/** A client of a Tocsin server. It does not own a connection and need not be closed. */
import { type Clock, systemClock } from '../clock.ts'
import type { ConfigView, LiveConfig, TopicConfig } from '../values/config.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { TocsinError } from '../errors.ts'
import type { Jsonified } from '../values/json.ts'
import { checkTopicName } from '../values/key.ts'
import { badOption, checkOptions } from '../values/options.ts'
import type { TopicAudit } from '../store.ts'
import type { NodeInfo } from '../api/tocsin.ts'
import type { ForecastOptions } from '../api/topic.ts'
import { ClientTokens } from './client-tokens.ts'
import { ClientTopic } from './client-topic.ts'
import { eventsOf, type EventsOptions, type ServerEvent } from './events.ts'
import { Http } from './http.ts'
import {
  configIn,
  configOut,
  dateIn,
  type ForecastAnswer,
  forecastOut,
  queryOut,
  stepsIn,
  type Wire,
} from './wire.ts'

export interface ClientOptions {
  /** The URL of the server; 'http://127.0.0.1:7420' by default. */
  readonly url?: string | undefined
  /** An access token. It is required once a token has been created on the server. */
  readonly token?: string | undefined
  /**
   * The timeout of a call; 30s by default. For `claim`, `wait` is added to it. Calls whose duration depends on the
   * number of tasks have no timeout: calls by tag or prefix, calls of `dead`, `scheduleMany` with a stream, and
   * `audit`.
   */
  readonly timeout?: Duration | undefined
}

export interface TopicStats {
  readonly topic: string
  readonly pending: number
  readonly due: number
  readonly claimed: number
  readonly dead: number
  readonly paused: boolean
  /** How long the oldest due task has been waiting; 0 if no task is due. */
  readonly oldestOverdueMs: number
}

export interface Stats {
  /** The time when the tasks were counted. */
  readonly at: Date
  readonly topics: readonly TopicStats[]
  readonly total: {
    readonly pending: number
    readonly due: number
    readonly claimed: number
    readonly dead: number
  }
}

export interface TopicSummary {
  readonly topic: string
  readonly version: number
  readonly paused: boolean
}

export interface TopicForecast {
  readonly topic: string
  readonly steps: readonly { readonly at: Date; readonly due: number }[]
}

export interface Audit {
  /** True if the counters of every topic balance. */
  readonly balances: boolean
  readonly topics: readonly TopicAudit[]
}

const URL_BY_DEFAULT = 'http://127.0.0.1:7420'
const TIMEOUT = '30s'

export class TocsinClient {
  readonly #http: Http
  readonly #clock: Clock
  readonly tokens: ClientTokens

  /** Pass `clock` only in tests. */
  constructor(options: ClientOptions = {}, clock: Clock = systemClock) {
    checkOptions(options, ['url', 'token', 'timeout'], 'client')
    const { url = URL_BY_DEFAULT, token, timeout = TIMEOUT } = options
    const timeoutMs = durationMs(timeout, 'timeout')
    if (timeoutMs === 0) throw badOption('timeout', 'expected at least 1ms')
    this.#http = new Http({ url, token, timeoutMs }, clock)
    this.#clock = clock
    this.tokens = new ClientTokens(this.#http)
  }

  get url(): string {
    return this.#http.url
  }

  /** Returns a handle and sends no request. Payloads are sent as `T`, and are received as JSON represents them. */
  topic<T = unknown>(name: string): ClientTopic<T, Jsonified<T>> {
    return new ClientTopic(checkTopicName(name), this.#http, this.#clock)
  }

  async topics(): Promise<TopicSummary[]> {
    return this.#http.get('/v1/topics', ({ topics }: { topics: TopicSummary[] }) =>
      topics.map(({ topic, version, paused }) => ({ topic, version, paused })),
    )
  }

  /** Declares a topic that no program of the cluster declares in code. */
  async declare(topic: string, config: TopicConfig = {}): Promise<ConfigView> {
    const body = JSON.stringify(configOut(config, `topic '${checkTopicName(topic)}'`))
    return this.#http.send('PUT', `/v1/topics/${topic}`, body, configIn)
  }

  /** Changes live settings for the whole cluster. Null resets a setting. */
  async configure(
    topic: string,
    patch: LiveConfig,
    options?: { readonly ifVersion?: number | undefined },
  ): Promise<ConfigView> {
    return this.topic(topic).configure(patch, options)
  }

  async stats(options: { readonly topic?: string | undefined } = {}): Promise<Stats> {
    checkOptions(options, ['topic'], 'stats')
    return this.#http.get(`/v1/stats${queryOut({ topic: options.topic })}`, (stats: Wire<Stats>) => ({
      at: dateIn(stats.at),
      topics: [...stats.topics],
      total: { ...stats.total },
    }))
  }

  async forecast(
    options: ForecastOptions & { readonly topic?: string | undefined },
  ): Promise<TopicForecast[]> {
    checkOptions(options, ['to', 'from', 'step', 'topic'], 'forecast')
    const query = queryOut({ topic: options.topic, ...forecastOut(options) })
    return this.#http.get(`/v1/forecast${query}`, ({ topics }: ForecastAnswer) =>
      topics.map(({ topic, steps }) => ({ topic, steps: stepsIn(steps) })),
    )
  }

  async nodes(): Promise<NodeInfo[]> {
    return this.#http.get(
      '/v1/nodes',
      ({ nodes }: { nodes: (Omit<NodeInfo, 'startedAt'> & { startedAt: string })[] }) =>
        nodes.map((node) => ({ ...node, startedAt: dateIn(node.startedAt) })),
    )
  }

  /**
   * Checks whether the books of every topic balance, and repairs the timetable if it differs from the ledger. Counts
   * all tasks one by one, so the call has no timeout.
   */
  async audit(options: { readonly signal?: AbortSignal | undefined } = {}): Promise<Audit> {
    checkOptions(options, ['signal'], 'audit')
    const read = ({ balances, topics }: Audit) => ({ balances, topics: [...topics] })
    return this.#http.get('/v1/audit', read, { signal: options.signal, waitMs: null })
  }

  /** Yields events as they happen, starting now. */
  events(options: EventsOptions = {}): AsyncGenerator<ServerEvent, void, undefined> {
    checkOptions(options, ['topic', 'type', 'signal'], 'events')
    return eventsOf(this.#http, options)
  }

  /** Returns the metrics in the text format of Prometheus. */
  async metrics(): Promise<string> {
    return this.#http.text('/metrics')
  }

  /** Returns false if the server answers that it is not ready or shuts down. Throws if the server is unreachable. */
  async ready(): Promise<boolean> {
    try {
      return await this.#http.get('/readyz', ({ status }: { status: string }) => status === 'ready')
    } catch (error) {
      if (TocsinError.is(error) && error.status === 503 && error.code !== 'unreachable') return false
      throw error
    }
  }
}
