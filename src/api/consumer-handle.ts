import type { Clock } from '../clock.ts'
import type { Cluster } from '../cluster/cluster.ts'
import { RunningConsumer, type StopReport } from '../consume/consumer.ts'
import { type Performer, performGuard } from '../consume/performer.ts'
import { describeValue } from '../errors.ts'
import type { RateLimiter } from '../lib/rate-limiter.ts'
import type { Random } from '../random.ts'
import type { TaskStore } from '../store.ts'
import type { Announcer } from '../telemetry/events.ts'
import type { Logger } from '../telemetry/logger.ts'
import type { Meter } from '../telemetry/meter.ts'
import { CONFIG_FIELDS } from '../values/config.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { badOption, checkOptions, wholeNumber } from '../values/options.ts'
import { decodeBody } from '../values/schema.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { TopicSettings } from './topic-settings.ts'
import type { Consumer, ConsumeOptions } from './topic.ts'

/** How long `stop` and `close` wait for running handlers by default. */
export const STOP_TIMEOUT = '20s'
const CONCURRENCY = 64
const BATCH_CONCURRENCY = 4
const CONCURRENCY_MAX = 100_000

/** A consumer, or an HTTP pull, that `close` must stop. */
export interface Stoppable {
  /** The number of claimed tasks that wait for the other tasks of their batch. Undefined for an HTTP pull. */
  readonly gatheredCount?: number
  stop(options: { readonly timeout: Duration }): Promise<unknown>
}

/** The parts of a Tocsin that the consumers of a topic need. */
export interface ConsumeParts {
  readonly store: TaskStore
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly announcer: Announcer
  readonly meter: Meter
  readonly settings: TopicSettings
  readonly cluster: Cluster
  readonly rateLimiter: RateLimiter
  /** The running consumers and HTTP pulls of all topics. Each one adds and removes itself. */
  readonly consumers: Set<Stoppable>
}

/** The handler given to `consume` or `consumeBatch`. */
interface ConsumeHandler<Out> {
  readonly performer: Performer<Out>
  readonly batched: boolean
}

/** A running consumer, as returned to the user. It joins the cluster and gets a share of the topic's slots. */
export class ConsumerHandle<Out> implements Consumer {
  readonly #running: RunningConsumer<Out>
  readonly #participation: ReturnType<Cluster['consume']>
  readonly #unsubscribe: () => void
  readonly #consumers: Set<Stoppable>

  /** Throws if an option is invalid. */
  constructor(
    definition: () => TopicDefinition<unknown, Out>,
    { settings, consumers, cluster, ...parts }: ConsumeParts,
    { performer, batched }: ConsumeHandler<Out>,
    options: ConsumeOptions<Out>,
  ) {
    const { name } = definition()
    const { concurrency, isTransactional, guard } = checkConsumeOptions(options, name, batched, parts.store)
    const running = new RunningConsumer<Out>({
      ...parts,
      topic: name,
      settings: () => settings.current,
      paused: () => settings.paused,
      decode: (body) => decodeBody(definition().schema, body),
      performer,
      guard: guard === undefined ? null : performGuard(guard),
      concurrency,
      share: () => cluster.shareOf(name),
      batched,
      isTransactional,
    })
    this.#running = running
    this.#participation = cluster.consume(name, {
      capacity: concurrency,
      inFlightCount: () => running.inFlightCount,
      finishedCount: () => running.finishedCount,
      onShare: () => running.deal(),
    })
    this.#unsubscribe = settings.onChange(() => running.reconfigure())
    this.#consumers = consumers
    consumers.add(this)
  }

  get staleCount(): number {
    return this.#running.staleCount
  }

  get gatheredCount(): number {
    return this.#running.gatheredCount
  }

  /** This is an arrow function, so that `const { stop } = consumer` works. */
  readonly stop = async (options: { readonly timeout?: Duration | undefined } = {}): Promise<StopReport> => {
    checkOptions(options, ['timeout'], 'stop')
    const timeoutMs = durationMs(options.timeout ?? STOP_TIMEOUT, 'timeout')
    const stopped = this.#running.stop(timeoutMs)
    // Give up the slots before the handlers have ended: other nodes pull these slots from now on.
    this.#participation.yield()
    const report = await stopped
    this.#participation.end()
    this.#unsubscribe()
    this.#consumers.delete(this)
    return report
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

interface CheckedOptions<Out> {
  readonly concurrency: number
  readonly isTransactional: boolean
  readonly guard: ConsumeOptions<Out>['guard']
}

function checkConsumeOptions<Out>(
  options: ConsumeOptions<Out>,
  topic: string,
  batched: boolean,
  store: TaskStore,
): CheckedOptions<Out> {
  const misplaced = Object.keys(Object(options)).find((name) => CONFIG_FIELDS.includes(name))
  if (misplaced !== undefined)
    throw badOption(misplaced, `is a setting of the topic: toc.topic('${topic}', { ${misplaced} })`)
  checkOptions(options, ['concurrency', 'transaction', 'guard'], 'consume')
  const { guard, transaction } = options
  if (transaction !== undefined && typeof transaction !== 'boolean')
    throw badOption('transaction', `expected true or false, got ${describeValue(transaction)}`)
  const isTransactional = transaction === true
  if (isTransactional) store.features.handlerTransactions()
  if (guard !== undefined && typeof guard !== 'function')
    throw badOption('guard', `expected a function, got ${describeValue(guard)}`)
  // The default is lower for batches, because each call runs many tasks, and for transactions, because each call needs
  // its own connection.
  const byDefault = batched || isTransactional ? BATCH_CONCURRENCY : CONCURRENCY
  const concurrency = wholeNumber(options.concurrency ?? byDefault, 1, CONCURRENCY_MAX, 'concurrency')
  return { concurrency, isTransactional, guard }
}
