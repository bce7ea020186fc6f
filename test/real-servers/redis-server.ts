/**
 * A real Redis for one test: a free port of 127.0.0.1, an empty temporary folder. It can be killed, restarted on its files,
 * and paused.
 */
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Certificates, copyCertificates, makeCertificates } from './certificates.ts'
import { freePort } from './free-port.ts'
import { type GuardedChild, spawnGuarded } from './guarded-child.ts'
import { ask, type Reply } from './resp.ts'

const HOST = '127.0.0.1'
const SOCKET = 'redis.sock'
const LOG = 'redis.log'
const READY_WITHIN_MS = 15_000
const ANSWER_WITHIN_MS = 15_000
const LOOK_EVERY_MS = 5
const PORTS_TRIED_MAX = 10
const LOG_TAIL_LINES = 60

export type RedisOptions = {
  /** Lines of redis.conf, as Redis reads them: `{ appendonly: 'yes' }`. They override the defaults below. */
  config?: Record<string, string>
  /** Also listen on a port with TLS: with a new certificate for localhost and 127.0.0.1, or with that of another server. */
  tls?: boolean | Certificates
  /** Variables of its environment, in addition to those of this process. */
  env?: Readonly<Record<string, string>>
  /** Picks each of its ports. By default any free port will do. */
  pickPort?: () => Promise<number>
  /** Start it as a Sentinel. It writes what it learns into its configuration, and a restart forgets that. */
  isSentinel?: boolean
}

