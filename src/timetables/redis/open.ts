import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { HintTable } from '../../hint-table.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Random } from '../../random.ts'
import { Caller } from './caller.ts'
import { Connection } from './connection.ts'
import { RedisHintTable } from './hint-table.ts'
import { Keys } from './keys.ts'
import { LateHintTable } from './late-hint-table.ts'
import { NodeFormats } from './node-formats.ts'
import { checkRedisOptions, type RedisOptions } from './options.ts'
import { RecordClock } from '../../lib/record-clock.ts'
import { Replicas } from './replicas.ts'
import { Batcher } from '../../lib/batcher.ts'
import { loadScripts, type Scripts } from './scripts.ts'
import { checkHintServer, checkServer } from './server.ts'
import type { RedisParts } from './parts.ts'
import { RedisTimetable } from './timetable.ts'
import { Wakes } from './wakes.ts'

export interface RedisSettings {
  readonly prefix: string
  readonly callTimeoutMs: number
  /** The number of replicas that must confirm a write before the caller gets its answer. */
  readonly waitReplicas: number
}

export interface RedisSurroundings {
  readonly clock: Clock
  readonly random: Random
  readonly logger: Logger
  readonly scripts?: Scripts
}

export async function openRedis(
  given: RedisOptions,
  settings: RedisSettings,
  surroundings: RedisSurroundings,
): Promise<RedisTimetable> {
  const { timetable } = await connect(given, settings, surroundings, checkServer, 'warn', 'tasks')
  return timetable
}

/**
 * Opens a hint table for a ledger. Replicas need not confirm its writes, because the ledger has the tasks. A hint table
 * and a timetable must not have the same prefix.
 */
export async function openRedisHints(
  given: RedisOptions,
  { prefix, callTimeoutMs }: Omit<RedisSettings, 'waitReplicas'>,
  surroundings: RedisSurroundings,
): Promise<RedisHintTable> {
  const settings = { prefix, callTimeoutMs, waitReplicas: 0 }
  const { timetable, parts } = await connect(given, settings, surroundings, checkHintServer, 'info', 'hints')
  return new RedisHintTable(timetable, parts)
}

/**
 * Like `openRedisHints`, but also returns a table if Redis is unreachable, together with the error. The calls of this
 * table fail until Redis is there. A Redis that refuses this program is an error of the configuration, and is thrown.
 */
export async function openRedisHintsOrLate(
  given: RedisOptions,
  settings: Omit<RedisSettings, 'waitReplicas'>,
  surroundings: RedisSurroundings,
): Promise<{ table: HintTable; outage: TocsinError | null }> {
  // Load the scripts once for all attempts.
  const around = { scripts: loadScripts(), ...surroundings }
  const open = () => openRedisHints(given, settings, around)
  try {
    return { table: await open(), outage: null }
  } catch (error) {
    if (!TocsinError.is(error, 'timetable-unavailable')) throw error
    const { lookMs } = checkRedisOptions(given, settings.callTimeoutMs)
    return { table: new LateHintTable(lookMs, open), outage: error }
  }
}

/** Connects, checks the server, and creates the timetable with its parts. */
async function connect(
  given: RedisOptions,
  { prefix, callTimeoutMs, waitReplicas }: RedisSettings,
  { clock, random, logger, scripts = loadScripts() }: RedisSurroundings,
  check: typeof checkServer,
  /**
   * The level of the log lines about a lost connection. 'warn' if Redis is needed: the default logger shows the begin
   * and the end of an outage. 'info' for a hint table: the store logs when it falls back to the ledger, and its return.
   */
  level: 'warn' | 'info',
  /** What the cells have: tasks, or hints of a ledger. */
  what: 'tasks' | 'hints',
): Promise<{ timetable: RedisTimetable; parts: RedisParts }> {
  const options = checkRedisOptions(given, callTimeoutMs)
  const { where, lookMs, assumeNoEviction } = options
  const onError = (error: unknown) => {
    if (!isLost)
      logger[level]({ redis: where }, `connection to Redis lost (${describeError(error)}); reconnecting`)
    isLost = true
  }
  const onBack = () => {
    isLost = false
    logger[level]({ redis: where }, 'connected to Redis again')
  }
  let isLost = false
  const connectionParts = { clock, random, options: options.client, where, callTimeoutMs, onError }

  const connections: Connection[] = []
  const newConnection = async () => {
    const connection = await Connection.open({ ...connectionParts, onBack })
    connections.push(connection)
    return connection
  }
  const recordClock = new RecordClock(clock)
  const callerOn = (connection: Connection) =>
    new Caller(connection, scripts, clock, recordClock, callTimeoutMs)
  try {
    const caller = callerOn(await newConnection())
    const keys = new Keys(prefix, options.database)
    await check(caller, keys, where, assumeNoEviction)
    if (!options.isLocal && !options.isEncrypted)
      logger.warn(
        { redis: where },
        'the connection to Redis is not encrypted; use rediss:// across a network',
      )
    const writer = waitReplicas > 0 ? callerOn(await newConnection()) : caller
    const wakes = new Wakes(connectionParts, keys, lookMs)
    const batcher = new Batcher(clock, callTimeoutMs)
    const close = async () => {
      // Complete the calls that were made before `close`. Their deadlines limit the wait.
      await batcher.drained()
      wakes.close()
      for (const connection of connections) connection.close()
    }
    const replicas = new Replicas(writer, clock, waitReplicas, callTimeoutMs)
    if (waitReplicas > 0 && !(await replicas.areThere()))
      logger.warn(
        { redis: where, waitReplicas },
        'fewer replicas are connected than waitReplicas requires: writes will fail with unknown-outcome',
      )
    const nodeFormats = new NodeFormats()
    // Records of hints need no agreement of all nodes: an older node that does not see them may put or drop a hint that
    // is held, and the ledger decides when the key rings.
    const claimShape = what === 'hints' ? () => 'hints' as const : () => nodeFormats.shape
    const parts = {
      caller,
      writer,
      replicas,
      batcher,
      wakes,
      keys,
      recordClock,
      random,
      lookMs,
      claimShape,
      nodeFormats,
      close,
    }
    const timetable = new RedisTimetable(parts)
    // Read Redis's clock before the first write, because the creation time of a task is computed from the last reading.
    await timetable.nowMs()
    return { timetable, parts }
  } catch (error) {
    for (const connection of connections) connection.close()
    throw error
  }
}
