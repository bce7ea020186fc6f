/**
 * The first step of every command of this repository: check Node.js, install, build. It imports no dependency, so that it
 * runs on a fresh clone. Run by itself (`npm run build`) it does all three.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { cp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { constants } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))

const NODE_OLDEST = [20, 19]
const at = (...path) => join(root, ...path)

// Hashes, not times: a checkout, a copy and a cache restore all change times without changing content.
// They live in node_modules so that a deleted node_modules takes them along.
const INSTALL_STAMP = at('node_modules', '.tocsin-lock-hash')
const BUILD_STAMP = at('node_modules', '.tocsin-build-hash')

/** A failure with an explanation: what failed, and what to do about it. */
class BootstrapFailure extends Error {
  constructor(what, advice) {
    super(what)
    this.advice = advice
  }
}

/**
 * Makes the repository ready to run, and prints what it does. On failure it prints the reason, sets the exit code to 1 and
 * returns false.
 */
export async function bootstrap({ build }) {
  try {
    checkNode()
    await install()
    if (build) await compile()
    return true
  } catch (error) {
    process.exitCode = 1
    if (!(error instanceof BootstrapFailure)) throw error
    console.error(`\ntocsin: ${error.message}\n${error.advice}`)
    return false
  }
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  const [oldestMajor, oldestMinor] = NODE_OLDEST
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return
  throw new BootstrapFailure(
    `Node.js ${process.versions.node} is too old: ${NODE_OLDEST.join('.')} or newer is needed.`,
    'Install a newer Node.js (https://nodejs.org), open a new shell, and run this command again.',
  )
}

async function install() {
  const wanted = await hashOf([at('package-lock.json')])
  if ((await readStamp(INSTALL_STAMP)) === wanted) return
  const first = !existsSync(at('node_modules'))
  console.log(
    `installing dependencies (${first ? 'first run' : 'the lockfile has changed'}; this may take minutes) …`,
  )
  const [command, args] = npm('ci', '--no-audit', '--no-fund', '--loglevel=error')
  const code = await run(command, args, { env: installEnv(), stdin: 'ignore' })
  if (code !== 0) {
    throw new BootstrapFailure(
      `installing dependencies failed (npm ci, exit code ${code}).`,
      'npm says why above. Check that the npm registry can be reached, then run this command again.',
    )
  }
  await writeFile(INSTALL_STAMP, wanted)
}

/**
 * Native modules compile against Node's headers, which node-gyp would download into HOME. When this Node.js brought
 * its headers along we point node-gyp at them: the build then needs no download, and no writable HOME.
 */
function installEnv() {
  const prefix = dirname(dirname(process.execPath))
  const hasHeaders = existsSync(join(prefix, 'include', 'node', 'node.h'))
  return hasHeaders ? { npm_config_nodedir: prefix } : {}
}

/** The npm that started this process, if one did: PATH may hold another one, or none. */
function npm(...args) {
  const cli = process.env.npm_execpath
  if (cli?.endsWith('npm-cli.js') && existsSync(cli)) return [process.execPath, [cli, ...args]]
  return ['npm', args]
}

async function compile() {
  const sources = (await filesUnder(at('src'))).filter((file) => !file.endsWith('.test.ts'))
  const wanted = await hashOf([
    at('package-lock.json'),
    at('tsconfig.json'),
    at('tsconfig.build.json'),
    ...sources,
  ])
  if (existsSync(at('dist', 'index.js')) && (await readStamp(BUILD_STAMP)) === wanted) return
  console.log('building dist …')
  // Files deleted from src must not stay in dist.
  await rm(at('dist'), { recursive: true, force: true })
  const code = await run(process.execPath, [bin('typescript', 'tsc'), '-p', 'tsconfig.build.json'])
  if (code !== 0) {
    throw new BootstrapFailure(
      `building dist failed (tsc, exit code ${code}).`,
      'The compiler says why above. Mend src, or check out a commit that builds, then run this command again.',
    )
  }
  // Lua scripts are read at run time from beside the module that runs them. The compiler does not copy them.
  for (const file of sources.filter((source) => source.endsWith('.lua'))) {
    await cp(file, at('dist', relative(at('src'), file)))
  }
  await writeFile(BUILD_STAMP, wanted)
}

/** The path of a dev dependency's script. npx would search for it, and may offer to download it. */
export const bin = (name, script = name) => at('node_modules', name, 'bin', script)

/**
 * Runs a program to its end and returns its exit code. The terminal sends Ctrl-C to the program as well, as to everything in
 * the foreground: this process ignores it and waits for the program to end.
 */
export function run(command, args, { env = {}, stdin = 'inherit', output = 'inherit' } = {}) {
  const child = spawn(command, args, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: [stdin, output, output],
    // Windows runs npm through a command file, which only a shell can start.
    shell: process.platform === 'win32' && command === 'npm',
  })
  const wait = () => {}
  const forward = (signal) => child.kill(signal)
  process.on('SIGINT', wait)
  process.on('SIGTERM', forward)
  return new Promise((resolve) => {
    const end = (code) => {
      process.off('SIGINT', wait)
      process.off('SIGTERM', forward)
      resolve(code)
    }
    child.on('error', (error) => {
      console.error(`${command}: ${error.message}`)
      end(127)
    })
    child.on('exit', (code, signal) => end(code ?? 128 + constants.signals[signal]))
  })
}

async function readStamp(file) {
  return existsSync(file) ? readFile(file, 'utf8') : undefined
}

/** One hash over the names and the contents of files. */
async function hashOf(files) {
  const hash = createHash('sha256')
  for (const file of files.toSorted()) {
    const content = await readFile(file)
    hash.update(`${file.slice(root.length)}\0${content.length}\0`).update(content)
  }
  return hash.digest('hex')
}

async function filesUnder(directory) {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bootstrap({ build: true })
