/** A PostgreSQL server of its own for each measurement: on a free port, in a temporary folder, as it comes. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, realpathSync, rmSync } from 'node:fs'
import { chown, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { find, NEEDED } from '../scripts/provision.mjs'
import { freePort } from './free-port.mjs'

/** The same for whoever is measured. Sorting text by bytes is what PostgreSQL does fastest; all settings are its own. */
const INITDB = ['--locale=C', '--encoding=UTF8']
export const SETTINGS_TEXT = `its own settings (fsync and synchronous_commit on, shared_buffers 128 MB), initdb ${INITDB.join(' ')}`

const USER = 'postgres'
const DATABASE = 'postgres'
const UP_WITHIN_MS = 30_000
const REMOVED = { recursive: true, force: true, maxRetries: 10, retryDelay: 50 }

/** Also its address, in which nothing else is. */
export async function startPostgres() {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-bench-postgres-'))
  const owner = await ownerOf(folder)
  const port = await freePort()
  try {
    // Nothing of an empty database is worth waiting for the disk.
    const args = ['-D', folder, '-U', USER, '--auth=trust', '--no-sync', ...INITDB]
    await promisify(execFile)(program('initdb'), args, owner)
  } catch (error) {
    await rm(folder, REMOVED)
    throw error
  }
  const settings = [`port=${port}`, 'listen_addresses=127.0.0.1', 'unix_socket_directories=']
  const args = ['-D', folder, ...settings.flatMap((setting) => ['-c', setting])]
  const server = spawn(program('postgres'), args, { ...owner, stdio: ['ignore', 'ignore', 'pipe'] })
  const ended = once(server, 'exit').catch(() => {})
  // Its processes end by themselves then, and without writing anything down.
  const quit = () => server.kill('SIGQUIT')
  const kill = () => {
    quit()
    rmSync(folder, REMOVED)
  }
  // Ctrl-C, or a measurement that threw: the server must not outlive us.
  process.once('exit', kill)
  const stop = async () => {
    process.off('exit', kill)
    quit()
    await ended
    await rm(folder, REMOVED)
  }
  const failure = await readiness(server)
  if (failure === undefined) return { url: `postgres://${USER}@127.0.0.1:${port}/${DATABASE}`, stop }
  await stop()
  throw failure
}

/** What it says of itself: '15.8'. */
export async function postgresVersion() {
  const { stdout } = await promisify(execFile)(program('postgres'), ['--version'])
  return /\d[\d.]*/.exec(stdout)?.[0]
}

/** As PostgreSQL does by itself a minute after many rows were written: who measures at once need not have luck. */
export async function tidy(url) {
  await promisify(execFile)(program('psql'), ['-X', '-q', '-c', 'VACUUM (ANALYZE)', url])
}

/** Undefined once it takes connections, an error when it does not. */
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
    // It was destroyed, because that took too long.
  } finally {
    clearTimeout(timer)
    // What else it says is not kept, but must be taken.
    server.stderr.resume()
  }
  return new Error(`postgres did not come up:\n${said}`)
}

/** It refuses to be run by root: then it runs as the user that its package has made, and has the folder. */
async function ownerOf(folder) {
  if (process.getuid?.() !== 0) return {}
  const line = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .find((any) => any.startsWith(`${USER}:`))
  if (line === undefined)
    throw new Error(`as root, a user '${USER}' is needed to run PostgreSQL, and there is none`)
  const [uid, gid] = line.split(':').slice(2, 4).map(Number)
  await chown(folder, uid, gid)
  // From wherever we were started, which may be nobody else's business.
  return { uid, gid, cwd: folder }
}

/** All from one folder: another version's initdb would be of no use. */
function program(name) {
  const postgres = find(NEEDED.find((row) => row.program === 'postgres'))
  if (postgres === undefined) throw new Error('there is no PostgreSQL on this machine')
  return join(dirname(realpathSync(postgres)), name)
}
