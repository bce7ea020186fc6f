/**
 * The libraries that Tocsin is compared with. A suite that needs them installs exactly these versions into a folder that
 * git ignores; they are no dependencies of Tocsin.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

/**
 * BullMQ leaves the choice of a Redis client to its user; bee-queue brings its own. bunqueue runs on Bun alone, which
 * npm installs too. pg is how the traditional scheme talks to PostgreSQL, and what graphile-worker and pg-boss bring.
 */
export const PEERS = {
  'bee-queue': '2.0.0',
  bullmq: '6.7.0',
  bun: '1.4.4',
  bunqueue: '2.9.5',
  'graphile-worker': '0.18.0',
  ioredis: '6.0.0',
  node: '22.23.3',
  pg: '8.23.1',
  'pg-boss': '12.35.0',
}

const FOLDER = new URL('.peers/', import.meta.url)
const MANIFEST = new URL('package.json', FOLDER)
const require = createRequire(MANIFEST)

/** Imports a peer. */
export const peer = (name) => require(name)

/** The path of an installed peer that is a program. */
export function peerProgram(name) {
  const manifest = require.resolve(`${name}/package.json`)
  return join(dirname(manifest), require(manifest).bin[name])
}

export async function installPeers(progress) {
  const wanted = `${JSON.stringify({ private: true, dependencies: PEERS }, null, 2)}\n`
  const isHere = existsSync(MANIFEST) && (await readFile(MANIFEST, 'utf8')) === wanted
  if (isHere && Object.keys(PEERS).every(isInstalled)) return
  const names = Object.entries(PEERS).map(([name, version]) => `${name} ${version}`)
  progress(`installing ${names.join(', ')} into bench/.peers …`)
  await mkdir(FOLDER, { recursive: true })
  await writeFile(MANIFEST, wanted)
  const [command, args] = npm('install', '--no-audit', '--no-fund', '--no-package-lock', '--loglevel=error')
  await promisify(execFile)(command, args, { cwd: fileURLToPath(FOLDER) })
}

function isInstalled(name) {
  const manifest = new URL(`node_modules/${name}/package.json`, FOLDER)
  return existsSync(manifest) && require(fileURLToPath(manifest)).version === PEERS[name]
}

/** The npm that started this process, if one did: PATH may contain another, or none. */
function npm(...args) {
  const cli = process.env.npm_execpath
  if (cli?.endsWith('npm-cli.js') && existsSync(cli)) return [process.execPath, [cli, ...args]]
  return ['npm', args]
}
