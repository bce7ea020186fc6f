/** Options of a PostgreSQL ledger. */
import { CELLS } from '../../values/cell.ts'
import { describeValue, TocsinError } from '../../errors.ts'
import { badOption, checkOptions, nearest, wholeNumber } from '../../values/options.ts'
import { DEFAULT_PREFIX } from '../../values/prefix.ts'
import { type Schema, schemaOf } from './schema.ts'

/**
 * The part of a pg pool that the options require. It is declared here, so that a program compiles with Tocsin without
 * the types of pg.
 */
export interface PostgresPool {
  connect(): Promise<unknown>
  readonly totalCount: number
}

export type PostgresOptions =
  | {
      /** The URL: 'postgres://user:password@host:5432/database'. TLS is set as in pg, with '?sslmode=verify-full'. */
      readonly url: string
      readonly pool?: undefined
      /**
       * The maximum number of connections in each of two pools: one for Tocsin's own statements, and one for the
       * transactions of handlers. 10 by default.
       */
      readonly connections?: number | undefined
      readonly partitions?: number | undefined
      readonly schema?: string | undefined
    }
  | {
      /** Your own pool of the package pg. Tocsin never ends your pool. */
      readonly pool: PostgresPool
      readonly url?: undefined
      readonly connections?: undefined
      /**
       * The number of hash partitions of the tables. It cannot change after the tables were created. 1 by default, for
       * plain tables.
       */
      readonly partitions?: number | undefined
      /** The schema of the tables and functions. By default 'tocsin', or the schema of the prefix. */
      readonly schema?: string | undefined
    }

/** The result of `postgres(options)`. Pass it to `Tocsin.open` as the ledger. */
export class PostgresConfig {
  readonly kind = 'postgres'
  readonly options: PostgresOptions

  constructor(options: PostgresOptions) {
    this.options = options
  }
}

export interface CheckedOptions {
  readonly url: string | null
  readonly pool: PostgresPool | null
  readonly connections: number
  readonly partitions: number
  readonly schema: Schema
  /** Host, port, database and schema, for error messages. Contains no secret. */
  readonly where: string
  readonly isLocal: boolean
  readonly isEncrypted: boolean
}

/** The parameters of a URL that are Tocsin's. */
const OWN_PARAMETERS: readonly string[] = ['partitions', 'schema']

const CONNECTIONS = 10
const CONNECTIONS_MAX = 1_000
const LOCAL_HOSTS = new Set(['', 'localhost', '127.0.0.1', '[::1]'])

/** Checks the options. `prefix` is the prefix of the Tocsin, which determines the schema unless an option names one. */
export function checkPostgresOptions(given: PostgresOptions, prefix = DEFAULT_PREFIX): CheckedOptions {
  checkOptions(given, ['url', 'pool', 'connections', 'partitions', 'schema'], 'postgres')
  const { url, pool, connections, partitions } = given
  if ((url === undefined) === (pool === undefined))
    throw badOption('postgres', "give one of 'url' and 'pool'")
  if (pool !== undefined) {
    if (typeof pool?.connect !== 'function' || typeof pool.totalCount !== 'number')
      throw badOption('pool', `expected a Pool of the package pg, got ${describeValue(pool)}`)
    if (connections !== undefined) throw badOption('connections', 'your pool has its own limit (max)')
    const schema = schemaOf(given.schema, prefix)
    return {
      url: null,
      pool,
      connections: CONNECTIONS,
      partitions: checkPartitions(partitions ?? 1),
      schema,
      where: `the PostgreSQL of your pool${named(schema)}`,
      isLocal: true,
      isEncrypted: false,
    }
  }
  const address = parseUrl(url)
  refuseMisspelt(address.searchParams)
  const asked = address.searchParams.get('partitions')
  const schema = schemaOf(given.schema ?? address.searchParams.get('schema') ?? undefined, prefix)
  address.searchParams.delete('partitions')
  address.searchParams.delete('schema')
  const { hostname, port, pathname } = address
  return {
    url: address.href,
    pool: null,
    connections: wholeNumber(connections ?? CONNECTIONS, 2, CONNECTIONS_MAX, 'connections'),
    partitions: checkPartitions(partitions ?? (asked === null ? 1 : Number(asked))),
    schema,
    where: `PostgreSQL ${hostname === '' ? 'on this machine' : hostname}${port === '' ? '' : `:${port}`}${pathname}${named(schema)}`,
    isLocal: LOCAL_HOSTS.has(hostname) || address.searchParams.get('host')?.startsWith('/') === true,
    isEncrypted: !['', 'disable'].includes(address.searchParams.get('sslmode') ?? ''),
  }
}

/**
 * Other parameters are the driver's, and the driver ignores those that it does not know. A misspelt `schema` would use the
 * tables of another Tocsin.
 */
function refuseMisspelt(parameters: URLSearchParams): void {
  for (const name of parameters.keys()) {
    if (OWN_PARAMETERS.includes(name)) continue
    const near = nearest(name, OWN_PARAMETERS)
    if (near !== null)
      throw badOption('url', `unknown parameter ${describeValue(name)}; did you mean '${near}'?`)
  }
}

/** Returns the part of `where` that names a schema other than the default. */
function named({ name, isDefault }: Schema): string {
  return isDefault ? '' : `, schema ${name}`
}

function parseUrl(url: unknown): URL {
  const example = 'postgres://user@host:5432/database'
  if (typeof url !== 'string' || !/^postgres(ql)?:\/\//i.test(url))
    throw badOption('url', `expected a text like '${example}'`)
  try {
    const address = new URL(url)
    if (address.pathname.includes('@'))
      throw badOption(
        'url',
        "its password has a '/' or '@' in it: write %2F for '/', %40 for '@', %3A for ':'",
      )
    return address
  } catch (error) {
    if (TocsinError.is(error)) throw error
    // The message does not contain the URL, because the URL may contain a password.
    throw badOption('url', `this is no URL; it should look like '${example}'`)
  }
}

function checkPartitions(value: number): number {
  const partitions = wholeNumber(value, 1, CELLS, 'partitions')
  if ((partitions & (partitions - 1)) === 0) return partitions
  throw badOption('partitions', `expected a power of two, got ${partitions}`)
}
