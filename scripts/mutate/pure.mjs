/**
 * Generated mistakes in pure code: every operator, condition, literal, result and statement is changed, one at a time, and
 * the unit tests of pure code must notice. Prints a line per file, the survivors, and the score.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { startVitest } from 'vitest/node'
import { root } from '../bootstrap.mjs'
import { instrument } from './instrument.mjs'

/** In percent of all mutants. Some change nothing that a caller could see, so it cannot be all of them. */
const SCORE_MIN = 85

/**
 * Folders of pure code, and pure files in other folders. The assignment of slots is pure as well, but its test compares it
 * with an exhaustive search: it would take a minute per mutant.
 */
const PURE = [
  'src/lib/',
  'src/values/',
  'src/errors.ts',
  'src/task.ts',
  'src/client/lines.ts',
  'src/cluster/liveness.ts',
  'src/consume/rate-meter.ts',
  'src/consume/rate-share.ts',
  'src/consume/verdict.ts',
  'src/pull/pull-token.ts',
  'src/server/line-reader.ts',
  'src/store/stamps.ts',
  'src/timetables/redis/body.ts',
  'src/timetables/redis/keys.ts',
  'src/timetables/redis/packing.ts',
  'src/timetables/redis/tries.ts',
]

/** Runs the mutants of the files whose path contains one of `filters` (of all without any). Resolves to whether enough were noticed. */
export async function run(filters) {
  const files = await instrumented(filters)
  if (files.length === 0) {
    console.error(`mutate: no file of pure code has one of these in its path: ${filters.join(', ')}`)
    return false
  }
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-mutate-'))
  try {
    // First the tests beside each file, with its mutants alone: they notice most of them, and soon.
    await runTests(folder, files, testsBeside(files.map(({ path }) => path)), true)
    await runTests(folder, files, testsBeside(await purePaths()), false)
    const broken = await contentsOf(folder, 'broken-')
    for (const path of broken) console.error(`mutate: fails without a mutant: ${path}`)
    const tried = await contentsOf(folder, 'tried-')
    const reached = new Set(tried.flatMap((text) => text.split('\n').filter(Boolean).map(Number)))
    return report(files, new Set(await killedIn(folder)), reached) && broken.length === 0
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function instrumented(filters) {
  const files = []
  let nextId = 1
  for (const path of await purePaths()) {
    if (filters.length > 0 && !filters.some((filter) => path.includes(filter))) continue
    const one = instrument(path, await readFile(join(root, path), 'utf8'), nextId)
    files.push({ path, ...one })
    nextId += one.mutants.length
  }
  return files
}

async function purePaths() {
  const entries = await readdir(join(root, 'src'), { recursive: true })
  return entries
    .map((path) => `src/${path.split(sep).join('/')}`)
    .filter((path) => path.endsWith('.ts') && !path.endsWith('.test.ts'))
    .filter((path) => PURE.some((pure) => path === pure || (pure.endsWith('/') && path.startsWith(pure))))
    .toSorted()
}

function testsBeside(paths) {
  return paths.map((path) => path.replace(/\.ts$/, '.test.ts')).filter((path) => existsSync(join(root, path)))
}

/** A mutant that ends the process of its tests is noticed; the others of that file of tests still have to run. */
async function runTests(folder, files, tests, isOwnOnly) {
  if (tests.length === 0) return
  do await startTests(folder, files, tests, isOwnOnly)
  while (await buryCrashed(folder))
}

/** Vitest compiles the text with its switches in place of the file; scripts/mutate/runner.mjs turns them on. */
async function startTests(folder, files, tests, isOwnOnly) {
  const texts = new Map(files.map(({ path, text }) => [join(root, path), text]))
  const mutants = files.map(({ path, mutants: [first], mutants: { length } }) => ({
    path,
    first: first?.id,
    length,
  }))
  const vitest = await startVitest(
    'test',
    [],
    {
      root,
      watch: false,
      include: tests,
      // Mutants leave timers behind.
      setupFiles: [],
      runner: join(root, 'scripts/mutate/runner.mjs'),
      reporters: [progress(folder)],
      silent: true,
      maxWorkers: availableParallelism(),
      provide: { mutation: { folder, mutants, isOwnOnly } },
      // A rejection that no test awaits is a mutant's, too.
      dangerouslyIgnoreUnhandledErrors: true,
    },
    { plugins: [{ name: 'mutants', enforce: 'pre', load: (id) => texts.get(id.split('?')[0]) }] },
  )
  await vitest.close()
  // Vitest sets it when a worker crashes; the score decides.
  process.exitCode = 0
}

/** A line per file of tests, so that a run of minutes shows where it is. */
function progress(folder) {
  return {
    async onTestModuleEnd({ moduleId }) {
      console.log(`${(await killedIn(folder)).length} noticed after ${relative(root, moduleId)}`)
    },
  }
}

/** Counts the mutants that ended their process as noticed. Returns false if there are none. */
async function buryCrashed(folder) {
  const ids = await contentsOf(folder, 'running-')
  for (const id of ids) await writeFile(join(folder, `killed-${id}`), '')
  for (const name of await readdir(folder)) if (name.startsWith('running-')) await rm(join(folder, name))
  return ids.length > 0
}

async function killedIn(folder) {
  const names = await readdir(folder)
  return names
    .filter((name) => name.startsWith('killed-'))
    .map((name) => Number(name.slice('killed-'.length)))
}

async function contentsOf(folder, prefix) {
  const names = (await readdir(folder)).filter((name) => name.startsWith(prefix))
  return Promise.all(names.map((name) => readFile(join(folder, name), 'utf8')))
}

function report(files, killed, reached) {
  console.log('\nsurvivors:')
  for (const { path, mutants } of files) {
    for (const { id, line, column, from, to } of mutants) {
      if (killed.has(id)) continue
      const reachedBy = reached.has(id) ? '' : '   (no test runs it)'
      console.log(`  ${path}:${line}:${column}  ${from}  →  ${to === '' ? '(left out)' : to}${reachedBy}`)
    }
  }
  console.log('\nnoticed      of    score')
  for (const { path, mutants } of files) if (mutants.length > 0) console.log(scoreLine(mutants, killed, path))
  const all = files.flatMap(({ mutants }) => mutants)
  const score = scoreOf(all, killed)
  console.log(scoreLine(all, killed, 'all'))
  console.log(`\nmutants in pure code: ${score.toFixed(1)} % noticed, at least ${SCORE_MIN} % are required`)
  return score >= SCORE_MIN
}

function scoreOf(mutants, killed) {
  return (mutants.filter(({ id }) => killed.has(id)).length / mutants.length) * 100
}

function scoreLine(mutants, killed, name) {
  const count = mutants.filter(({ id }) => killed.has(id)).length
  return `${String(count).padStart(7)} ${String(mutants.length).padStart(7)} ${scoreOf(mutants, killed).toFixed(1).padStart(7)} %  ${name}`
}
