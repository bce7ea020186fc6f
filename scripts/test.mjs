/**
 * `npm test`: every check of this repository, and one last line with the sum: `N passed, N failed`.
 *
 *   npm test                    lint and format, types, every test
 *   npm test -- retry           only the tests whose file matches; arguments go to vitest
 *   npm run test:long           also the long tests and more generated cases, about an hour (TOCSIN_LONG=1)
 *   npm run test:release        the same, with ten times as many generated cases: hours (TOCSIN_LONG=release)
 */
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { bin, bootstrap, run } from './bootstrap.mjs'
import { count, summary } from './count.mjs'
import { provision, servers } from './provision.mjs'

const given = process.argv.slice(2)
const filters = given.filter((argument) => argument !== '--long' && argument !== '--release')
if (given.includes('--long')) process.env.TOCSIN_LONG = '1'
if (given.includes('--release')) process.env.TOCSIN_LONG = 'release'

const total = { passed: 0, failed: 0, skipped: 0 }

if (await bootstrap({ build: true })) {
  if (filters.length === 0) {
    await step('lint', lint)
    await step('types', types)
  }
  if (await provision()) {
    console.log(servers())
    await step('tests', tests)
  } else {
    total.failed += 1
  }
} else {
  total.failed += 1
}

process.exitCode = total.failed > 0 ? 1 : 0
console.log(summary(total))

/** Runs one step, adds its counts to the total, and prints its result and duration in a line. */
async function step(name, work) {
  const started = performance.now()
  const counted = await work()
  for (const key of Object.keys(total)) total[key] += counted[key]
  const seconds = ((performance.now() - started) / 1000).toFixed(1)
  console.log(`${counted.failed > 0 ? 'FAILED' : 'ok    '} ${name.padEnd(6)} ${seconds} s`)
}

/** A step without tests of its own counts as one. */
function asOne(...codes) {
  const passed = codes.every((code) => code === 0)
  return { passed: passed ? 1 : 0, failed: passed ? 0 : 1, skipped: 0 }
}

async function lint() {
  // Both always run, so that one round shows the errors of both.
  const rules = await run(process.execPath, [bin('oxlint')])
  const format = await run(process.execPath, [bin('oxfmt'), '--check', '.'])
  return asOne(rules, format)
}

async function types() {
  return asOne(await run(process.execPath, [bin('typescript', 'tsc'), '--noEmit']))
}

async function tests() {
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-test-'))
  try {
    const file = join(folder, 'report.json')
    const args = ['run', '--reporter=default', '--reporter=json', `--outputFile.json=${file}`, ...filters]
    const code = await run(process.execPath, [join('node_modules', 'vitest', 'vitest.mjs'), ...args])
    return count(code, existsSync(file) ? JSON.parse(await readFile(file, 'utf8')) : undefined)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
