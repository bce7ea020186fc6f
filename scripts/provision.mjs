/**
 * Finds the servers and tools that tests need on PATH, installs the missing ones with apt if it runs as root, and otherwise
 * prints what is missing and how to install it. Prints nothing if all are found.
 */
import { execFileSync } from 'node:child_process'
import { accessSync, constants, existsSync, statSync } from 'node:fs'
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from './bootstrap.mjs'

/**
 * One row per program.
 *
 *   program   what has to be on PATH
 *   folders   where else it may be: Debian keeps some servers away from PATH. May be left out
 *   variable  the environment variable that may hold the path of another program to use instead. May be left out
 *   oldest    the oldest version that will do: [major, minor]
 *   version   arguments that make the program print its version, and what to read it by
 *   named     for a server: what to read its name and its whole version by
 *   apt, …    the packages that bring it, by package manager
 */
export const NEEDED = [
  {
    program: 'redis-server',
    // Also the path of a valkey-server, or of another version.
    variable: 'TOCSIN_REDIS_SERVER',
    oldest: [7, 0],
    // 'Redis server v=7.0.15 sha=…', 'Valkey server v=8.1.1 sha=…'.
    version: { args: ['--version'], pattern: /server v=(\d+)\.(\d+)/ },
    named: /(\w+) server v=(\S+)/,
    apt: ['redis-server'],
    brew: ['redis'],
    dnf: ['redis'],
    newer: 'https://redis.io/docs/latest/operate/oss_and_stack/install/',
  },
  {
    // Makes the certificates of servers that are tested with TLS.
    program: 'openssl',
    oldest: [1, 1],
    version: { args: ['version'], pattern: /SSL (\d+)\.(\d+)/ },
    apt: ['openssl'],
    brew: ['openssl'],
    dnf: ['openssl'],
    newer: 'https://openssl-library.org/source/',
  },
  {
    program: 'postgres',
    // The newest first. Debian keeps several versions side by side, brew keeps any but the latest from PATH.
    folders: [18, 17, 16, 15, 14, 13].flatMap((major) => [
      `/usr/lib/postgresql/${major}/bin`,
      `/opt/homebrew/opt/postgresql@${major}/bin`,
      `/usr/local/opt/postgresql@${major}/bin`,
    ]),
    oldest: [13, 0],
    // '15.14', and of what is not released yet '18beta1'.
    version: { args: ['--version'], pattern: /\(PostgreSQL\) (\d+)\D+(\d+)/ },
    named: /\((PostgreSQL)\) (\S+)/,
    apt: ['postgresql'],
    brew: ['postgresql@17'],
    dnf: ['postgresql-server'],
    newer: 'https://www.postgresql.org/download/',
  },
  {
    // Tocsin is to work behind it, in transaction mode.
    program: 'pgbouncer',
    folders: ['/usr/sbin'],
    oldest: [1, 12],
    version: { args: ['--version'], pattern: /PgBouncer(?: version)? (\d+)\.(\d+)/ },
    named: /(PgBouncer)(?: version)? (\S+)/,
    apt: ['pgbouncer'],
    brew: ['pgbouncer'],
    dnf: ['pgbouncer'],
    newer: 'https://www.pgbouncer.org/install.html',
  },
  // What the documents show of other languages and of the shell is run as it stands.
  {
    program: 'curl',
    oldest: [7, 60],
    version: { args: ['--version'], pattern: /curl (\d+)\.(\d+)/ },
    apt: ['curl'],
    brew: ['curl'],
    dnf: ['curl'],
    newer: 'https://curl.se/download.html',
  },
  {
    program: 'jq',
    oldest: [1, 5],
    version: { args: ['--version'], pattern: /jq-(\d+)\.(\d+)/ },
    apt: ['jq'],
    brew: ['jq'],
    dnf: ['jq'],
    newer: 'https://jqlang.org/download/',
  },
  {
    program: 'python3',
    oldest: [3, 8],
    version: { args: ['--version'], pattern: /Python (\d+)\.(\d+)/ },
    apt: ['python3'],
    brew: ['python'],
    dnf: ['python3'],
    newer: 'https://www.python.org/downloads/',
  },
]

const VERSION_WITHIN_MS = 10_000
const LOG_TAIL_LINES = 20
/** Exit codes above this mean that a signal ended the program: the user pressed Ctrl-C. */
const ENDED_BY_SIGNAL = 128

/** The machine that provision() inspects and changes. Tests pass their own. */
export function thisHost() {
  return {
    env: process.env,
    isRoot: process.getuid?.() === 0,
    // What Debian's package scripts ask before they start a service.
    policyFile: '/usr/sbin/policy-rc.d',
    say: (line) => console.log(line),
  }
}

/** Ensures that every program is installed. Returns false if one is missing or too old, after printing which and why. */
export async function provision(needed = NEEDED, host = thisHost()) {
  // What a variable names is for its user to correct: no package brings it.
  const missing = needed.filter((row) => given(row, host) === undefined && find(row, host) === undefined)
  const apt = find({ program: 'apt-get' }, host)
  if (missing.length > 0 && host.isRoot && apt !== undefined) {
    await installByApt(apt, missing, host).catch((error) => host.say(`installing failed: ${error.message}`))
  }
  // Check again, also after a successful install: only the programs that are found now count.
  return needed.map((row) => isThere(row, host)).every(Boolean)
}

