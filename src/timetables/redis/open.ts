import type { RedisClientOptions } from '@redis/client'
import type { Clock } from '../../clock.ts'
import { describeError, TocsinError } from '../../errors.ts'
import type { HintTable } from '../../hint-table.ts'
import type { Logger } from '../../telemetry/logger.ts'
import type { Random } from '../../random.ts'
import { Caller } from './caller.ts'
import { ClusterServers } from './cluster/cluster-servers.ts'
import { addressOf } from './address.ts'
import type { ConnectionParts } from './connection.ts'
import { RedisHintTable } from './hint-table.ts'
import { Keys } from './keys.ts'
import { LateHintTable } from './late-hint-table.ts'
import { NodeFormats } from './node-formats.ts'
import { OneServer } from './one-server.ts'
import { checkRedisOptions, isLocalHost, type RedisOptions } from './options.ts'
import { Replicas } from './replicas.ts'
import { Batcher } from '../../lib/batcher.ts'
import { loadScripts, type Scripts } from './scripts.ts'
import { SentinelAddress } from './sentinel.ts'
import { checkHintServer, checkServer } from './server.ts'
import type { Server, Servers } from './servers.ts'
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

/** Connects, checks the servers, and creates the timetable with its parts. */
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
  const { where, lookMs, assumeNoEviction, clusterNodes, sentinel } = options
  const log = (message: string) => logger[level]({ redis: where }, message)
  const address =
    sentinel === null ? undefined : new SentinelAddress({ clock, sentinel, where, callTimeoutMs, log })
  const lost = new Set<string>()
  const partsAt = (at: string, client: RedisClientOptions): ConnectionParts => ({
    clock,
    random,
    options: client,
    where: at,
    callTimeoutMs,
    onBack: () => {
      if (lost.delete(at)) logger[level]({ redis: at }, 'connected to Redis again')
    },
    onError: (error: unknown) => {
      if (!lost.has(at))
        logger[level]({ redis: at }, `connection to Redis lost (${describeError(error)}); reconnecting`)
      lost.add(at)
    },
  })
  const openServers = (): Promise<Servers> =>
    clusterNodes === null
      ? OneServer.open({ ...partsAt(where, options.client), address })
      : ClusterServers.open({
          clock,
          seeds: clusterNodes,
          partsFor: (host, port) => {
            const socket = { ...options.client.socket, host, port }
            return partsAt(addressOf(host, port), { ...options.client, socket } as RedisClientOptions)
          },
          callTimeoutMs,
          askEveryMs: lookMs,
        })
  const opened: Servers[] = []
  const open = async () => {
    const servers = await openServers()
    opened.push(servers)
    return servers
  }
  try {
    const servers = await open()
    const caller = new Caller(servers, scripts, clock, callTimeoutMs)
    const keys = new Keys(prefix, options.database)
    const isCluster = clusterNodes !== null
    for (const server of servers.all)
      await check({ caller, keys, servers, assumeNoEviction, isCluster }, server)
    const isLocal = address === undefined ? options.isLocal : isLocalHost(address.endpoint.host)
    if (!isLocal && !options.isEncrypted)
      logger.warn(
        { redis: where },
        'the connection to Redis is not encrypted; use rediss:// across a network',
      )
    const replicas = new Replicas(clock, waitReplicas, callTimeoutMs)
    const writers = waitReplicas > 0 ? await open() : servers
    const writer = waitReplicas > 0 ? new Caller(writers, scripts, clock, callTimeoutMs, replicas) : caller
    const onError = (server: Server, error: unknown) => partsAt(server.where, options.client).onError(error)
    const wakes = new Wakes({ clock, servers, keys, callTimeoutMs, checkEveryMs: lookMs, onError })
    const batcher = new Batcher(clock, callTimeoutMs)
    const close = async () => {
      // Complete the calls that were made before `close`. Their deadlines limit the wait.
      await batcher.drained()
      wakes.close()
      for (const one of opened) one.close()
      address?.close()
    }
    const areThere = await Promise.all(
      waitReplicas === 0 ? [] : writers.all.map((server) => replicas.areThere(server)),
    )
    if (areThere.includes(false))
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
      servers,
      batcher,
      wakes,
      keys,
      random,
      lookMs,
      claimShape,
      nodeFormats,
      close,
    }
    // Read Redis's clock before the first write, because the creation time of a task is computed from the last reading.
    const clocks = [...new Set([...servers.all, ...writers.all])]
    await Promise.all(clocks.map((server) => caller.timeOf(server)))
    return { timetable: new RedisTimetable(parts), parts }
  } catch (error) {
    for (const one of opened) one.close()
    address?.close()
    throw error
  }
}
