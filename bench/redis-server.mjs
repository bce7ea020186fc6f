/** Starts a Redis server for one measurement: on a free port, in a temporary folder, without persistence. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { find, NEEDED } from '../scripts/provision.mjs'
import { freePort } from './free-port.mjs'

/** The same for all contenders; all other settings are the defaults. */
const SETTINGS = ['--save', '', '--appendonly', 'no']
export const SETTINGS_TEXT = SETTINGS.map((word) => word || '""').join(' ')

const UP_WITHIN_MS = 10_000

export async function startRedis() {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-bench-redis-'))
  const port = await freePort()
  const args = ['--bind', '127.0.0.1', '--port', String(port), '--dir', folder, ...SETTINGS]
  const server = spawn(program(), args, { stdio: 'ignore' })
  const ended = once(server, 'exit').then(
    () => new Error('redis-server ended before it was up'),
    (error) => error,
  )
  const kill = () => {
    server.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  // After Ctrl-C, or a measurement that threw: the server must not outlive this process.
  process.once('exit', kill)
  const stop = async () => {
    process.off('exit', kill)
    server.kill('SIGKILL')
    await ended
    await rm(folder, { recursive: true, force: true })
  }
  const failure = await Promise.race([ended, isUp(port)])
  if (failure === undefined) return { port, process: { name: 'Redis', pid: server.pid }, stop }
  await stop()
  throw failure
}

/** The server that TOCSIN_REDIS_SERVER names, or the redis-server on PATH. */
function program() {
  const path = find(NEEDED.find((row) => row.program === 'redis-server'))
  if (path === undefined) throw new Error('redis-server is not there. Run: node scripts/provision.mjs')
  return path
}

/** Returns the version. Valkey says in `redis_version` which Redis it is compatible with. */
export async function redisVersion(port) {
  const info = await redisInfo(port)
  return info.valkey_version === undefined ? info.redis_version : `${info.valkey_version} (Valkey)`
}

/** The fields of INFO, by name, as text. */
async function redisInfo(port) {
  const answer = await ask(port, 'INFO')
  return Object.fromEntries(
    answer
      .split('\r\n')
      .filter((line) => line.includes(':') && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]),
  )
}

/**
 * Returns the memory of the data, once it is stable: Redis frees buffers of connections and old hash tables in the
 * background, a little later than the last command.
 */
export async function restingBytes(port) {
  const STEADY_LOOKS = 5
  for (let looks = 0, steady = 0, before = Number.NaN; looks < 60; looks++) {
    await sleep(500)
    const info = await redisInfo(port)
    const bytes = Number(info.used_memory) - Number(info.mem_clients_normal)
    steady = Math.abs(bytes - before) < 16_384 ? steady + 1 : 0
    if (steady === STEADY_LOOKS) return bytes
    before = bytes
  }
  throw new Error('the memory of Redis did not come to rest within 30 s')
}

/** Returns undefined if the server answers, else an error. */
async function isUp(port) {
  for (const startedMs = performance.now(); performance.now() - startedMs < UP_WITHIN_MS; await sleep(20)) {
    const answer = await ask(port, 'PING').catch(() => '')
    if (answer.startsWith('+PONG')) return undefined
  }
  return new Error(`redis-server did not answer within ${UP_WITHIN_MS} ms`)
}

/** Sends one inline command on its own connection. Returns the whole reply as text. */
async function ask(port, command) {
  const socket = connect(port, '127.0.0.1')
  await once(socket, 'connect')
  socket.setEncoding('utf8').write(`${command}\r\nQUIT\r\n`)
  let answer = ''
  for await (const text of socket) answer += text
  return answer
}
