/**
 * A real PostgreSQL for one test: a free port of 127.0.0.1, a temporary folder, no passwords. It can be killed with all its
 * processes, restarted on its files, and paused.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, open, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { makeCertificates } from './certificates.ts'
import { freePort } from './free-port.ts'
import { type GuardedChild, spawnGuarded } from './guarded-child.ts'
import { areAlive, childrenOf, signalTo } from './processes.ts'
import { handOver, unprivileged, unprivilegedTmpdir } from './unprivileged.ts'

const HOST = '127.0.0.1'
const USER = 'postgres'
const READY_WITHIN_MS = 30_000
const CONNECT_WITHIN_MS = 5_000
/** How long a shutdown may take before the server is killed. */
const STOP_WITHIN_MS = 5_000
const LOOK_EVERY_MS = 5
const STOPPING_LOOKS_MAX = 1_000
const PORTS_TRIED_MAX = 10
const LOG_TAIL_LINES = 20
/** From this version a database can have an ICU collation on every machine, so that tests sort as most databases do. */
const VERSION_WITH_ICU = 150_000

/**
 * The guard of a child kills the postmaster alone when this process has ended. Its other processes notice and end, unless
 * they are paused; and its shared memory segment stays. These two guards see to both.
 */
const PAUSE_GUARD = 'read -r _; kill -9 "$@"'
const MEMORY_GUARD = 'read -r _; ipcrm -m "$1"'

const run = promisify(execFile)

export type PostgresOptions = {
  /** Settings of postgresql.conf: `{ max_connections: '20' }`. They override the defaults below. */
  config?: Record<string, string>
  /** Wait for the disk, as servers do. Without it a kill loses nothing, either; a power loss would. */
  fsync?: boolean
  /** Offer TLS, with a certificate of its own. Clients choose by `sslmode`. */
  tls?: boolean
}

