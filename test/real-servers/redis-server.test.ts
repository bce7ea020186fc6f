import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { connect as connectTls } from 'node:tls'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { plant, readOurs, run } from '../house/planted.ts'
import { freeClusterPort, freePort } from './free-port.ts'
import { type RedisServer, startRedis, startReplica } from './redis-server.ts'
import { ask, converse, encode, readAll } from './resp.ts'

const SOON_MS = 5_000
const UNANSWERED_MS = 200

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Asks over the port, as a client would. */
const overPort = ({ host, port }: { host: string; port: number }, words: string[], withinMs = SOON_MS) =>
  ask({ host, port }, [words], withinMs).then(([reply]) => reply)

describe('a server for a file of tests', () => {
  let redis: RedisServer

  beforeAll(async () => {
    redis = await startRedis()
  })
  afterAll(() => redis.stop())

  test('answers on its port, on its Unix socket, and to cli', async () => {
    expect(redis.url).toBe(`redis://127.0.0.1:${redis.port}`)
    expect(await overPort(redis, ['PING'])).toBe('PONG')
    expect(await ask({ path: redis.socket }, [['PING']], SOON_MS)).toEqual(['PONG'])
    expect(await redis.cli('PING')).toBe('PONG')
  })

  test('is the process that it says it is, and holds nothing at first', async () => {
    expect(await redis.cli('INFO', 'server')).toContain(`process_id:${redis.pid}\r\n`)
    expect(await redis.cli('DBSIZE')).toBe('0')
  })

  test('keeps nothing on disk and throws nothing out', async () => {
    expect(await redis.ask('CONFIG', 'GET', 'save')).toEqual(['save', ''])
    expect(await redis.ask('CONFIG', 'GET', 'appendonly')).toEqual(['appendonly', 'no'])
    expect(await redis.ask('CONFIG', 'GET', 'maxmemory-policy')).toEqual(['maxmemory-policy', 'noeviction'])
    expect(await redis.ask('CONFIG', 'GET', 'bind')).toEqual(['bind', '127.0.0.1'])
  })

  test('replies of every shape come back, and errors are thrown', async () => {
    expect(await redis.ask('GET', 'nothing')).toBeNull()
    expect(await redis.cli('GET', 'nothing')).toBe('')
    expect(await redis.ask('INCR', 'number')).toBe(1)
    expect(await redis.ask('EVAL', "return {1, 'ä\\r\\n', {'in', {}}, false}", '0')).toEqual([
      1,
      'ä\r\n',
      ['in', []],
      null,
    ])
    expect(await redis.cli('EVAL', "return {1, 'two', {3}}", '0')).toBe('1\ntwo\n3')
    await expect(redis.cli('NOSUCH')).rejects.toThrow('ERR unknown command')
    const large = 'x'.repeat(3_000_000)
    expect(await redis.cli('SET', 'large', large)).toBe('OK')
    expect(await redis.cli('GET', 'large')).toBe(large)
  })

  test('paused, it keeps connections and does not answer; resumed, it answers', async () => {
    redis.pause()
    await expect(overPort(redis, ['PING'], UNANSWERED_MS)).rejects.toThrow('no answer to PING')
    const asked = overPort(redis, ['PING'])
    redis.resume()
    expect(await asked).toBe('PONG')
  })
})

test('what was written to an append-only file survives a kill and a restart', async () => {
  await using redis = await startRedis({ config: { appendonly: 'yes', appendfsync: 'always' } })
  await redis.cli('SET', 'kept', 'yes')
  const { pid, port, folder } = redis
  await redis.kill()
  expect(isAlive(pid)).toBe(false)
  expect(() => redis.pid).toThrow('not running')
  await expect(overPort(redis, ['PING'])).rejects.toThrow('ECONNREFUSED')
  await redis.restart()
  expect(redis.pid).not.toBe(pid)
  expect([redis.port, redis.folder]).toEqual([port, folder])
  expect(await redis.cli('GET', 'kept')).toBe('yes')
  expect(await redis.cli('CONFIG', 'GET', 'appendfsync')).toBe('appendfsync\nalways')
})

