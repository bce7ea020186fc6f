import { describe, expect, it, test } from 'vitest'
import { checkRedisOptions, type RedisOptions } from '../options.ts'

const check = (options: RedisOptions) => checkRedisOptions(options, 1_000)

describe('a cluster', () => {
  it('is named by some of its nodes, with one user for all', () => {
    const { clusterNodes, client, where, isEncrypted } = check({
      url: 'redis+cluster://app:p%40ss@10.0.0.1:7000,10.0.0.2,[::1]:7002',
    })
    expect(clusterNodes).toEqual(['10.0.0.1:7000', '10.0.0.2:6379', '[::1]:7002'])
    expect(client).toMatchObject({ username: 'app', password: 'p@ss' })
    expect([where, isEncrypted]).toEqual(['10.0.0.1:7000, 10.0.0.2:6379, [::1]:7002', false])
  })

  it('has TLS by the scheme, or by the option', () => {
    expect(check({ url: 'rediss+cluster://h:7000' }).isEncrypted).toBe(true)
    const cluster = { nodes: ['h:7000'] }
    expect(check({ cluster, tls: { ca: 'PEM' } }).client.socket).toMatchObject({ tls: true, ca: 'PEM' })
    expect(check({ cluster }).client.socket).not.toHaveProperty('tls')
  })
})

test('one Redis has no nodes', () => expect(check({ url: 'redis://h:7000' }).clusterNodes).toBeNull())

test.each<[string, RedisOptions, RegExp]>([
  ['a database', { url: 'redis+cluster://h:7000/1' }, /no databases/],
  ['a database as an option', { cluster: { nodes: ['h:1'] }, database: 2 }, /database 0 only/],
  ['no node', { url: 'redis+cluster://' }, /host:port/],
  ['no list', { cluster: { nodes: 'h:1' as never } }, /expected \['host:port', …\]/],
  ['an empty list', { cluster: { nodes: [] } }, /host:port/],
  ['a URL for a node', { cluster: { nodes: ['redis://h:1'] } }, /a node is no 'host:port'/],
  ['both', { url: 'redis://h:1', cluster: { nodes: ['h:1'] } }, /leave one of them out/],
  ['a typo', { cluster: { node: ['h:1'] } as never }, /did you mean 'nodes'/],
])('%s is refused', (_, options, message) => expect(() => check(options)).toThrow(message))

test('an error does not have the password', () => {
  const failed = (url: string) => {
    try {
      check({ url })
    } catch (error) {
      return String(error)
    }
    return ''
  }
  for (const url of [
    'redis+cluster://u:sec/ret@h:1',
    'redis+cluster://u:secret@h:x',
    'redis+cluster://u:secret@h:1/2',
  ])
    expect(failed(url)).toMatch(/^TocsinError.*(?<!sec.*)$/)
})
