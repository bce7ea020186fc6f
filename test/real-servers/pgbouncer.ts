/**
 * A real PgBouncer in front of a PostgreSQL, in transaction mode: a server connection belongs to a client only during a
 * transaction, so that session state is lost between transactions.
 */
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './free-port.ts'
import { type GuardedChild, spawnGuarded } from './guarded-child.ts'
import { type PostgresServer, programPath, sql } from './postgres-server.ts'
import { handOver, unprivileged, unprivilegedTmpdir } from './unprivileged.ts'

const HOST = '127.0.0.1'
const USER = 'postgres'
const READY_WITHIN_MS = 15_000
const LOOK_EVERY_MS = 10
const PORTS_TRIED_MAX = 10
/** Less than the connections of a busy process, so that its clients share server connections. */
const POOL_SIZE = 4

/** Starts a PgBouncer and waits until it answers. The caller stops it: `stop()`, or `await using`. */
export async function startPgBouncer(server: PostgresServer): Promise<PgBouncer> {
  const program = await programPath('pgbouncer')
  const folder = await mkdtemp(join(unprivilegedTmpdir(), 'tocsin-pgbouncer-'))
  try {
    for (let tries = 1; ; tries++) {
      const port = await freePort()
      await writeFile(join(folder, 'users'), `"${USER}" ""\n`)
      await writeFile(join(folder, 'pgbouncer.ini'), configText(server, folder, port))
      await handOver(folder)
      const child = await startIn(folder, program)
      if (await answers(child, port)) return new PgBouncer(folder, child, port)
      await child.end('SIGKILL')
      const log = await readFile(join(folder, 'log'), 'utf8')
      if (!log.includes('Address already in use') || tries === PORTS_TRIED_MAX)
        throw new Error(`pgbouncer did not start. Its log:\n${log}`)
    }
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  }
}

async function startIn(folder: string, program: string): Promise<GuardedChild> {
  const output = await open(join(folder, 'log'), 'w')
  try {
    const stdio = ['ignore' as const, output.fd, output.fd]
    return await spawnGuarded(...unprivileged(program, ['pgbouncer.ini']), { folder, stdio })
  } finally {
    await output.close()
  }
}

async function answers(child: GuardedChild, port: number): Promise<boolean> {
  const deadline = performance.now() + READY_WITHIN_MS
  while (child.isRunning() && performance.now() < deadline) {
    const isReady = await sql(`postgres://${USER}@${HOST}:${port}/postgres`, 'SELECT').then(
      () => true,
      () => false,
    )
    if (isReady) return child.isRunning()
    await sleep(LOOK_EVERY_MS)
  }
  return false
}

function configText(server: PostgresServer, folder: string, port: number): string {
  return [
    '[databases]',
    `* = host=${server.host} port=${server.port}`,
    '[pgbouncer]',
    `listen_addr = ${HOST}`,
    `listen_port = ${port}`,
    'unix_socket_dir =',
    'auth_type = trust',
    `auth_file = ${join(folder, 'users')}`,
    'pool_mode = transaction',
    `default_pool_size = ${POOL_SIZE}`,
    'max_client_conn = 500',
    '',
  ].join('\n')
}

export class PgBouncer implements AsyncDisposable {
  readonly host = HOST
  readonly port: number
  readonly poolSize = POOL_SIZE
  readonly #folder: string
  readonly #child: GuardedChild

  constructor(folder: string, child: GuardedChild, port: number) {
    this.#folder = folder
    this.#child = child
    this.port = port
  }

  get pid(): number {
    return this.#child.pid
  }

  /** Rewrites the address of a database so that it leads through this PgBouncer. */
  url(base: string): string {
    const url = new URL(base)
    url.hostname = HOST
    url.port = String(this.port)
    return url.href
  }

  async stop(): Promise<void> {
    await this.#child.end('SIGKILL')
    await rm(this.#folder, { recursive: true, force: true })
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }
}
