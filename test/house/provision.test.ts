import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

type Row = {
  program: string
  folders?: string[]
  variable?: string
  oldest: [number, number]
  version: { args: string[]; pattern: RegExp }
  named?: RegExp
  apt: string[]
  brew: string[]
  dnf: string[]
  newer: string
}
type Host = {
  env: { PATH: string; TOCSIN_REDIS_SERVER?: string }
  isRoot: boolean
  policyFile: string
  say: (line: string) => void
}
type Provisioning = {
  NEEDED: Row[]
  provision: (needed: Row[], host: Host) => Promise<boolean>
  find: (row: { program: string; folders?: string[] }, host: Host) => string | undefined
  servers: (needed: Row[], host: Host) => string
}

const { NEEDED, provision, find, servers } = (await import(
  new URL('../../scripts/provision.mjs', import.meta.url).href
)) as Provisioning

const [redis] = NEEDED as [Row]
/** A second row, as they will be added: found beside PATH, with a version of its own shape. */
const other = (folder: string): Row => ({
  program: 'othersql',
  folders: [folder],
  oldest: [15, 2],
  version: { args: ['-V'], pattern: /\(OtherSQL\) (\d+)\.(\d+)/ },
  apt: ['othersql', 'othersql-contrib'],
  brew: ['othersql@15'],
  dnf: ['othersql-server'],
  newer: 'https://example.org/',
})

const redisOf = (version: string): string => `echo 'Redis server v=${version} sha=00000000:0'`

/**
 * A machine of its own: a folder that is all of PATH, with the given programs as shell scripts. A script that
 * installs moves what lies in `shelf` into `bin`, as apt-get would.
 */
async function machine(programs: Record<string, string>, { isRoot = true } = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-machine-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  for (const part of ['bin', 'aside', 'shelf']) await mkdir(join(folder, part))
  for (const [path, body] of Object.entries(programs)) {
    await writeFile(join(folder, path), `#!/bin/sh\ncd "${folder}"\n${body}\n`)
    await chmod(join(folder, path), 0o755)
  }
  const lines: string[] = []
  const host: Host = {
    env: { PATH: join(folder, 'bin') },
    isRoot,
    policyFile: join(folder, 'policy-rc.d'),
    say: (line) => void lines.push(line),
  }
  const calls = async (): Promise<string[]> => {
    const file = join(folder, 'calls')
    return existsSync(file) ? (await readFile(file, 'utf8')).trimEnd().split('\n') : []
  }
  return { folder, host, lines, said: () => lines.join('\n'), calls }
}

/** Writes down how it was called, and what it could see: questions, its input, and the ban on services. */
const APT = `
read answer && seen="input:$answer" || seen=no-input
policy=no-policy; [ -x policy-rc.d ] && { ./policy-rc.d; policy="policy:$?"; }
echo "$DEBIAN_FRONTEND $seen $policy $*" >> calls
case "$*" in *install*) /bin/mv shelf/* bin/ ;; esac`

const CALLED = 'noninteractive no-input policy:101 -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3'

test('what is there is used, without a word and without apt', async () => {
  const { host, lines, calls } = await machine({
    'bin/redis-server': redisOf('7.0.0'),
    'bin/apt-get': APT,
  })
  expect(await provision([redis], host)).toBe(true)
  expect(lines).toEqual([])
  expect(await calls()).toEqual([])
})

test('what is missing is installed in one go, asking nothing and starting no service', async () => {
  const { folder, host, lines, calls } = await machine({
    'bin/apt-get': APT,
    'shelf/redis-server': redisOf('7.2.4'),
    'shelf/othersql': "echo '(OtherSQL) 16.1'",
  })
  expect(await provision([redis, other(join(folder, 'aside'))], host)).toBe(true)
  expect(await calls()).toEqual([
    `${CALLED} update`,
    `${CALLED} install -y --no-install-recommends redis-server othersql othersql-contrib`,
  ])
  expect(lines).toEqual([
    'redis-server, othersql missing: updating the package lists …',
    'installing redis-server othersql othersql-contrib by apt …',
  ])
  expect(existsSync(host.policyFile), 'the ban is lifted').toBe(false)
})

test('only what is missing is installed', async () => {
  const { folder, host, calls } = await machine({
    'bin/apt-get': APT,
    'aside/othersql': "echo '(OtherSQL) 15.2'",
    'shelf/redis-server': redisOf('8.0.1'),
  })
  const needed = [other(join(folder, 'aside')), redis]
  expect(await provision(needed, host)).toBe(true)
  expect((await calls()).at(-1)).toBe(`${CALLED} install -y --no-install-recommends redis-server`)
  expect(find(needed[0]!, host)).toBe(join(folder, 'aside', 'othersql'))
})

