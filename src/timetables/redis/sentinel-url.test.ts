import { describe, expect, test } from 'vitest'
import { failureOf } from '../../../test/fault/helpers.ts'
import { checkRedisOptions, type RedisOptions } from './options.ts'
import { isSentinelUrl, nodeOf, parseSentinelUrl } from './sentinel-url.ts'

const NODES = [
  { host: 'h1', port: 26379 },
  { host: 'h2', port: 7000 },
]

const checked = (given: RedisOptions) => checkRedisOptions(given, 1_000)

/** The error of options that are not accepted. It never contains a secret. */
async function refusal(given: unknown): Promise<string> {
  const error = (await failureOf(Promise.resolve().then(() => checked(given as RedisOptions)))) as Error
  expect(error).toMatchObject({ code: 'bad-option' })
  expect(error.message).not.toContain('canary')
  return error.message
}

describe('a URL', () => {
  test.each([
    ['redis+sentinel://h/m', true],
    ['REDISS+Sentinel://h/m', true],
    ['redis://h/m', false],
    ['sentinel://h/m', false],
    [undefined, false],
  ])('%s is one of Sentinel: %s', (url, is) => expect(isSentinelUrl(url)).toBe(is))

  test('with one host and a name', () => {
    expect(parseSentinelUrl('redis+sentinel://h1/my.name_1-a')).toEqual({
      nodes: [{ host: 'h1', port: 26379 }],
      name: 'my.name_1-a',
      isEncrypted: false,
      ofRedis: 'redis://sentinel/',
      sentinelUsername: '',
      sentinelPassword: '',
    })
  })

  test('with everything', () => {
    const parts = parseSentinelUrl(
      'rediss+sentinel://us%40er:p%2Fa%3Fs+s@h1,h2:7000,[::1]:7001/m/3?sentinelUsername=%61&sentinelPassword=b+%26=',
    )
    expect(parts).toEqual({
      nodes: [...NODES, { host: '::1', port: 7001 }],
      name: 'm',
      isEncrypted: true,
      ofRedis: 'rediss://us%40er:p%2Fa%3Fs+s@sentinel/3',
      sentinelUsername: 'a',
      sentinelPassword: 'b+&=',
    })
  })

  test.each([
    ['redis+sentinel://h1,h2:7000', 'the name of the primary'],
    ['redis+sentinel://h1/', 'the name of the primary'],
    ['redis+sentinel:///m', 'expected redis+sentinel://'],
    ['redis+sentinel:h1', 'expected redis+sentinel://'],
    ['redis+sentinel://h1,/m', 'expected redis+sentinel://'],
    ['redis+sentinel://h1:0/m', 'expected redis+sentinel://'],
    ['redis+sentinel://h1:65536/m', 'expected redis+sentinel://'],
    ['redis+sentinel://h1/m/2/3', 'expected redis+sentinel://'],
    ['redis+sentinel://h1/m/x', 'is no database'],
    ['redis+sentinel://:canary/1@h1/m', '%2F'],
    ['redis+sentinel://:1/canary@h1/m', '%2F'],
    ['redis+sentinel://u:12/canary@h1', '%2F'],
    ['redis+sentinel://:x?canary@h1/m', '%3F'],
    ['redis+sentinel://u?canary@h1/m', '%3F'],
    ['redis+sentinel://:x#canary@h1/m', '%23'],
    ['redis+sentinel://:100%canary@h1/m', '%25'],
    ['redis+sentinel://h1/m?canary=x', 'sentinelUsername and sentinelPassword'],
    ['redis+sentinel://h1/m?sentinelPassword=a&canary', '%26'],
    ['redis+sentinel://h1/m?sentinelPassword=canary&sentinelPassword=x', 'once each'],
    ['redis+sentinel://h1/m?sentinelPassword=%canary', '%25'],
    ['redis://h1,h2/m', 'redis+sentinel://'],
    ['redis://:canary@h1:26379/mymaster', 'redis+sentinel://'],
  ])('%s is refused', async (url, says) => expect(await refusal({ url })).toContain(says))
})

test.each([
  ['h', { host: 'h', port: 26379 }],
  ['10.0.0.1:1', { host: '10.0.0.1', port: 1 }],
  ['[fe80::1]', { host: 'fe80::1', port: 26379 }],
  ['h:65535', { host: 'h', port: 65535 }],
  ['h:123456', null],
  ['h:', null],
  ['', null],
  ['fe80::1', null],
  ['redis://h', null],
  ['a b', null],
])('%s as a Sentinel', (text, node) => expect(nodeOf(text)).toEqual(node))

