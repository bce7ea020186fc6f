/** Where a cluster's tasks and its board can lie. */
import { type OpenOptions, Tocsin } from 'tocsin'
import { type PgBouncer, startPgBouncer } from '../real-servers/pgbouncer.ts'
import { type PostgresServer, startPostgres } from '../real-servers/postgres-server.ts'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

/** Behind PgBouncer there is no LISTEN/NOTIFY: processes learn of each other with the next beat. */
export const COMPOSITIONS = [
  'Redis',
  'Redis + PostgreSQL',
  'PostgreSQL',
  'PostgreSQL behind PgBouncer',
] as const
export type Composition = (typeof COMPOSITIONS)[number]

/** The servers that all places of a test file share. The caller stops them. */
export class Servers implements AsyncDisposable {
  readonly #postgres: PostgresServer
  readonly #bouncer: PgBouncer | null

  constructor(postgres: PostgresServer, bouncer: PgBouncer | null) {
    this.#postgres = postgres
    this.#bouncer = bouncer
  }

  static async start({ withBouncer = false } = {}): Promise<Servers> {
    const postgres = await startPostgres()
    try {
      return new Servers(postgres, withBouncer ? await startPgBouncer(postgres) : null)
    } catch (error) {
      await postgres.stop()
      throw error
    }
  }

  /** An empty one. */
  async place(composition: Composition): Promise<Place> {
    const url = composition === 'Redis' ? null : await this.#postgres.createDatabase()
    const redis = composition.startsWith('Redis') ? await startRedis() : null
    const isPooled = composition === 'PostgreSQL behind PgBouncer'
    const ledger = url === null || !isPooled ? url : this.#bouncer!.url(url)
    return new Place(redis, ledger)
  }

  async stop(): Promise<void> {
    await this.#bouncer?.stop()
    await this.#postgres.stop()
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }
}

/** What the nodes of one cluster share, and those of its nodes that live in this process. */
export class Place implements AsyncDisposable {
  readonly redis: RedisServer | null
  readonly ledger: string | null
  readonly #nodes = new Set<Tocsin>()

  constructor(redis: RedisServer | null, ledger: string | null) {
    this.redis = redis
    this.ledger = ledger
  }

  /** What Tocsin.open gets, here and in other processes. */
  get open(): { timetable?: string; ledger?: string } {
    return {
      ...(this.redis === null ? {} : { timetable: this.redis.url }),
      ...(this.ledger === null ? {} : { ledger: this.ledger }),
    }
  }

  /** A node of its own in this process. */
  async node(name: string, more: Partial<OpenOptions> = {}): Promise<Tocsin> {
    const toc = await Tocsin.open({ ...this.open, node: name, logger: false, ...more })
    this.#nodes.add(toc)
    return toc
  }

  nodes(...names: string[]): Promise<Tocsin[]> {
    return Promise.all(names.map((name) => this.node(name)))
  }

  /** In order, all nodes that are here. */
  async closeNodes(): Promise<void> {
    const nodes = [...this.#nodes]
    this.#nodes.clear()
    await Promise.all(nodes.map((node) => node.close()))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.closeNodes()
    await this.redis?.stop()
  }
}
