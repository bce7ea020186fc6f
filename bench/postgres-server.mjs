/** Starts a PostgreSQL server for one measurement: on a free port, in a temporary folder, with default settings. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, realpathSync, rmSync } from 'node:fs'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { find, NEEDED } from '../scripts/provision.mjs'
import { freePort } from './free-port.mjs'

/** The same for all contenders: default settings, and the locale C, with which text sorts fastest. */
const INITDB = ['--locale=C', '--encoding=UTF8']
export const SETTINGS_TEXT = `its own settings (fsync and synchronous_commit on, shared_buffers 128 MB), initdb ${INITDB.join(' ')}`

const USER = 'postgres'
const DATABASE = 'postgres'
const WARM_UP_DATABASE = 'warm_up'
const UP_WITHIN_MS = 30_000
const REMOVED = { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }

/** Also its address, another for the warm-up, and its process. Nothing is in its databases. */
export async function startPostgres() {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-bench-postgres-'))
  const port = await freePort()
  try {
    await copied((template ??= await newCluster()), folder)
  } catch (error) {
    await rm(folder, REMOVED)
    throw error
  }
  const owner = await ownerOf(folder)
  const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=']
  const args = ['-D', folder, ...settings.flatMap((setting) => ['-c', setting])]
  const server = spawn(program('postgres'), args, { ...owner, stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = once(server, 'exit').catch(() => {})
  // Its processes end at once, without a checkpoint.
  const quit = () => server.kill('SIGQUIT')
  const kill = () => {
    quit()
    rmSync(folder, REMOVED)
  }
  // After Ctrl-C, or a measurement that threw: the server must not outlive this process.
  process.once('exit', kill)
  const stop = async () => {
    process.off('exit', kill)
    quit()
    await ended
    await rm(folder, REMOVED)
  }
  const failure = await readiness(server)
  if (failure === undefined) {
    const url = (database) => `postgres://${USER}@127.0.0.1:${port}/${database}`
    const postmaster = { name: 'PostgreSQL', pid: server.pid, hasChildren: true }
    return { url: url(DATABASE), warmUpUrl: url(WARM_UP_DATABASE), process: postmaster, stop }
  }
  await stop()
  throw failure
}

/** The data folder that servers start with: initdb takes two seconds, a copy of its result a tenth. */
let template

async function newCluster() {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-bench-postgres-new-'))
  process.once('exit', () => rmSync(folder, REMOVED))
  const owner = await ownerOf(folder)
  // An empty database need not be synced.
  const args = ['-D', folder, '-U', USER, '--auth=trust', '--no-sync', ...INITDB]
  await promisify(execFile)(program('initdb'), args, owner)
  const single = spawn(program('postgres'), ['--single', '-D', folder, DATABASE], {
    ...owner,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  single.stdin.end(`CREATE DATABASE ${WARM_UP_DATABASE};\n`)
  const [code] = await once(single, 'exit')
  if (code !== 0) throw new Error(`postgres --single ended with ${code}`)
  return folder
}

/** With its owner and permissions, which PostgreSQL insists on. */
const copied = (from, to) => promisify(execFile)('cp', ['-a', `${from}/.`, to])

/** Returns the version of the server: '15.8'. */
export async function postgresVersion() {
  const { stdout } = await promisify(execFile)(program('postgres'), ['--version'])
  return /\d[\d.]*/.exec(stdout)?.[0]
}

/** What autovacuum does a minute after many rows were written. Done here, so that it cannot fall into a measurement. */
export async function tidy(url) {
  await promisify(execFile)(program('psql'), ['-X', '-q', '-c', 'VACUUM (ANALYZE)', url])
}

/** Returns undefined if the server accepts connections, else an error. */
async function readiness(server) {
  const timer = setTimeout(() => server.stderr.destroy(), UP_WITHIN_MS)
  let said = ''
  try {
    server.stderr.setEncoding('utf8')
    for await (const text of server.stderr.iterator({ destroyOnReturn: false })) {
      said += text
      if (said.includes('ready to accept connections')) return undefined
    }
  } catch {
    // The socket was destroyed after a timeout.
  } finally {
    clearTimeout(timer)
    // Its other output is discarded, but has to be read.
    server.stderr.resume()
  }
  return new Error(`postgres did not come up:\n${said}`)
}

/** PostgreSQL refuses to run as root: then it runs as the user `postgres`, which owns the folder. */
async function ownerOf(folder) {
  if (process.getuid?.() !== 0) return {}
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((any) => any.startsWith(`${USER}:`))
  if (line === undefined)
    throw new Error(`as root, a user '${USER}' is needed to run PostgreSQL, and there is none`)
  const [uid, gid] = line.split(':').slice(2, 4).map(Number)
  await chown(folder, uid, gid)
  // The current directory may be unreadable for that user.
  return { uid, gid, cwd: folder }
}

/** Takes all programs from one folder, so that their versions match. */
function program(name) {
  const postgres = find(NEEDED.find((row) => row.program === 'postgres'))
  if (postgres === undefined) throw new Error('there is no PostgreSQL on this machine')
  return join(dirname(realpathSync(postgres)), name)
}
