import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { TocsinClient } from 'tocsin/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Pair, startPair } from '../client/harness.ts'
import { answering } from '../client/strange-server.ts'
import { freePort } from '../real-servers/free-port.ts'
import { runCommand } from './command.ts'

const ADMIN = 'an-admin-token-of-some-length'
const SLOW = 120_000

let pair: Pair
let folder: string
let tokenFile: string
beforeAll(async () => {
  pair = await startPair({ adminToken: ADMIN })
  folder = await mkdtemp(join(tmpdir(), 'tocsin-cli-test-'))
  tokenFile = join(folder, 'token')
  await writeFile(tokenFile, `${ADMIN}\n`)
}, SLOW)
afterAll(async () => {
  await pair.close()
  await rm(folder, { recursive: true, force: true })
})

const run = (...args: string[]) =>
  runCommand(['tokens', ...args], { env: { TOCSIN_URL: pair.url, TOCSIN_TOKEN: ADMIN } })

describe('tocsin tokens', () => {
  it(
    'makes one whose secret is all that a file gets, lists, replaces and takes it back',
    async () => {
      const created = await run(
        'create',
        'the shop',
        '--scope',
        'read',
        '--scope',
        'schedule',
        '--topic-prefix',
        'shop',
      )
      expect(created.code).toBe(0)
      expect(created.stdout).toMatch(/^tocsin_[a-z0-9]{12}_\S+\n$/)
      const token = created.stdout.trim()
      const id = token.split('_')[1]!
      expect(created.stderr).toContain(id)
      expect(created.stderr).not.toContain(token)
      expect(await new TocsinClient({ url: pair.url, token }).topics()).toEqual([])

      const listed = await run('list')
      expect(listed.code).toBe(0)
      const [titles, row] = listed.stdout.split('\n')
      expect(titles).toMatch(/^ID +NAME +SCOPES +TOPICS +CREATED +EXPIRES +RATE +BODY$/)
      expect(row).toContain('the shop')
      expect(row).toContain('read,schedule')
      expect(row?.indexOf('the shop')).toBe(titles?.indexOf('NAME'))
      expect(listed.stdout).not.toContain(token)

      const rotated = await run('rotate', id, '--overlap', '0s')
      expect(rotated.code).toBe(0)
      expect(rotated.stdout).toMatch(/^tocsin_\S+\n$/)
      await expect(new TocsinClient({ url: pair.url, token }).topics()).rejects.toMatchObject({
        code: 'unauthorized',
      })
      expect(await run('revoke', id)).toEqual({ code: 0, stdout: `revoked ${id}\n`, stderr: '' })
      expect(await run('revoke', id)).toMatchObject({
        code: 3,
        stdout: '',
        stderr: expect.stringContaining('(not-found)') as string,
      })
    },
    SLOW,
  )

  it(
    'speaks JSON, lists as a line for each, with nothing beside it',
    async () => {
      const limits = ['--expires-in', '30d', '--rate', '100/1s', '--body-max', '1000']
      const created = await run('create', 'json', '--json', '--scope', 'consume', ...limits)
      expect(created).toMatchObject({ code: 0, stderr: '' })
      const made = JSON.parse(created.stdout) as { id: string; token: string }
      expect(made).toMatchObject({
        name: 'json',
        scopes: ['consume'],
        rate: { limit: 100, per: '1s' },
        bodyBytesMax: 1_000,
      })
      expect(made.token).toContain(made.id)
      const { stdout } = await run('list', '--json')
      const lines = stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { name: string })
      expect(lines.map(({ name }) => name)).toContain('json')
      expect(stdout).not.toContain(made.token)
      const refused = await run('revoke', 'unknown', '--json')
      expect(refused).toMatchObject({ code: 3, stdout: '' })
      expect(JSON.parse(refused.stderr)).toMatchObject({ error: { code: 'not-found', retryable: false } })
    },
    SLOW,
  )

  it(
    'reads the token from a file, and never from its arguments',
    async () => {
      const list = (...args: string[]) => runCommand(['tokens', 'list', '--url', pair.url, ...args])
      expect(await list('--token-file', tokenFile)).toMatchObject({ code: 0 })
      expect(await list('--token-file', join(folder, 'none'))).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('ENOENT') as string,
      })
      expect(await list('--token', ADMIN)).toMatchObject({
        code: 2,
        stderr: expect.stringMatching(/unknown option '--token'/) as string,
      })
      expect(await list()).toMatchObject({
        code: 1,
        stderr: expect.stringContaining('(unauthorized)') as string,
      })
    },
    SLOW,
  )

  it.each([
    [['create', 'x'], 2, /required option '--scope/],
    [['create', '--scope', 'read'], 2, /missing required argument 'name'/],
    [['create', 'x', '--scope', 'raed'], 2, /Allowed choices are read/],
    [['create', 'x', '--scope', 'read', '--expires-in', '5 min'], 2, /write '5m'/],
    [['create', 'x', '--scope', 'read', '--rate', '0/1s'], 2, /rate/],
    [['lsit'], 2, /Did you mean list\?/],
    [['revoke', 'tocsin_abcdefabcdef_secretsecretsecret'], 2, /its id is abcdefabcdef/],
    [[], 2, /Usage: tocsin tokens/],
  ])(
    '%j ends with %i',
    async (args, code, message) => {
      const ended = await run(...args)
      expect(ended).toMatchObject({ code, stdout: '' })
      expect(ended.stderr).toMatch(message)
      expect(ended.stderr).not.toMatch(/^\s+at |secretsecret/m)
    },
    SLOW,
  )

  it(
    'exits with 4 if the server is unreachable, and names its URL',
    async () => {
      const url = `http://127.0.0.1:${await freePort()}`
      const ended = await runCommand(['tokens', 'list', '--url', url])
      expect(ended).toMatchObject({ code: 4, stdout: '' })
      expect(ended.stderr).toBe(
        `tocsin: GET ${url}/v1/tokens: connection refused (ECONNREFUSED); is the server running? (unreachable)\n`,
      )
      await using limiter = await answering(429, { 'retry-after': '7' }, '')
      expect(await runCommand(['tokens', 'list', '--url', limiter.url])).toMatchObject({ code: 4 })
      expect(await runCommand(['tokens', 'list', '--url', 'not an address'])).toMatchObject({ code: 2 })
    },
    SLOW,
  )

  it(
    'shows what others wrote without letting it speak to the terminal',
    async () => {
      const tokens = [
        {
          id: 'i',
          name: 'red \u001b[31m',
          scopes: ['read'],
          topicPrefix: null,
          createdAt: '2026-01-01T00:00:00.000Z',
          expiresAt: null,
          rate: null,
          bodyBytesMax: null,
        },
      ]
      await using server = await answering(
        200,
        { 'content-type': 'application/json' },
        JSON.stringify({ tokens }),
      )
      const { stdout } = await runCommand(['tokens', 'list', '--url', server.url])
      expect(stdout).toContain('red \\u{1b}[31m')
    },
    SLOW,
  )
})
