/** Redis behind Sentinel: a primary, two replicas and three Sentinels, all real processes. */
import { inspect } from 'node:util'
import { Tocsin, TocsinError } from 'tocsin'
import { redis } from 'tocsin/redis'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../real-servers/free-port.ts'
import { type RedisSentinels, startSentinels } from '../../real-servers/redis-sentinel.ts'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { Log } from '../../runtime/log.ts'
import { openAlone } from '../alone.ts'
import { eventually, failureOf, scriptCalls, timed } from '../helpers.ts'
import { startNamingSentinel } from './strange-servers.ts'

const PASSWORD = 'canary-redis'
const SENTINEL_PASSWORD = 'canary-sentinel'
const CALL_TIMEOUT_MS = 2_000

let all: RedisSentinels
beforeAll(async () => {
  all = await startSentinels({
    password: PASSWORD,
    sentinelPassword: SENTINEL_PASSWORD,
    // As docs/redis.md has it, and one that may do even less.
    sentinelConfig: {
      user: `tocsin on >${SENTINEL_PASSWORD} resetchannels &+switch-master &+promoted-slave +@connection +subscribe +sentinel|get-master-addr-by-name +sentinel|master`,
    },
  })
})
afterAll(() => all.stop())
afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') console.log(await all.logTails())
})

interface UrlParts {
  readonly login?: string
  readonly hosts?: string
  readonly name?: string
  readonly query?: string
}

function urlOf({ login = `:${PASSWORD}@`, hosts = all.hosts, name = 'mymaster', query }: UrlParts = {}) {
  return `redis+sentinel://${login}${hosts}/${name}${query ?? `?sentinelPassword=${SENTINEL_PASSWORD}`}`
}

type Options = NonNullable<Parameters<typeof Tocsin.open>[0]>

const open = (options: Options = {}) =>
  Tocsin.open({ timetable: urlOf(), callTimeout: CALL_TIMEOUT_MS, logger: false, ...options })

const schedule = (toc: Tocsin, key: string) =>
  toc.topic<null>('t').schedule({ key, delay: '1h', payload: null })

/** The connections that a Redis has from Tocsin. */
async function connectionsTo(server: RedisServer): Promise<string[]> {
  const lines = (await server.cli('CLIENT', 'LIST')).split('\n')
  return lines.filter((line) => / addr=127\.0\.0\.1.* name= .* flags=[NP]/.test(line))
}

/** How often Tocsin has connected: its first and its last step is HELLO, which neither replicas nor Sentinels send. */
async function hellosTo(server: RedisServer): Promise<number> {
  const stats = await server.cli('INFO', 'commandstats')
  return Number(/cmdstat_hello:calls=(\d+)/.exec(stats)?.[1] ?? 0)
}

/** The error of opening. It contains no password, whatever went wrong. */
async function refusal(timetable: Options['timetable']): Promise<TocsinError> {
  const error = await failureOf(open({ timetable }))
  expect(inspect(error, { depth: 10, showHidden: true, maxStringLength: null })).not.toContain('canary')
  expect(TocsinError.is(error), String(error)).toBe(true)
  return error as TocsinError
}