/** Returns the servers in one line, each with its version and its path: the result of a test run depends on them. */
export function servers(needed = NEEDED, host = thisHost()) {
  const named = needed.flatMap((row) => {
    const file = row.named && find(row, host)
    const [, name, version] = (file && row.named.exec(printedVersion(file, row, host))) || []
    return name === undefined ? [] : [`${name} ${version} at ${file}`]
  })
  return `servers: ${named.join(', ')}`
}

/** Returns the path that the variable of a program holds, or undefined. */
function given({ variable }, { env }) {
  const path = env[variable] ?? ''
  return path === '' ? undefined : resolve(path)
}

/** Returns the path of a program, or undefined. */
export function find({ program, folders = [], variable }, { env } = thisHost()) {
  const path = given({ variable }, { env })
  if (path !== undefined) return isProgram(path) ? path : undefined
  const all = [...(env.PATH ?? '').split(delimiter).filter((folder) => folder !== ''), ...folders]
  return all.map((folder) => join(folder, program)).find(isProgram)
}

function isProgram(file) {
  try {
    accessSync(file, constants.X_OK)
    return statSync(file).isFile()
  } catch {
    return false
  }
}

function isThere(row, host) {
  const file = find(row, host)
  const wanted = `${row.oldest.join('.')} or newer is needed by the tests`
  const path = given(row, host)
  if (file === undefined && path !== undefined) {
    const what = !existsSync(path)
      ? 'does not exist'
      : statSync(path).isFile()
        ? 'is not executable'
        : 'is not a file'
    host.say(`\ntocsin: ${path}, which ${row.variable} names, ${what}.`)
    host.say(`Set ${row.variable} to the path of a server, or unset it to use ${row.program} from PATH.`)
    return false
  }
  if (file === undefined) {
    host.say(`\ntocsin: ${row.program} ${wanted} and is not on PATH.`)
    host.say(howToGet(row))
    return false
  }
  const found = versionOf(file, row, host)
  if (found !== undefined && isAtLeast(found, row.oldest)) return true
  const tooOld = found && `is version ${found.join('.')}, which is too old`
  host.say(`\ntocsin: ${file} ${tooOld ?? 'does not tell its version'}: ${wanted}.`)
  const remedy = path === undefined ? 'Put a newer one first on PATH' : `Set ${row.variable} to a newer one`
  host.say(`${remedy} (${row.newer}) and run this command again.`)
  return false
}

function howToGet({ apt, brew, dnf }) {
  return [
    'Install it by whichever of these is yours, then run this command again:',
    `  apt   sudo apt-get update && sudo apt-get install -y ${apt.join(' ')}`,
    `  brew  brew install ${brew.join(' ')}`,
    `  dnf   sudo dnf install -y ${dnf.join(' ')}`,
  ].join('\n')
}

function versionOf(file, row, host) {
  return row.version.pattern
    .exec(printedVersion(file, row, host))
    ?.slice(1)
    .map(Number)
}

/** Returns what the program prints when asked for its version: nothing, if it fails. */
function printedVersion(file, { version }, { env }) {
  try {
    return execFileSync(file, version.args, {
      env,
      encoding: 'utf8',
      timeout: VERSION_WITHIN_MS,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  } catch {
    return ''
  }
}

function isAtLeast([major, minor], [oldestMajor, oldestMinor]) {
  return major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)
}

async function installByApt(apt, missing, host) {
  const packages = missing.flatMap((row) => row.apt)
  const allowServices = await forbidServices(host)
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-provision-'))
  const log = join(folder, 'apt.log')
  const aptGet = (...args) => quietly(log, apt, args, host)
  try {
    host.say(`${missing.map(({ program }) => program).join(', ')} missing: updating the package lists …`)
    const updated = await aptGet('update')
    if (updated > ENDED_BY_SIGNAL) return
    // Go on if a package list cannot be fetched: the present lists may suffice.
    if (updated !== 0) host.say('updating failed: going on with the lists that are there')
    host.say(`installing ${packages.join(' ')} by apt …`)
    const code = await aptGet('install', '-y', '--no-install-recommends', ...packages)
    if (code === 0) return
    host.say(`apt-get install failed (exit code ${code}). Its last words:`)
    for (const line of await tailOf(log)) host.say(`  ${line}`)
  } finally {
    await allowServices()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Runs apt-get without prompts, waiting for another apt to end. Its output goes to the log, which is shown on failure. */
async function quietly(log, apt, args, { env }) {
  const output = await open(log, 'a')
  try {
    return await run(apt, ['-o', 'DPkg::Lock::Timeout=300', '-o', 'Acquire::Retries=3', ...args], {
      env: { ...env, DEBIAN_FRONTEND: 'noninteractive' },
      stdin: 'ignore',
      output: output.fd,
    })
  } finally {
    await output.close()
  }
}

/**
 * Keeps Debian from starting a service when its package is installed: tests start their own servers, and the port of the
 * service may be in use. A policy that exists already is left alone; containers have one that forbids services. Returns a
 * function that removes the policy.
 */
async function forbidServices({ policyFile }) {
  try {
    await writeFile(policyFile, '#!/bin/sh\nexit 101\n', { mode: 0o755, flag: 'wx' })
  } catch (error) {
    if (error.code === 'EEXIST') return async () => {}
    throw error
  }
  return () => rm(policyFile, { force: true })
}

async function tailOf(file) {
  return (await readFile(file, 'utf8')).trimEnd().split('\n').slice(-LOG_TAIL_LINES)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = (await provision()) ? 0 : 1