test('a restart kills what runs, and without a file everything is forgotten', async () => {
  await using redis = await startRedis()
  await redis.cli('SET', 'kept', 'no')
  const { pid } = redis
  await redis.restart()
  expect(isAlive(pid)).toBe(false)
  expect(await redis.cli('DBSIZE')).toBe('0')
})

test('a paused server can be ended politely, killed and stopped', async () => {
  await using redis = await startRedis()
  redis.pause()
  await redis.kill('SIGTERM')
  await redis.restart()
  redis.pause()
  const { pid } = redis
  await redis.stop()
  expect(isAlive(pid)).toBe(false)
  expect(existsSync(redis.folder)).toBe(false)
  await redis.stop() // a second time is nothing
})

test('a file that takes long to load is waited for', async () => {
  const config = {
    appendonly: 'yes',
    'enable-debug-command': 'yes',
    'key-load-delay': '300', // microseconds
    // So often it looks up from loading, and says that it is.
    'loading-process-events-interval-bytes': '1024',
  }
  await using redis = await startRedis({ config })
  await redis.cli('DEBUG', 'POPULATE', '2000')
  await redis.cli('BGREWRITEAOF')
  await vi.waitFor(async () =>
    expect(await redis.cli('INFO', 'persistence')).toMatch(
      /aof_rewrite_in_progress:0[^]*aof_last_bgrewrite_status:ok/,
    ),
  )
  await redis.restart()
  expect(await redis.cli('DBSIZE')).toBe('2000')
})

test('TLS: its certificate is good for localhost and for 127.0.0.1, by its own authority only', async () => {
  await using redis = await startRedis({ tls: true })
  const url = new URL(redis.tlsUrl!)
  expect(url.protocol).toBe('rediss:')
  const ping = (options: object) =>
    converse(connectTls({ port: Number(url.port), ...options }), [['PING']], SOON_MS)
  expect(await ping({ host: 'localhost', ca: redis.ca })).toEqual(['PONG'])
  expect(await ping({ host: '127.0.0.1', ca: redis.ca })).toEqual(['PONG'])
  await expect(ping({ host: 'localhost' })).rejects.toThrow('self-signed certificate')
  await expect(ping({ host: '127.0.0.1', ca: redis.ca, servername: 'elsewhere' })).rejects.toThrow(
    'does not match',
  )
  expect(await overPort(redis, ['PING']), 'also without TLS').toBe('PONG')
})

test('a replica has what its primary has, gets what comes, and takes no writes', async () => {
  await using primary = await startRedis()
  await primary.cli('SET', 'before', '1')
  await using replica = await startReplica(primary)
  expect(await replica.cli('GET', 'before')).toBe('1')
  await primary.cli('SET', 'after', '2')
  // WAIT would not do: it waits for the writes of its own connection, and each call here has a new one.
  await expect.poll(() => replica.cli('GET', 'after'), { timeout: SOON_MS }).toBe('2')
  await expect(replica.cli('SET', 'mine', '3')).rejects.toThrow('READONLY')
})

test('with a password cli logs in, and a stranger does not', async () => {
  await using redis = await startRedis({ config: { requirepass: 'sesame' } })
  expect(await redis.cli('PING')).toBe('PONG')
  expect(await overPort(redis, ['PING'])).toEqual(new Error('NOAUTH Authentication required.'))
})

test('many at once get ports and folders of their own', async () => {
  const all = await Promise.all(Array.from({ length: 8 }, () => startRedis()))
  expect(new Set(all.map(({ port }) => port)).size).toBe(8)
  await Promise.all(all.map((redis) => redis.cli('SET', 'port', String(redis.port))))
  for (const redis of all) expect(await overPort(redis, ['GET', 'port'])).toBe(String(redis.port))
  await Promise.all(all.map((redis) => redis.stop()))
})

test('a configuration that Redis refuses is quoted, and leaves nothing behind', async () => {
  await expect(startRedis({ config: { 'no-such-setting': 'yes' } })).rejects.toThrow(
    /redis-server ended at its start\. Its log:[^]*no-such-setting/,
  )
})

test('a port that is taken ends the start instead of being taken for its own', async () => {
  await using first = await startRedis()
  await expect(startRedis({ config: { port: String(first.port) } })).rejects.toThrow('Address already in use')
})

