import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import { Tocsin, TocsinError } from 'tocsin'
import { redis as redisTimetable } from 'tocsin/redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../real-servers/free-port.ts'
import { type RedisServer, startRedis, startReplica } from '../../real-servers/redis-server.ts'
import { failureOf, timed } from '../helpers.ts'
import { startOldRedis, startStrange } from './strange-servers.ts'

const PASSWORD = 'canary-right'
const WRONG = 'canary-wrong'
const CALL_TIMEOUT_MS = 1_000
/** That it ends at all by its deadline, on a machine that may have other things to do. */
const PATIENCE_MS = 15 * CALL_TIMEOUT_MS

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis({ config: { requirepass: PASSWORD }, tls: true })
})
afterAll(() => redis.stop())

type Timetable = NonNullable<Parameters<typeof Tocsin.open>[0]>['timetable']

/** How opening fails. Whatever went wrong, nothing that may be logged contains a password. */
async function openFails(timetable: Timetable): Promise<TocsinError> {
  const open = () => Tocsin.open({ timetable, callTimeout: CALL_TIMEOUT_MS, logger: false })
  const { error, answer } = await within(PATIENCE_MS, timed(open))
  await answer?.close()
  expect(TocsinError.is(error), `a TocsinError, not ${String(error)}`).toBe(true)
  expect(everythingOf(error)).not.toContain('canary')
  return error as TocsinError
}

async function within<T>(ms: number, answer: Promise<T>): Promise<T> {
  const enough = new AbortController()
  const late = sleep(ms, undefined, { signal: enough.signal }).then(
    () => Promise.reject(new Error(`no answer within ${ms} ms`)),
    () => answer,
  )
  return Promise.race([answer, late]).finally(() => enough.abort())
}

/** Its text, its stack, its details, and the same of its causes. */
function everythingOf(error: unknown): string {
  return inspect(error, { depth: 10, showHidden: true, maxStringLength: null })
}

const at = (target: { port: number }, login = '') => `redis://${login}127.0.0.1:${target.port}`

describe('a login that Redis does not take', () => {
  test.each([
    ['a wrong password', `:${WRONG}@`, /password/],
    ['a wrong user', `nobody:${WRONG}@`, /user name or password/],
    ['a wrong password of a user', `default:${WRONG}@`, /user name or password/],
    ['no password', '', /redis:\/\/:password@host/],
    ['a user without password', 'default@', /password/],
  ])('%s', async (_, login, says) => {
    const error = await openFails(at(redis, login))
    expect(error).toMatchObject({
      code: 'timetable-refused',
      retryable: false,
      message: expect.stringMatching(says),
    })
  })

  test('given as options, the password stays as secret', async () => {
    const error = await openFails(redisTimetable({ url: at(redis), username: 'default', password: WRONG }))
    expect(error).toMatchObject({ code: 'timetable-refused' })
  })
})

describe('a database that is not there', () => {
  test('number 99', async () => {
    const error = await openFails(`${at(redis, `:${PASSWORD}@`)}/99`)
    expect(error).toMatchObject({ code: 'timetable-refused', message: expect.stringContaining('0 to 15') })
  })

  test.each(['abc', '1.5', '-1', '0x'])('%s is no number', async (name) => {
    const error = await openFails(`${at(redis, `:${PASSWORD}@`)}/${name}`)
    expect(error).toMatchObject({ code: 'bad-option', details: { field: 'url' } })
    expect(error.message).toContain('redis://host:6379/1')
  })
})

test('a read-only replica', async () => {
  await using primary = await startRedis()
  await using replica = await startReplica(primary)
  const error = await openFails(replica.url)
  expect(error).toMatchObject({ code: 'timetable-refused', retryable: false })
  expect(error.message).toMatch(/read-only replica.*connect to .*primary/)
})

describe('TLS', () => {
  const withLogin = (url: string) => url.replace('//', `//:${PASSWORD}@`)

  test('a certificate that is not trusted: how to trust it', async () => {
    const error = await openFails(withLogin(redis.tlsUrl!))
    expect(error).toMatchObject({ code: 'timetable-refused', retryable: false })
    expect(error.message).toMatch(/certificate .* cannot be trusted.*tls: \{ ca \}/)
  })

  test('trusted, it opens', async () => {
    const timetable = redisTimetable({ url: withLogin(redis.tlsUrl!), tls: { ca: redis.ca } })
    await (await Tocsin.open({ timetable, logger: false })).close()
  })

  test('a certificate for another name', async () => {
    const tls = { ca: redis.ca, servername: 'elsewhere' }
    const error = await openFails(redisTimetable({ url: withLogin(redis.tlsUrl!), tls }))
    expect(error).toMatchObject({ code: 'timetable-refused', message: expect.stringContaining('ALTNAME') })
  })

  test('a TLS URL, and a port without TLS: it ends by its deadline', async () => {
    const error = await openFails(at(redis, `:${PASSWORD}@`).replace('redis:', 'rediss:'))
    expect(error).toMatchObject({ code: 'timetable-unavailable' })
    expect(error.message).toContain(`127.0.0.1:${redis.port}`)
  })

  test('a URL without TLS, and a port with TLS', async () => {
    const error = await openFails(withLogin(redis.tlsUrl!).replace('rediss:', 'redis:'))
    expect(error).toMatchObject({ code: 'timetable-unavailable' })
  })

  test('a TLS URL, and a port without TLS: the message names redis://', async () => {
    const error = await openFails(at(redis, `:${PASSWORD}@`).replace('redis:', 'rediss:'))
    expect(error.message).toContain('redis://')
  })

  test('a URL without TLS, and a port with TLS: the message names rediss://', async () => {
    const error = await openFails(withLogin(redis.tlsUrl!).replace('rediss:', 'redis:'))
    expect(error.message).toContain('rediss://')
  })
})

