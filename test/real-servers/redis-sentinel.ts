/** A primary with replicas, and Sentinels that watch them: real processes, as quick at a failover as they can be. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type RedisServer, startRedis, startReplica } from './redis-server.ts'

const WITHIN_MS = 20_000
const LOOK_EVERY_MS = 10

/**
 * The intervals of Sentinel that no configuration sets. With the usual ones, Sentinel takes two seconds to find the others, ten
 * to make a replica of an old primary, and rests for half a minute if it got no processor for two seconds ('tilt').
 */
const QUICK = {
  'info-period': 100,
  // A replica that was promoted is turned back by the other Sentinels after four of these. The leader looks once a second.
  'publish-period': 500,
  'ask-period': 100,
  'ping-period': 100,
  'min-link-reconnect-period': 100,
  'election-timeout': 2_000,
  'tilt-trigger': 20_000,
  'tilt-period': 100,
}

export type SentinelsOptions = {
  replicas?: number
  sentinels?: number
  /** The password of the Redis servers. */
  password?: string
  /** The password of the Sentinels. */
  sentinelPassword?: string
  /** Lines of the configuration of the Sentinels. */
  sentinelConfig?: Record<string, string>
}

/** Starts all servers, and waits until a failover is possible. The caller stops them: `stop()`, or `await using`. */
export async function startSentinels(options: SentinelsOptions = {}): Promise<RedisSentinels> {
  const { replicas = 2, sentinels = 3, password, sentinelPassword } = options
  const started: RedisServer[] = []
  const add = async (starting: Promise<RedisServer>) => {
    const server = await starting
    started.push(server)
    return server
  }
  try {
    const login = password === undefined ? {} : { requirepass: password, masterauth: password }
    const primary = await add(startRedis({ config: login }))
    const copies = await all(replicas, () => add(startReplica(primary, { config: login })))
    const name = 'mymaster'
    const config = {
      ...(sentinelPassword === undefined ? {} : { requirepass: sentinelPassword }),
      'sentinel monitor': `${name} ${primary.host} ${primary.port} ${Math.floor(sentinels / 2) + 1}`,
      ...(password === undefined ? {} : { 'sentinel auth-pass': `${name} ${password}` }),
      'sentinel down-after-milliseconds': `${name} 500`,
      'sentinel failover-timeout': `${name} 3000`,
      loglevel: 'notice',
      ...options.sentinelConfig,
    }
    const guards = await all(sentinels, () => add(startRedis({ config, isSentinel: true })))
    const setup = new RedisSentinels([primary, ...copies], guards, name)
    await setup.hurry()
    await setup.settled()
    return setup
  } catch (error) {
    await Promise.all(started.map((server) => server.stop()))
    throw error
  }
}

export class RedisSentinels implements AsyncDisposable {
  /** The first one was the primary at the start. */
  readonly servers: readonly RedisServer[]
  readonly sentinels: readonly RedisServer[]
  readonly name: string

  constructor(servers: readonly RedisServer[], sentinels: readonly RedisServer[], name: string) {
    this.servers = servers
    this.sentinels = sentinels
    this.name = name
  }

  /** The addresses of the Sentinels, as a URL has them. */
  get hosts(): string {
    return this.sentinels.map(({ host, port }) => `${host}:${port}`).join(',')
  }

  /** The URL for `Tocsin.open`, if there are no passwords. */
  get url(): string {
    return `redis+sentinel://${this.hosts}/${this.name}`
  }

  /** Makes the Sentinels quick. A Sentinel that was started again needs it again. */
  async hurry(sentinels = this.sentinels): Promise<void> {
    const periods = Object.entries(QUICK).flatMap(([name, ms]) => [name, String(ms)])
    await Promise.all(sentinels.map((sentinel) => sentinel.ask('SENTINEL', 'DEBUG', ...periods)))
  }

  /** The primary, once all running Sentinels agree on it. */
  async primary(): Promise<RedisServer> {
    let found: RedisServer | undefined
    await until('the Sentinels agree on the primary', async () => {
      const names = await Promise.all(this.sentinels.map((sentinel) => this.#portBy(sentinel)))
      const [port, ...others] = new Set(names.filter((one) => one !== null))
      found = others.length === 0 ? this.servers.find((server) => server.port === port) : undefined
      return found !== undefined
    })
    return found!
  }

  /**
   * Waits until every Sentinel knows the others and all servers, and every replica has its link to the primary: then the next
   * failover can begin.
   */
  async settled(): Promise<void> {
    await until('the Sentinels know all servers', async () => {
      const primary = await this.primary()
      const states = await Promise.all(this.sentinels.map((sentinel) => this.#stateBy(sentinel)))
      const links = await primary.cli('INFO', 'replication')
      const replicas = this.servers.length - 1
      return (
        (links.match(/state=online/g) ?? []).length === replicas &&
        states.every(
          (state) =>
            state.get('flags') === 'master' &&
            Number(state.get('num-slaves')) === replicas &&
            Number(state.get('num-other-sentinels')) === this.sentinels.length - 1,
        ) &&
        (await this.#areReplicasKnown())
      )
    })
  }

  /** The last lines of the logs of the Sentinels. */
  async logTails(): Promise<string> {
    const tails = await Promise.all(this.sentinels.map((sentinel) => sentinel.logTail()))
    return tails.join('\n\n')
  }

  async stop(): Promise<void> {
    await Promise.all([...this.sentinels, ...this.servers].map((server) => server.stop()))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** The port of the primary by a Sentinel; null if the Sentinel does not run. */
  async #portBy(sentinel: RedisServer): Promise<number | null> {
    const reply = await sentinel.ask('SENTINEL', 'GET-MASTER-ADDR-BY-NAME', this.name).catch(() => null)
    return Array.isArray(reply) ? Number(reply[1]) : null
  }

  async #stateBy(sentinel: RedisServer): Promise<Map<unknown, unknown>> {
    return mapOf(await sentinel.ask('SENTINEL', 'MASTER', this.name))
  }

  async #areReplicasKnown(): Promise<boolean> {
    const lists = await Promise.all(
      this.sentinels.map((sentinel) => sentinel.ask('SENTINEL', 'REPLICAS', this.name)),
    )
    return (lists as unknown[][])
      .flat()
      .map(mapOf)
      .every((replica) => replica.get('flags') === 'slave' && replica.get('master-link-status') === 'ok')
  }
}

function mapOf(flat: unknown): Map<unknown, unknown> {
  const list = flat as unknown[]
  return new Map(Array.from({ length: list.length / 2 }, (_, i) => [list[2 * i], list[2 * i + 1]]))
}

function all<T>(count: number, start: () => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, start))
}

async function until(what: string, holds: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + WITHIN_MS
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${WITHIN_MS} ms: ${what}`)
    await sleep(LOOK_EVERY_MS)
  }
}