test('another server is used if TOCSIN_REDIS_SERVER names it', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-valkey-'))
  onTestFinished(() => {
    vi.unstubAllEnvs()
    rmSync(folder, { recursive: true })
  })
  const path = join(folder, 'valkey-server')
  const given = process.env['TOCSIN_REDIS_SERVER'] ?? ''
  const real = given === '' ? 'redis-server' : resolve(given)
  writeFileSync(path, `#!/bin/sh\necho "$@" > "${folder}/called"\nexec "${real}" "$@"\n`)
  vi.stubEnv('TOCSIN_REDIS_SERVER', path)
  await expect(startRedis(), 'not executable').rejects.toThrow(`${path} did not start. Is it there?`)
  chmodSync(path, 0o755)
  await using redis = await startRedis()
  expect(readFileSync(join(folder, 'called'), 'utf8')).toBe('redis.conf\n')
  expect(await redis.cli('INFO', 'server')).toContain(`process_id:${redis.pid}\r\n`)
})

test('free ports lie below those of outgoing connections', async () => {
  for (const port of await Promise.all(Array.from({ length: 20 }, freePort))) {
    expect(port).toBeGreaterThanOrEqual(15_000)
    expect(port).toBeLessThan(32_768)
  }
  for (const port of await Promise.all(Array.from({ length: 20 }, freeClusterPort)))
    expect(port + 10_000, 'and that of the cluster bus').toBeLessThan(32_768)
})

test('a reply is read whole however it is cut up', () => {
  const text = '+OK\r\n$5\r\na\r\nbc\r\n*2\r\n:7\r\n*-1\r\n-ERR no\r\n$-1\r\n'
  const bytes = Buffer.from(text)
  const whole = ['OK', 'a\r\nbc', [7, null], new Error('ERR no'), null]
  expect(readAll(bytes)).toEqual(whole)
  for (let cut = 0; cut < bytes.length; cut++) {
    const replies = readAll(bytes.subarray(0, cut))
    expect(replies).toEqual(whole.slice(0, replies.length))
    expect(replies.length).toBeLessThan(whole.length)
  }
  expect(encode(['SET', 'ä'])).toBe('*2\r\n$3\r\nSET\r\n$2\r\nä\r\n')
})

/** Files of tests that start a server and do not stop it, by how they end. */
const ENDINGS = {
  killed: "process.kill(process.pid, 'SIGKILL')",
  terminated: "process.kill(process.pid, 'SIGTERM')\nawait new Promise(() => {})",
  forgetful: '',
  'forgetful-paused': 'redis.pause()',
}

test(
  'a server does not outlive the process of its test, however that ends',
  { timeout: 60_000 },
  async () => {
    const names = Object.keys(ENDINGS)
    await using planted = await plant({
      ...(await readOurs('test/setup')),
      ...(await readOurs('test/real-servers')),
      ...Object.fromEntries(names.map((name) => [`test/ends/${name}.test.ts`, endingTest(name)])),
    })
    const args = ['run', 'test/ends', `--maxWorkers=${names.length}`]
    const { code, output } = await run('vitest/vitest.mjs', args, planted.dir)
    expect(code).not.toBe(0)
    expect(output, 'the leak check sees what is forgotten').toMatch(
      /still open at the end of the file: .*ProcessWrap/,
    )
    for (const name of names) {
      const started: unknown = JSON.parse(readFileSync(join(planted.dir, `${name}.json`), 'utf8'))
      const { pid, folder } = started as { pid: number; folder: string }
      await vi.waitFor(() => expect(isAlive(pid) || existsSync(folder), name).toBe(false), SOON_MS)
    }
  },
)

const endingTest = (name: string): string => `
  import { writeFileSync } from 'node:fs'
  import { test } from 'vitest'
  import { startRedis } from '../real-servers/redis-server.ts'
  test('ends', async () => {
    const redis = await startRedis()
    writeFileSync('${name}.json', JSON.stringify({ pid: redis.pid, folder: redis.folder }))
    ${ENDINGS[name as keyof typeof ENDINGS]}
  })`