/** Starts a PostgreSQL and waits until it answers. The caller stops it: `stop()`, or `await using`. */
export async function startPostgres(options: PostgresOptions = {}): Promise<PostgresServer> {
  const bin = dirname(await programPath('postgres'))
  const folder = await mkdtemp(join(unprivilegedTmpdir(), 'tocsin-postgres-'))
  try {
    await run('cp', ['-a', await initialized(bin), join(folder, 'data')])
    // Under these names, PostgreSQL finds them: server.crt and server.key in its data directory.
    if (options.tls === true) await makeCertificates(join(folder, 'data'))
    await handOver(folder)
    for (let tries = 1; ; tries++) {
      const server = new PostgresServer(bin, folder, options, await freePort())
      try {
        await server.start()
        return server
      } catch (error) {
        if (!(error instanceof PortTaken) || tries === PORTS_TRIED_MAX) throw error
      }
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

/** Runs one statement on a connection of its own. */
export async function sql<Row extends pg.QueryResultRow>(
  where: string | { host: string; port: number; user: string; database: string },
  text: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const address = typeof where === 'string' ? { connectionString: where } : where
  const client = new pg.Client({ ...address, connectionTimeoutMillis: CONNECT_WITHIN_MS })
  // If the server is killed meanwhile, the statement rejects. Without a listener the event would end the process.
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows
  } finally {
    await client.end()
  }
}

/** Opens a connection for the caller: `await using` ends it. */
export async function connected(url: string): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

/**
 * Returns a pool for the caller to end. Its `end` resolves before the connections are closed: if the server or the database
 * goes away at that moment, the pool emits an error, which would end the process without a listener.
 */
export function pooled(url: string, options: pg.PoolConfig = {}): pg.Pool {
  const pool = new pg.Pool({ connectionString: url, ...options })
  pool.on('error', () => {})
  return pool
}

/** Returns the path of a program, by the rows of scripts/provision.mjs: Debian keeps servers away from PATH. */
export async function programPath(program: string): Promise<string> {
  const { NEEDED, find } = (await import(
    new URL('../../scripts/provision.mjs', import.meta.url).href
  )) as Provisioning
  const row = NEEDED.find((one) => one.program === program)
  const path = row === undefined ? undefined : find(row)
  if (path === undefined) throw new Error(`${program} is not there. Run: node scripts/provision.mjs`)
  return path
}

type Row = { readonly program: string }
type Provisioning = { NEEDED: Row[]; find: (row: Row) => string | undefined }

/**
 * Returns a data folder made by initdb. It is made once and copied for each server, as initdb takes seconds. If several
 * processes make it at the same time, the first one to finish is kept.
 */
async function initialized(bin: string): Promise<string> {
  const { stdout } = await run(join(bin, 'postgres'), ['--version'])
  const version = stdout.replace(/^.*?(\d+)/s, '$1').replaceAll(/[^\w.]+/g, '-')
  // By user: the files are readable by their owner alone.
  const owner = process.getuid?.() ?? 'any'
  const ours = fileURLToPath(
    new URL(`../../node_modules/.cache/tocsin/postgres-${version}-of-${owner}`, import.meta.url),
  )
  if (existsSync(ours)) return ours
  const folder = await mkdtemp(join(unprivilegedTmpdir(), 'tocsin-initdb-'))
  try {
    await handOver(folder)
    const args = ['-D', join(folder, 'data'), '-U', USER, '--auth=trust', '--no-sync', '--encoding=UTF8']
    await run(...unprivileged(join(bin, 'initdb'), [...args, '--no-locale', '--no-instructions']), {
      cwd: folder,
    })
    await mkdir(dirname(ours), { recursive: true })
    const copy = `${ours}.${process.pid}`
    await run('cp', ['-a', join(folder, 'data'), copy])
    await rename(copy, ours).catch(() => rm(copy, { recursive: true, force: true }))
    if (!existsSync(ours)) throw new Error(`${ours} could not be made`)
    return ours
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

class PortTaken extends Error {}

export class PostgresServer implements AsyncDisposable {
  readonly host = HOST
  readonly port: number
  readonly folder: string

  readonly #bin: string
  readonly #data: string
  readonly #log: string
  readonly #config: Record<string, string>
  #child: GuardedChild | undefined
  #pauseGuard: ChildProcess | undefined
  #memoryGuard: ChildProcess | undefined
  #databases = 0
  #options: Promise<string> | undefined

  constructor(
    bin: string,
    folder: string,
    { config = {}, fsync = false, tls = false }: PostgresOptions,
    port: number,
  ) {
    this.#bin = bin
    this.folder = folder
    this.port = port
    this.#data = join(folder, 'data')
    this.#log = join(folder, 'postgres.log')
    this.#config = {
      listen_addresses: HOST,
      port: String(port),
      unix_socket_directories: folder,
      fsync: fsync ? 'on' : 'off',
      full_page_writes: fsync ? 'on' : 'off',
      max_connections: '200',
      // In the server's folder, and removed with it: files in /dev/shm would stay after a kill.
      dynamic_shared_memory_type: 'mmap',
      log_min_messages: 'warning',
      ssl: tls ? 'on' : 'off',
      ...config,
    }
  }

  /** Returns the address of a database. 'postgres' always exists. */
  url(database = 'postgres'): string {
    return `postgres://${USER}@${HOST}:${this.port}/${database}`
  }

  /** The pid of the postmaster. It changes with a restart. */
  get pid(): number {
    return this.#running().pid
  }

  /** The pids of all processes, the postmaster first. */
  get pids(): number[] {
    return [this.pid, ...childrenOf(this.pid).map(({ pid }) => pid)]
  }

  /** Creates an empty database and returns its address. */
  async createDatabase(): Promise<string> {
    const name = `tocsin_${++this.#databases}`
    this.#options ??= this.#databaseOptions()
    await this.query(`CREATE DATABASE ${name} TEMPLATE template0 ${await this.#options}`)
    return this.url(name)
  }

  async dropDatabase(url: string): Promise<void> {
    await this.query(`DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`)
  }

  /** Runs one statement on the database 'postgres'. */
  query<Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row[]> {
    return sql<Row>(this.url(), text, values)
  }

  /** Starts the server if it is not running, and waits until it answers. `startPostgres` has called this. */
  async start(): Promise<void> {
    if (this.#child?.isRunning() === true) return
    const deadline = performance.now() + READY_WITHIN_MS
    // A new log for each start, so that errors found in it belong to this start.
    await rm(this.#log, { force: true })
    // Left by a server that was killed. Its pid may belong to another process by now, and postgres would refuse to start.
    await rm(join(this.#data, 'postmaster.pid'), { force: true })
    const output = await open(this.#log, 'a')
    try {
      const settings = Object.entries(this.#config).flatMap(([name, value]) => ['-c', `${name}=${value}`])
      const command = unprivileged(join(this.#bin, 'postgres'), ['-D', this.#data, ...settings])
      const stdio = ['ignore' as const, output.fd, output.fd]
      this.#child = await spawnGuarded(...command, { folder: this.folder, stdio })
    } finally {
      await output.close()
    }
    await this.#untilReady(this.#child, deadline)
    const memory = await this.#sharedMemory()
    if (memory !== undefined) this.#memoryGuard = guard(MEMORY_GUARD, [memory])
  }

  /** Asks over the Unix socket in the server's folder: on the port another server might answer. */
  async #untilReady(child: GuardedChild, deadline: number): Promise<void> {
    const address = { host: this.folder, port: this.port, user: USER, database: 'postgres' }
    for (;;) {
      const isReady = await sql(address, 'SELECT').then(
        () => true,
        () => false,
      )
      if (isReady) return
      if (!child.isRunning() || performance.now() > deadline) break
      await sleep(LOOK_EVERY_MS)
    }
    const hasEnded = !child.isRunning()
    await this.kill()
    const log = await this.logTail()
    if (log.includes('Address already in use')) throw new PortTaken(log)
    const how = hasEnded ? 'ended at its start' : `gave no answer within ${READY_WITHIN_MS} ms`
    throw new Error(`postgres ${how}. Its log:\n${log}`)
  }

  /** Kills all processes of the server (SIGKILL) and waits until they have ended. Its files stay. */
  async kill(): Promise<void> {
    const child = this.#child
    if (child?.isRunning() !== true) return
    // A stopped postmaster starts no more processes, and does not clean up after those that end.
    child.signal('SIGSTOP')
    for (;;) {
      const others = childrenOf(child.pid)
      if (others.length === 0) break
      for (const { pid } of others) signalTo(pid, 'SIGKILL')
      await sleep(LOOK_EVERY_MS)
    }
    await child.end('SIGKILL')
    this.#endGuards()
    const memory = await this.#sharedMemory()
    if (memory !== undefined) await run('ipcrm', ['-m', memory]).catch(() => {})
  }

  /** Kills the server if it runs, and starts it again on the same port and files. */
  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  /** Stops all processes (SIGSTOP): connections stay open and get no answer. */
  pause(): void {
    const child = this.#running()
    // The postmaster first, so that it starts no more processes.
    child.signal('SIGSTOP')
    for (let looks = 1; ; looks++) {
      const others = childrenOf(child.pid).filter(({ isStopped }) => !isStopped)
      if (others.length === 0 && looks > 1) break
      if (looks > STOPPING_LOOKS_MAX) throw new Error('processes of postgres did not stop')
      for (const other of others) signalTo(other.pid, 'SIGSTOP')
    }
    this.#pauseGuard?.kill('SIGKILL')
    this.#pauseGuard = guard(PAUSE_GUARD, this.pids.map(String))
  }

  resume(): void {
    const child = this.#running()
    for (const { pid } of childrenOf(child.pid)) signalTo(pid, 'SIGCONT')
    child.signal('SIGCONT')
    this.#pauseGuard?.kill('SIGKILL')
  }

  /** Ends the server and removes its folder. */
  async stop(): Promise<void> {
    const child = this.#child
    if (child?.isRunning() === true) {
      this.resume()
      const { pids } = this
      const waiting = new AbortController()
      // An immediate shutdown, which removes the shared memory segment; SIGKILL would not.
      const ended = child.end('SIGQUIT').finally(() => waiting.abort())
      await sleep(STOP_WITHIN_MS, undefined, { signal: waiting.signal }).catch(() => {})
      await this.kill()
      await ended
      this.#endGuards()
      while (areAlive(pids)) await sleep(LOOK_EVERY_MS)
    }
    await rm(this.folder, { recursive: true, force: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  /** Returns the last lines of the log. */
  async logTail(): Promise<string> {
    const log = await readFile(this.#log, 'utf8').catch(() => '')
    return log.trimEnd().split('\n').slice(-LOG_TAIL_LINES).join('\n')
  }

  /** Options for a language's collation, as most databases have it: 'a' before 'B', and '-' hardly counts. */
  async #databaseOptions(): Promise<string> {
    const [row] = await this.query<{ version: number }>(
      "SELECT current_setting('server_version_num')::int AS version",
    )
    return row!.version >= VERSION_WITH_ICU ? "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'" : ''
  }

  /** The id of the segment by which a postmaster detects another one. A system has room for some thousands of segments. */
  async #sharedMemory(): Promise<string | undefined> {
    const lines = (await readFile(join(this.#data, 'postmaster.pid'), 'utf8').catch(() => '')).split('\n')
    return lines[6]?.trim().split(/\s+/)[1]
  }

  #endGuards(): void {
    this.#pauseGuard?.kill('SIGKILL')
    this.#memoryGuard?.kill('SIGKILL')
  }

  #running(): GuardedChild {
    if (this.#child?.isRunning() !== true) throw new Error('this postgres is not running')
    return this.#child
  }
}

/** Runs a script when this process has ended, however it ended, unless the guard is killed before. */
function guard(script: string, args: readonly string[]): ChildProcess {
  const child = spawn('/bin/sh', ['-c', script, 'tocsin-guard', ...args], {
    stdio: ['pipe', 'ignore', 'ignore'],
    detached: true,
  })
  child.unref()
  return child
}