test('a policy on services that is there already stays as it is', async () => {
  const { host } = await machine({
    'bin/apt-get': APT,
    'shelf/redis-server': redisOf('7.0.15'),
    'policy-rc.d': 'exit 104',
  })
  const before = await readFile(host.policyFile, 'utf8')
  expect(await provision([redis], host)).toBe(true)
  expect(await readFile(host.policyFile, 'utf8')).toBe(before)
})

test('package lists that cannot be updated are no reason to give up', async () => {
  const { host, lines } = await machine({
    'bin/apt-get': `${APT}\ncase "$*" in *update*) exit 100 ;; esac`,
    'shelf/redis-server': redisOf('7.0.15'),
  })
  expect(await provision([redis], host)).toBe(true)
  expect(lines).toContain('updating failed: going on with the lists that are there')
})

test('an apt that was stopped by a signal is not started again', async () => {
  const { host, calls } = await machine({ 'bin/apt-get': `${APT}\nkill -INT $$` })
  expect(await provision([redis], host)).toBe(false)
  expect(await calls()).toEqual([`${CALLED} update`])
})

test('an apt that fails is quoted, and the ban is lifted', async () => {
  const { host, said } = await machine({ 'bin/apt-get': 'echo E: no such package >&2; exit 100' })
  expect(await provision([redis], host)).toBe(false)
  expect(said()).toMatch(/apt-get install failed \(exit code 100\)[^]*E: no such package[^]*is not on PATH/)
  expect(existsSync(host.policyFile)).toBe(false)
})

test('an apt that says it went well and brought nothing has failed', async () => {
  const { host, said } = await machine({ 'bin/apt-get': 'exit 0' })
  expect(await provision([redis], host)).toBe(false)
  expect(said()).toContain('redis-server 7.0 or newer is needed by the tests and is not on PATH.')
})

test.each([
  ['not root', { 'bin/apt-get': APT, 'shelf/redis-server': redisOf('7.0.15') }, false],
  ['no apt', {}, true],
])('%s: it says what is missing and how to get it', async (_, programs, isRoot) => {
  const { folder, host, lines, calls } = await machine(programs, { isRoot })
  expect(await provision([redis, other(join(folder, 'aside'))], host)).toBe(false)
  expect(lines).toEqual([
    '\ntocsin: redis-server 7.0 or newer is needed by the tests and is not on PATH.',
    expect.stringMatching(
      /apt-get install -y redis-server\n {2}brew {2}brew install redis\n {2}dnf .* redis$/,
    ),
    '\ntocsin: othersql 15.2 or newer is needed by the tests and is not on PATH.',
    expect.stringContaining('apt-get install -y othersql othersql-contrib'),
  ])
  expect(await calls()).toEqual([])
  expect(await readdir(join(folder, 'bin'))).toEqual(
    Object.keys(programs)
      .slice(0, 1)
      .map(() => 'apt-get'),
  )
})

test.each([
  ['6.2.14', 'is version 6.2, which is too old'],
  ['weird', 'does not tell its version'],
])('redis-server %s on PATH %s', async (version, what) => {
  const { folder, host, said, calls } = await machine({
    'bin/redis-server': redisOf(version),
    'bin/apt-get': APT,
  })
  expect(await provision([redis], host)).toBe(false)
  expect(said()).toContain(
    `${join(folder, 'bin', 'redis-server')} ${what}: 7.0 or newer is needed by the tests.`,
  )
  expect(said()).toContain('Put a newer one first on PATH (https://redis.io/')
  expect(await calls(), 'apt would bring what is there').toEqual([])
})

const VALKEY = "echo 'Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64'"

test.each([
  ['none on PATH', {}],
  ['another on PATH', { 'bin/redis-server': redisOf('7.0.15') }],
])('TOCSIN_REDIS_SERVER names the server to use, with %s', async (_, programs) => {
  const { folder, host, lines, calls } = await machine({
    ...programs,
    'bin/apt-get': APT,
    'aside/valkey-server': VALKEY,
  })
  const path = join(folder, 'aside', 'valkey-server')
  host.env.TOCSIN_REDIS_SERVER = path
  expect(await provision([redis], host)).toBe(true)
  expect(lines).toEqual([])
  expect(await calls()).toEqual([])
  expect(find(redis, host)).toBe(path)
  expect(servers([redis], host)).toBe(`servers: Valkey 8.1.1 at ${path}`)
})