/** Starts a Redis and waits until it answers. The caller stops it: `stop()`, or `await using`. */
export async function startRedis(options: RedisOptions = {}): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-redis-'))
  const pickPort = options.pickPort ?? freePort
  try {
    const certificates = await certificatesIn(folder, options.tls ?? false)
    for (let tries = 1; ; tries++) {
      const server = new RedisServer(
        folder,
        options.config ?? {},
        options.env ?? {},
        await pickPort(),
        certificates,
        await pickPort(),
        options.isSentinel === true,
      )
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

async function certificatesIn(
  folder: string,
  tls: boolean | Certificates,
): Promise<Certificates | undefined> {
  if (typeof tls === 'object') return await copyCertificates(tls, folder)
  return tls ? await makeCertificates(folder) : undefined
}

/** Starts a read-only replica of `primary` and waits until it has caught up. */
export async function startReplica(primary: RedisServer, options: RedisOptions = {}): Promise<RedisServer> {
  const replicaof = `${primary.host} ${primary.port}`
  const replica = await startRedis({ ...options, config: { replicaof, ...options.config } })
  const deadline = performance.now() + READY_WITHIN_MS
  while (!(await replica.cli('INFO', 'replication')).includes('master_link_status:up')) {
    if (performance.now() > deadline) {
      const log = await replica.logTail()
      await replica.stop()
      throw new Error(`the replica had no link to its primary within ${READY_WITHIN_MS} ms:\n${log}`)
    }
    await sleep(LOOK_EVERY_MS)
  }
  return replica
}

class PortTaken extends Error {}

/** The program to start: that of the variable, such as a valkey-server, or the redis-server on PATH. */
function program(): string {
  const path = process.env['TOCSIN_REDIS_SERVER'] ?? ''
  return path === '' ? 'redis-server' : resolve(path)
}

export class RedisServer implements AsyncDisposable {
  readonly host = HOST
  readonly port: number
  readonly url: string
  readonly folder: string
  /** The path of its Unix socket. */
  readonly socket: string
  /** With `tls: true`: the address with TLS, and the certificate to trust, as PEM. */
  readonly tlsUrl: string | undefined
  readonly ca: string | undefined
  readonly certificates: Certificates | undefined

  readonly #config: Record<string, string>
  readonly #env: Readonly<Record<string, string>>
  readonly #log: string
  readonly #isSentinel: boolean
  #child: GuardedChild | undefined
  #isPaused = false

  constructor(
    folder: string,
    config: Record<string, string>,
    env: Readonly<Record<string, string>>,
    port: number,
    certificates: Certificates | undefined,
    tlsPort: number,
    isSentinel: boolean,
  ) {
    this.#isSentinel = isSentinel
    this.folder = folder
    this.port = port
    this.url = `redis://${HOST}:${port}`
    this.socket = join(folder, SOCKET)
    this.ca = certificates?.ca
    this.certificates = certificates
    this.tlsUrl = certificates === undefined ? undefined : `rediss://localhost:${tlsPort}`
    this.#log = join(folder, LOG)
    this.#env = env
    this.#config = {
      bind: HOST,
      port: String(port),
      // Relative to the folder, in which Redis is started: in redis.conf a path with a space would end at the space.
      unixsocket: SOCKET,
      dir: '.',
      logfile: LOG,
      loglevel: 'warning',
      daemonize: 'no',
      save: '',
      appendonly: 'no',
      'maxmemory-policy': 'noeviction',
      // By default Redis delays the first replica for five seconds, in case a second one follows.
      'repl-diskless-sync-delay': '0',
      ...(certificates === undefined ? {} : tlsConfig(certificates, tlsPort)),
      ...config,
    }
  }

  /** The pid of the running process. It changes with a restart. */
  get pid(): number {
    return this.#running().pid
  }

  /** False while the server is killed or paused. */
  get isUp(): boolean {
    return this.#child?.isRunning() === true && !this.#isPaused
  }

  /** Starts the server if it is not running, and waits until it answers. `startRedis` has called this. */
  async start(): Promise<void> {
    if (this.#child?.isRunning() === true) return
    const deadline = performance.now() + READY_WITHIN_MS
    await writeFile(join(this.folder, 'redis.conf'), configText(this.#config))
    // A new log for each start, so that errors found in it belong to this start.
    await rm(this.#log, { force: true })
    const output = await open(this.#log, 'a')
    try {
      const stdio = ['ignore' as const, output.fd, output.fd]
      const mode = this.#isSentinel ? ['--sentinel'] : []
      this.#child = await spawnGuarded(program(), ['redis.conf', ...mode], {
        folder: this.folder,
        stdio,
        env: this.#env,
      })
    } catch (error) {
      throw new Error(`${program()} did not start. Is it there? node scripts/provision.mjs`, { cause: error })
    } finally {
      await output.close()
    }
    await this.#untilReady(this.#child, deadline)
  }

  /**
   * Asks over the Unix socket in the server's folder: on the port another server might answer. Redis opens the socket
   * last, so that its ports are open, too.
   */
  async #untilReady(child: GuardedChild, deadline: number): Promise<void> {
    for (;;) {
      const leftMs = Math.max(1, deadline - performance.now())
      const [reply] = await ask({ path: this.socket }, [['PING']], leftMs).catch(() => [])
      const isLoading = reply instanceof Error && reply.message.startsWith('LOADING')
      // Any other answer means that the server is ready: with a password set, PING answers with an error.
      if (reply !== undefined && !isLoading) return
      if (!child.isRunning() || performance.now() > deadline) break
      await sleep(LOOK_EVERY_MS)
    }
    const hasEnded = !child.isRunning()
    await child.end('SIGKILL')
    const log = await this.logTail()
    if (log.includes('Address already in use')) throw new PortTaken(log)
    const what = hasEnded ? 'ended at its start' : `did not answer within ${READY_WITHIN_MS} ms`
    throw new Error(`redis-server ${what}. Its log:\n${log}`)
  }

  /** Sends one command and returns its reply as text, as redis-cli prints it into a pipe: one line per item of an array. */
  async cli(...words: string[]): Promise<string> {
    return asText(await this.ask(...words))
  }

  /** Sends one command and returns its reply. Throws if the reply is an error. */
  async ask(...words: string[]): Promise<Exclude<Reply, Error>> {
    const password = this.#config['requirepass']
    const login = password === undefined ? [] : [['AUTH', password]]
    const reply = (await ask({ path: this.socket }, [...login, words], ANSWER_WITHIN_MS)).at(-1)!
    if (reply instanceof Error) throw reply
    return reply
  }

  /** Ends the process, by default with SIGKILL, and waits until it has ended. Its files stay. */
  async kill(signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    await this.#child?.end(signal)
    this.#isPaused = false
  }

  /** Kills the server if it runs, and starts it again on the same port and files. */
  async restart(): Promise<void> {
    await this.kill()
    await this.start()
  }

  /** Stops the process (SIGSTOP): connections stay open and get no answer. */
  pause(): void {
    this.#running().signal('SIGSTOP')
    this.#isPaused = true
  }

  resume(): void {
    this.#running().signal('SIGCONT')
    this.#isPaused = false
  }

  /** Ends the server and removes its folder. */
  async stop(): Promise<void> {
    await this.kill()
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

  #running(): GuardedChild {
    if (this.#child?.isRunning() !== true) throw new Error('this redis-server is not running')
    return this.#child
  }
}

function tlsConfig({ caFile, certificateFile, keyFile }: Certificates, port: number): Record<string, string> {
  return {
    'tls-port': String(port),
    'tls-ca-cert-file': basename(caFile),
    'tls-cert-file': basename(certificateFile),
    'tls-key-file': basename(keyFile),
    'tls-auth-clients': 'no',
  }
}

function configText(config: Record<string, string>): string {
  return Object.entries(config)
    .map(([name, value]) => `${name} ${value === '' ? '""' : value}\n`)
    .join('')
}

function asText(reply: Reply): string {
  if (Array.isArray(reply)) return reply.map(asText).join('\n')
  if (reply instanceof Error) return reply.message
  return reply === null ? '' : String(reply)
}
