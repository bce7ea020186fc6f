/**
 * Generated mistakes in pure code: every operator, condition, literal, result and statement is changed, one at a time, and
 * the unit tests beside the source must notice. Prints a line per file, the survivors, and the score.
 */
import { existsSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join, relative, sep } from 'node:path'
import { startVitest } from 'vitest/node'
import { root } from '../bootstrap.mjs'
import { instrument } from './instrument.mjs'

/** In percent of all mutants. Some change nothing that a caller could see, so it cannot be all of them. */
const SCORE_MIN = 85

/** Folders of pure code, and pure files in other folders. */
const PURE = [
  'src/lib/',
  'src/values/',
  'src/errors.ts',
  'src/task.ts',
  'src/client/lines.ts',
  'src/cluster/assignment.ts',
  'src/cluster/liveness.ts',
  'src/cluster/rounding.ts',
  'src/cluster/shares.ts',
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
  const mutants = files.flatMap(({ path, mutants }) => mutants.map((one) => ({ ...one, file: path })))
  if (mutants.length === 0) {
    console.error(`mutate: no file of pure code has one of these in its path: ${filters.join(', ')}`)
    return false
  }
  const folder = await mkdtemp(join(tmpdir(), 'tocsin-mutate-'))
  try {
    await runTests(folder, files, mutants)
    const names = await readdir(folder)
    const broken = names.filter((name) => name.startsWith('broken-'))
    for (const name of broken)
      console.error(`mutate: fails without a mutant: ${await readFile(join(folder, name), 'utf8')}`)
    const killed = new Set(
      names.filter((name) => name.startsWith('killed-')).map((name) => Number(name.slice(7))),
    )
    return report(files, killed, await reached(folder)) && broken.length === 0
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

/** Vitest compiles the text with its switches in place of the file; scripts/mutate/runner.mjs turns them on. */
async function runTests(folder, files, mutants) {
  const texts = new Map(files.map(({ path, text }) => [join(root, path), text]))
  const vitest = await startVitest(
    'test',
    [],
    {
      root,
      watch: false,
      include: ['src/**/*.test.ts'],
      // Mutants leave timers behind.
      setupFiles: [],
      runner: join(root, 'scripts/mutate/runner.mjs'),
      reporters: [progress(folder, mutants.length)],
      silent: true,
      maxWorkers: availableParallelism(),
      provide: { mutation: { folder, mutants: mutants.map(({ id, file }) => ({ id, file })) } },
      // A rejection that no test awaits is a mutant's, too.
      dangerouslyIgnoreUnhandledErrors: true,
    },
    {
      plugins: [
        {
          name: 'mutants',
          enforce: 'pre',
          load: (id) => texts.get(id.split('?')[0]),
        },
      ],
    },
  )
  await vitest.close()
  // Tests that fail under a mutant are what is wanted here.
  process.exitCode = 0
}

/** A line per file of tests, so that a run of minutes shows where it is. */
function progress(folder, count) {
  return {
    async onTestModuleEnd({ moduleId }) {
      const killed = (await readdir(folder)).filter((name) => name.startsWith('killed-')).length
      console.log(`${killed} of ${count} noticed after ${relative(root, moduleId)}`)
    },
  }
}

async function reached(folder) {
  const file = join(folder, 'reached')
  if (!existsSync(file)) return new Set()
  return new Set((await readFile(file, 'utf8')).split('\n').filter(Boolean).map(Number))
}

function report(files, killed, reachedIds) {
  console.log('\nsurvivors:')
  for (const { path, mutants } of files) {
    for (const { id, line, column, from, to } of mutants) {
      if (killed.has(id)) continue
      const reachedBy = reachedIds.has(id) ? '' : '   (no test runs it)'
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
