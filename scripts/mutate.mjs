/**
 * `npm run mutate`: plants small mistakes in the source and reports those that no test notices.
 *
 *   npm run mutate                          both kinds
 *   npm run mutate -- pure                  generated mistakes in pure code, run against the unit tests
 *   npm run mutate -- pure values/key       only in the files whose path contains the text
 *   npm run mutate -- hand                  hand-made mistakes, each run against the tests that must catch it
 */
import { existsSync } from 'node:fs'
import { bootstrap } from './bootstrap.mjs'

/** Each kind is a module in scripts/mutate that exports `run(filters)`, which resolves to whether the score is high enough. */
const KINDS = ['pure', 'hand'].filter((kind) => existsSync(moduleOf(kind)))

const [first, ...rest] = process.argv.slice(2)
if (first !== undefined && !KINDS.includes(first)) {
  console.error(`mutate: there is no kind '${first}'. Write one of: ${KINDS.join(', ')}`)
  process.exitCode = 2
} else if (await bootstrap({ build: true })) {
  for (const kind of first === undefined ? KINDS : [first]) {
    const { run } = await import(moduleOf(kind))
    if (!(await run(rest))) process.exitCode = 1
  }
} else {
  process.exitCode = 1
}

function moduleOf(kind) {
  return new URL(`./mutate/${kind}.mjs`, import.meta.url)
}