describe('no server', () => {
  test('nothing listens', async () => {
    const port = await freePort()
    const error = await openFails(at({ port }, `:${WRONG}@`))
    expect(error).toMatchObject({ code: 'timetable-unavailable', retryable: true })
    expect(error.message).toMatch(new RegExp(`nothing listens at 127.0.0.1:${port}.*is Redis running`))
  })

  test('an unknown host', async () => {
    // One letter too long for a name: no server has to be asked to know that there is no such host.
    const host = `${'x'.repeat(64)}.invalid`
    const error = await openFails(`redis://:${WRONG}@${host}:6379`)
    expect(error).toMatchObject({ code: 'timetable-unavailable', retryable: true })
    expect(error.message).toMatch(new RegExp(`${host}.*no address.*check the URL`))
  })
})

describe('not the Redis that is needed', () => {
  test.each(['6.2.6', '5.0.14', '2.8.0'])('version %s', async (version) => {
    await using old = await startOldRedis(version)
    const error = await openFails(at(old, `:${WRONG}@`))
    expect(error).toMatchObject({ code: 'timetable-refused', retryable: false })
    expect(error.message).toContain(`is version ${version}; 7.0 or newer is needed`)
  })

  test('a web server that hangs up', async () => {
    await using web = await startStrange((_, socket) => {
      socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n')
      return undefined
    })
    const error = await openFails(at(web, `:${WRONG}@`))
    expect(error).toMatchObject({ code: 'timetable-unavailable' })
    expect(error.message).toContain(`127.0.0.1:${web.port}`)
  })

  test('a server that hangs up at once', async () => {
    await using rude = await startStrange((_, socket) => {
      socket.destroy()
      return undefined
    })
    expect(await openFails(at(rude, `:${WRONG}@`))).toMatchObject({
      code: 'timetable-unavailable',
      retryable: true,
    })
  })

  async function notUnderstood(answers: (string | undefined)[]): Promise<void> {
    const opened = answers.map(async (answer) => {
      await using strange = await startStrange(() => answer)
      return await openFails(at(strange, `:${WRONG}@`))
    })
    for (const { code, retryable } of await Promise.all(opened))
      expect({ code, retryable }).toEqual({ code: 'timetable-unavailable', retryable: true })
  }

  test('a server that says nothing, or never finishes: open ends by its deadline', () =>
    notUnderstood([undefined, '*1000000000\r\n', '$1000000\r\nand then nothing']))

  test('a server that talks something else and stays: open ends by its deadline', () =>
    notUnderstood(['HTTP/1.1 400 Bad Request\r\n\r\n', '220 mail ready\r\n']))
})

describe('a URL with a password that was not encoded', () => {
  test('with a slash, after a number', async () => {
    const error = await openFails(`redis://admin:12/34canary@127.0.0.1:${redis.port}`)
    expect(error).toMatchObject({ code: 'bad-option' })
  })

  test('with a percent sign', async () => {
    const error = await openFails(at(redis, ':100%canary@'))
    expect(error).toMatchObject({ code: 'bad-option', details: { field: 'url' } })
  })

  test.each(['postgres://admin:12/34canary@host', 'valkey://:ab/canary@host', ':canary@127.0.0.1:6379'])(
    'in a URL of another kind: %s',
    async (url) => {
      expect((await openFails(url)).code).toMatch(/^(unsupported|bad-option)$/)
    },
  )

  test.each(['redis://:ab#canary@host', 'redis://:ab?canary@host', 'redis://:canary@', 'redis:canary@host'])(
    'that cannot be read is not shown: %s',
    async (url) => {
      expect(await openFails(url)).toMatchObject({ code: 'bad-option', details: { field: 'url' } })
    },
  )
})

test('a failed open leaves nothing behind', async () => {
  for (let i = 0; i < 5; i++)
    await failureOf(Tocsin.open({ timetable: at(redis, `:${WRONG}@`), logger: false }))
  const clients = await redis.cli('CLIENT', 'LIST')
  expect(clients.split('\n').filter((line) => line.includes('addr=127.0.0.1'))).toEqual([])
})