describe('opening', () => {
  test('through the Sentinels that answer, if the first is down and the second frozen', async () => {
    const [frozen] = all.sentinels as [RedisServer]
    frozen.pause()
    try {
      const hosts = `127.0.0.1:${await freePort()},${all.hosts}`
      const { ms, answer: toc } = await timed(() => open({ timetable: urlOf({ hosts }) }))
      await using opened = toc!
      await schedule(opened, 'a')
      expect(ms).toBeLessThan(CALL_TIMEOUT_MS)
    } finally {
      frozen.resume()
    }
  })

  test('with options instead of a URL, and as a user with the rights of docs/redis.md', async () => {
    const sentinel = {
      nodes: all.sentinels.map(({ host, port }) => `${host}:${port}`),
      name: 'mymaster',
      username: 'tocsin',
      password: SENTINEL_PASSWORD,
    }
    await using toc = await open({ timetable: redis({ sentinel, password: PASSWORD, database: 2 }) })
    await schedule(toc, 'a')
    expect(await (await all.primary()).cli('INFO', 'keyspace')).toContain('db2:')
    // Also the right to subscribe is among those: polls alone would find a failover later.
    expect(await all.sentinels[0]!.cli('CLIENT', 'LIST')).toMatch(/ sub=2 .* user=tocsin /)
  })

  test('over TLS, to Redis and to the Sentinel', async () => {
    await using primary = await startRedis({ tls: true })
    const tlsPort = new URL(primary.tlsUrl!).port
    await using sentinel = await startRedis({
      tls: true,
      isSentinel: true,
      config: { 'tls-replication': 'yes', 'sentinel monitor': `mymaster 127.0.0.1 ${tlsPort} 1` },
    })
    const hosts = new URL(sentinel.tlsUrl!).host
    const timetable = urlOf({ login: '', hosts, query: '' }).replace('redis', 'rediss')
    expect(await refusal(timetable)).toMatchObject({
      code: 'timetable-refused',
      message: expect.stringMatching(/certificate of Sentinel at .* cannot be trusted/),
    })
    const [{ ca }, { ca: sentinelCa }] = [primary, sentinel]
    await using toc = await open({
      timetable: redis({ url: timetable, tls: { ca }, sentinel: { tls: { ca: sentinelCa } } }),
    })
    await schedule(toc, 'a')
  })
})

describe('what is wrong, where, and what to do', () => {
  const somewhere = () => `127.0.0.1:${all.sentinels[0]!.port}`

  test.each<[string, UrlParts, code: string, RegExp]>([
    [
      'no password of the Sentinels',
      { query: '' },
      'timetable-refused',
      /the Sentinel at 127.* requires a password.*\?sentinelPassword=/,
    ],
    [
      'a wrong one',
      { query: '?sentinelPassword=canary-wrong' },
      'timetable-refused',
      /the Sentinel at 127.* does not accept.* not those of Redis/,
    ],
    [
      'a wrong password of Redis',
      { login: ':canary-wrong@' },
      'timetable-refused',
      /at 127.*mymaster through Sentinel at .*Redis does not accept/,
    ],
    [
      'an unknown name',
      { name: 'other' },
      'timetable-refused',
      /knows no primary named 'other'.*sentinel monitor/,
    ],
  ])('%s', async (_, parts, code, message) => {
    expect(await refusal(urlOf(parts))).toMatchObject({ code, message: expect.stringMatching(message) })
  })

  test('no Sentinel is there', async () => {
    const ports = [await freePort(), await freePort()]
    const error = await refusal(urlOf({ hosts: ports.map((port) => `127.0.0.1:${port}`).join(',') }))
    expect(error).toMatchObject({ code: 'timetable-unavailable', retryable: true })
    for (const port of ports)
      expect(error.message).toContain(
        `nothing listens at 127.0.0.1:${port} (ECONNREFUSED); is Sentinel running`,
      )
  })

  test('a Redis instead of a Sentinel', async () => {
    await using plain = await startRedis()
    const error = await refusal(urlOf({ hosts: `127.0.0.1:${plain.port}`, query: '' }))
    expect(error).toMatchObject({ code: 'timetable-refused' })
    expect(error.message).toContain(`127.0.0.1:${plain.port} is a Redis, not a Sentinel`)
    expect(error.message).toContain(`redis://127.0.0.1:${plain.port}`)
  })

  test.each(['', '/1'])('a Sentinel instead of a Redis: redis://…%s', async (path) => {
    const error = await refusal(`redis://:${SENTINEL_PASSWORD}@${somewhere()}${path}`)
    expect(error).toMatchObject({ code: 'timetable-refused' })
    expect(error.message).toContain(`is a Sentinel, not a Redis; write redis+sentinel://${somewhere()}/name`)
  })
})