describe('options', () => {
  const url = 'redis+sentinel://user:secret@h1,h2:7000/m/3?sentinelPassword=other'

  test('from a URL', () => {
    expect(checked({ url })).toMatchObject({
      client: { username: 'user', password: 'secret', database: 3, socket: { connectTimeout: 1_000 } },
      sentinel: { nodes: NODES, name: 'm', client: { password: 'other', socket: {} } },
      database: 3,
      isEncrypted: false,
    })
  })

  test('without a URL', () => {
    const sentinel = { nodes: ['h1', 'h2:7000'], name: 'm', username: 'a', password: 'b' }
    const { client, ...rest } = checked({ sentinel, username: 'c', password: 'd', database: 1 })
    expect(client).toMatchObject({ username: 'c', password: 'd', database: 1 })
    expect(rest).toMatchObject({
      sentinel: { nodes: NODES, name: 'm', client: { username: 'a', password: 'b' } },
    })
  })

  test('a login is neither shared nor swapped', () => {
    const given = checked({ url: 'redis+sentinel://:secret@h/m' })
    expect(given.sentinel?.client).not.toHaveProperty('password')
    expect(checked({ url: 'redis+sentinel://h/m?sentinelPassword=other' }).client).not.toHaveProperty(
      'password',
    )
  })

  const ca = { ca: 'x' }
  const own = { ca: 'y' }
  const plain = 'redis+sentinel://h/m'
  const tls = 'rediss+sentinel://h/m'
  const sentinel = { nodes: ['h'], name: 'm' }
  test.each<[RedisOptions, ofRedis: object, ofSentinel: object]>([
    [{ url: plain }, {}, {}],
    [{ url: tls }, { tls: true }, { tls: true }],
    [
      { url: tls, tls: ca },
      { tls: true, ...ca },
      { tls: true, ...ca },
    ],
    [
      { url: tls, tls: ca, sentinel: { tls: own } },
      { tls: true, ...ca },
      { tls: true, ...own },
    ],
    [{ url: tls, tls: ca, sentinel: { tls: false } }, { tls: true, ...ca }, {}],
    [{ url: plain, sentinel: { tls: own } }, {}, { tls: true, ...own }],
    [{ sentinel }, {}, {}],
    [{ sentinel, tls: {} }, { tls: true }, { tls: true }],
  ])('TLS of %j', (given, ofRedis, ofSentinel) => {
    const { client, sentinel, isEncrypted } = checked(given)
    expect(client.socket).toEqual({ connectTimeout: 1_000, ...ofRedis })
    expect(sentinel?.client.socket).toEqual(ofSentinel)
    expect(isEncrypted).toBe('tls' in ofRedis)
  })

  test.each<[string, unknown, string]>([
    ['a plain URL', { url: 'redis://h', sentinel }, 'redis+sentinel://'],
    ['nodes twice', { url: plain, sentinel: { nodes: ['h'] } }, 'sentinel.nodes: is given twice'],
    ['a name twice', { url: plain, sentinel: { name: 'm' } }, 'sentinel.name: is given twice'],
    ['a password twice', { url, sentinel: { password: 'canary' } }, 'sentinel.password: is given twice'],
    ['a password of Redis twice', { url, password: 'canary' }, 'password: is given twice'],
    ['a database twice', { url, database: 3 }, 'database: is given twice'],
    ['no URL and no nodes', { sentinel: { name: 'm' } }, 'sentinel.nodes: expected'],
    ['no name', { sentinel: { nodes: ['h'] } }, 'sentinel.name: expected'],
    ['a strange name', { sentinel: { nodes: ['h'], name: 'a b' } }, 'sentinel.name: expected'],
    ['an empty list', { sentinel: { nodes: [], name: 'm' } }, 'sentinel.nodes: expected'],
    ['an object', { sentinel: { nodes: [{ host: 'h' }], name: 'm' } }, "'host:port'"],
    ['a URL as a node', { sentinel: { nodes: ['redis://:canary@h'], name: 'm' } }, "'host:port'"],
    ['a misspelling', { sentinel: { node: ['h'] } }, "did you mean 'nodes'?"],
    ['a misspelling in tls', { sentinel: { ...sentinel, tls: { caa: 'x' } } }, "did you mean 'ca'?"],
    ['a cluster', { cluster: { nodes: ['h:1'] }, sentinel }, 'leave one of them out'],
    ['a cluster and a URL of Sentinel', { cluster: { nodes: ['h:1'] }, url: plain }, 'leave one of them out'],
    ['a number as a password', { sentinel: { ...sentinel, password: 5 } }, 'expected text'],
    ['tls that is none', { sentinel, tls: null }, 'redis.tls'],
    ['tls without rediss', { url: plain, tls: ca }, 'starts with rediss'],
    ['null', { sentinel: null }, 'redis.sentinel'],
    ['neither', {}, 'expected redis://host:port'],
  ])('%s is refused', async (_, given, says) => expect(await refusal(given)).toContain(says))
})