test('an empty TOCSIN_REDIS_SERVER is none', async () => {
  const { folder, host } = await machine({ 'bin/redis-server': redisOf('7.0.15') })
  host.env.TOCSIN_REDIS_SERVER = ''
  expect(await provision([redis], host)).toBe(true)
  expect(servers([redis], host)).toBe(`servers: Redis 7.0.15 at ${join(folder, 'bin', 'redis-server')}`)
})

test.each([
  ['aside/nowhere', 'nowhere, which TOCSIN_REDIS_SERVER names, does not exist.'],
  ['aside', 'aside, which TOCSIN_REDIS_SERVER names, is not a file.'],
  ['aside/text', 'text, which TOCSIN_REDIS_SERVER names, is not executable.'],
  ['aside/valkey-cli', 'valkey-cli does not tell its version: 7.0 or newer is needed by the tests.'],
  ['aside/old', 'old is version 6.2, which is too old: 7.0 or newer is needed by the tests.'],
])(
  'a TOCSIN_REDIS_SERVER that cannot be used is explained, and none is installed: %s',
  async (path, what) => {
    const { folder, host, said, calls } = await machine({
      'bin/redis-server': redisOf('7.0.15'),
      'bin/apt-get': APT,
      'aside/text': VALKEY,
      'aside/valkey-cli': "echo 'valkey-cli 8.1.1'",
      'aside/old': redisOf('6.2.14'),
    })
    await chmod(join(folder, 'aside', 'text'), 0o644)
    host.env.TOCSIN_REDIS_SERVER = join(folder, path)
    expect(await provision([redis], host)).toBe(false)
    expect(said()).toContain(`tocsin: ${join(folder, 'aside')}`)
    expect(said()).toContain(what)
    expect(said()).toContain('Set TOCSIN_REDIS_SERVER to ')
    expect(await calls()).toEqual([])
  },
)

test('the servers are named with their versions, and tools are not', async () => {
  const { folder, host } = await machine({
    'bin/redis-server': redisOf('7.0.15'),
    'bin/postgres': "echo 'postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)'",
    'bin/pgbouncer': "echo 'PgBouncer 1.18.0'",
    'bin/jq': 'echo jq-1.7.1',
  })
  const at = (program: string): string => join(folder, 'bin', program)
  expect(
    servers(
      NEEDED.map((row) => ({ ...row, folders: [] })),
      host,
    ),
  ).toBe(
    `servers: Redis 7.0.15 at ${at('redis-server')}, PostgreSQL 15.14 at ${at('postgres')}, PgBouncer 1.18.0 at ${at('pgbouncer')}`,
  )
})

test('where services cannot be forbidden nothing is installed', async () => {
  const { folder, host, said, calls } = await machine({ 'bin/apt-get': APT })
  host.policyFile = join(folder, 'nowhere', 'policy-rc.d')
  expect(await provision([redis], host)).toBe(false)
  expect(said()).toMatch(/installing failed: ENOENT[^]*is not on PATH/)
  expect(await calls()).toEqual([])
})

test.each([
  ['redis-server', 'Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64', [7, 0]],
  ['redis-server', 'Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64', [8, 1]],
  ['openssl', 'OpenSSL 3.0.17 1 Jul 2025 (Library: OpenSSL 3.0.17 1 Jul 2025)', [3, 0]],
  ['postgres', 'postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)', [15, 14]],
  ['postgres', 'postgres (PostgreSQL) 18beta1', [18, 1]],
  ['pgbouncer', 'PgBouncer 1.18.0\nlibevent 2.1.12-stable', [1, 18]],
  ['pgbouncer', 'PgBouncer version 1.12.0', [1, 12]],
  ['curl', 'curl 7.88.1 (x86_64-pc-linux-gnu) libcurl/7.88.1 OpenSSL/3.0.19', [7, 88]],
  ['jq', 'jq-1.7.1', [1, 7]],
  ['python3', 'Python 3.11.7', [3, 11]],
])('the version of %s is read from %j', (program, printed, version) => {
  const { pattern } = NEEDED.find((row) => row.program === program)!.version
  expect(pattern.exec(printed)?.slice(1).map(Number)).toEqual(version)
})

test('what this repository needs is there: `npm test` has seen to it', async () => {
  const lines: string[] = []
  const host = { env: process.env as Host['env'], isRoot: false, policyFile: '', say: lines.push.bind(lines) }
  expect(await provision(NEEDED, host)).toBe(true)
  expect(lines).toEqual([])
})

test('a folder or a file that cannot be run is no server', async () => {
  const { folder, host } = await machine({ 'aside/redis-server': redisOf('7.0.0') })
  await mkdir(join(folder, 'bin', 'redis-server'))
  await chmod(join(folder, 'aside', 'redis-server'), 0o644)
  expect(find({ ...redis, folders: [join(folder, 'aside')] }, host)).toBeUndefined()
})