describe('a Sentinel that is not up to date', () => {
  test('a replica that it names is not opened, until it names the primary', async () => {
    const [primary, replica] = all.servers as [RedisServer, RedisServer]
    let named = replica
    await using stale = await startNamingSentinel(() => named)
    const timetable = urlOf({ hosts: `127.0.0.1:${stale.port}`, query: '' })
    expect(await refusal(timetable)).toMatchObject({
      code: 'timetable-unavailable',
      message: expect.stringMatching(new RegExp(`127.0.0.1:${replica.port} .*is not the primary`)),
    })
    const before = await hellosTo(replica)
    const opening = open({ timetable })
    await eventually('it was tried', async () => (await hellosTo(replica)) > before)
    named = primary
    await using toc = await opening
    await schedule(toc, 'a')

    // Also a connection that was lost later goes to no replica. Redis would have refused a call.
    const tried = await hellosTo(replica)
    named = replica
    await primary.cli('CLIENT', 'KILL', 'TYPE', 'normal')
    await eventually('it was tried', async () => (await hellosTo(replica)) > tried + 1)
    expect(await failureOf(schedule(toc, 'b'))).toMatchObject({
      code: 'timetable-unavailable',
      message: expect.stringContaining('nothing was sent'),
    })
    expect(await replica.cli('INFO', 'errorstats')).not.toContain('READONLY')
    named = primary
    await eventually('connected again', () => schedule(toc, 'c'))
  })

  test('an old primary that it names is not used, if another Sentinel knows better', async () => {
    await using old = await startRedis({ config: { requirepass: PASSWORD } })
    await using stale = await startNamingSentinel(() => old)
    await using toc = await open({ timetable: urlOf({ hosts: `127.0.0.1:${stale.port},${all.hosts}` }) })
    await schedule(toc, 'a')
    expect(await scriptCalls(old)).toBe(0)
  })
})

test('a planned failover: all connections leave the old primary', async () => {
  const handled: string[] = []
  const logger = new Log()
  await using toc = await open({ logger, waitReplicas: 1 })
  const topic = toc.topic<null>('planned')
  topic.consume(async ({ key }) => void handled.push(key))
  await topic.schedule({ key: 'before', delay: '2s', payload: null })
  const old = await all.primary()
  const began = performance.now()
  await all.sentinels[1]!.ask('SENTINEL', 'FAILOVER', 'mymaster')
  await eventually('they have left', async () => (await connectionsTo(old)).length === 0)
  const left = performance.now() - began
  await eventually('calls work', () => topic.schedule({ key: 'after', delay: 0, payload: null }))
  console.log(
    `planned: left after ${Math.round(left)} ms, calls after ${Math.round(performance.now() - began)} ms`,
  )
  await eventually('both are handled', () => handled.includes('before') && handled.includes('after'))
  expect(await all.primary()).not.toBe(old)
  expect(logger.lines.join('\n')).toMatch(/the primary mymaster through Sentinel at .* is now 127/)
  expect(logger.lines.join('\n')).not.toContain('canary')
  await all.settled()
})

test('a call to a frozen primary is lost, and is not sent to the new one', async () => {
  await using toc = await openAlone({ timetable: urlOf(), callTimeout: 4_000 })
  await schedule(toc, 'warm')
  const old = await all.primary()
  old.pause()
  try {
    const calls = ['x', 'y'].map((key) => failureOf(schedule(toc, key)))
    const cancel = failureOf(toc.topic('t').cancel('warm'))
    const read = failureOf(toc.topic('t').get('warm'))
    expect(await read).toMatchObject({ code: 'timetable-unavailable' })
    // The new primary answers before the deadline of the lost calls.
    await eventually('calls work', () => schedule(toc, 'after'))
    for (const error of await Promise.all([...calls, cancel]))
      expect(error).toMatchObject({ code: 'unknown-outcome', retryable: false })
    expect(await toc.topic('t').get('x')).toBeNull()
    expect(await toc.topic('t').get('y')).toBeNull()
    expect(await toc.topic('t').get('warm')).toMatchObject({ state: 'pending' })
  } finally {
    old.resume()
  }
  await all.settled()
})

test('all Sentinels are lost later: the connections stay, and reconnect', async () => {
  const logger = new Log()
  await using toc = await open({ logger })
  await schedule(toc, 'a')
  const primary = await all.primary()
  await Promise.all(all.sentinels.map((sentinel) => sentinel.kill()))
  await schedule(toc, 'b')
  await eventually('it is in the log', () => /no answer from 3 of 3 Sentinels/.test(logger.lines.join('\n')))
  await primary.cli('CLIENT', 'KILL', 'TYPE', 'normal')
  await eventually('connected again', () => schedule(toc, 'c'))
  expect(await refusal(urlOf())).toMatchObject({ code: 'timetable-unavailable' })
  expect(logger.lines.join('\n')).not.toContain('canary')
})
