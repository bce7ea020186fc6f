import { CONFIG_FIELDS } from '../values/config.ts'
import { type Duration, durationMs } from '../values/duration.ts'
import { describeValue, TocsinError } from '../errors.ts'
import { badOption, checkOptions, needsLedger, wholeNumber } from '../values/options.ts'
import { RunningConsumer } from '../consume/consumer.ts'
import { type Performer, performGuard } from '../consume/performer.ts'
import { decodeBody } from '../values/schema.ts'
import type { TaskStore } from '../store.ts'
import type { TopicDefinition } from './topic-definition.ts'
import type { Consumer, ConsumeOptions } from './topic.ts'
import type { TopicParts } from './topic-parts.ts'

/** How long stopping and closing wait for handlers. */
export const STOP_TIMEOUT = '20s'
const CONCURRENCY = 64
const BATCH_CONCURRENCY = 4
const CONCURRENCY_MAX = 100_000

function checkTransacts({ ledger }: TaskStore): void {
  if (ledger === undefined) throw needsLedger('transaction: true')
  if (ledger.transact === null)
    throw new TocsinError(
      'ledger-required',
      'transaction: true needs its ledger in one PostgreSQL database: a handler cannot be waited for inside a transaction of SQLite, or of several databases. Make the handler idempotent instead: task.id is the same at every attempt',
    )
}

/** From what the user gave to a consumer that runs. */
export function startConsumer<Out>(
  definition: () => TopicDefinition<unknown, Out>,
  { settings, consumers, checkOpen, cluster, ...parts }: TopicParts,
  handler: unknown,
  performer: Performer<Out>,
  options: ConsumeOptions<Out>,
  batched: boolean,
): Consumer {
  checkOpen()
  settings.check()
  if (typeof handler !== 'function')
    throw badOption('handler', `expected a function, got ${describeValue(handler)}`)
  const misplaced = Object.keys(Object(options)).find((name) => CONFIG_FIELDS.includes(name))
  if (misplaced !== undefined)
    throw badOption(
      misplaced,
      `is a setting of the topic: toc.topic('${definition().name}', { ${misplaced} })`,
    )
  checkOptions(options, ['concurrency', 'transaction', 'guard'], 'consume')
  const { guard, transaction } = options
  if (transaction !== undefined && typeof transaction !== 'boolean')
    throw badOption('transaction', `expected true or false, got ${describeValue(transaction)}`)
  const isTransactional = transaction === true
  if (isTransactional) checkTransacts(parts.store)
  if (guard !== undefined && typeof guard !== 'function')
    throw badOption('guard', `expected a function, got ${describeValue(guard)}`)
  // Each transaction has a connection to itself.
  const concurrency = wholeNumber(
    options.concurrency ?? (batched || isTransactional ? BATCH_CONCURRENCY : CONCURRENCY),
    1,
    CONCURRENCY_MAX,
    'concurrency',
  )
  const { name } = definition()
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
  const participation = cluster.consume(name, {
    capacity: concurrency,
    inFlightCount: () => running.inFlightCount,
    finishedCount: () => running.finishedCount,
    onShare: () => running.deal(),
  })
  const forget = settings.onChange(() => running.reconfigure())
  const stop = async (given: { readonly timeout?: Duration | undefined } = {}) => {
    checkOptions(given, ['timeout'], 'stop')
    const timeoutMs = durationMs(given.timeout ?? STOP_TIMEOUT, 'timeout')
    const stopped = running.stop(timeoutMs)
    // The others take over what we do not pull any more, while our handlers still run.
    participation.yield()
    const report = await stopped
    participation.end()
    forget()
    consumers.delete(consumer)
    return report
  }
  const consumer: Consumer = {
    get staleCount() {
      return running.staleCount
    },
    stop,
    [Symbol.asyncDispose]: async () => void (await stop()),
  }
  consumers.add(consumer)
  return consumer
}
