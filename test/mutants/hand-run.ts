/**
 * `npm run mutate -- hand`: plants each hand-made mutant into a copy of the tree, runs the tests that should see it, and
 * expects them to fail. Prints a line per mutant and the score.
 */
import { parseArgs } from 'node:util'
import { HAND_MUTANTS } from './hand/all.ts'
import type { Mutant } from './hand/mutant.ts'
import { TreeCopy } from './tree-copy.ts'
import { type Ran, runTests } from './vitest-run.ts'

const SCORE_MIN = 0.9
const LIMIT_MS = 120_000
const BASELINE_LIMIT_MS = 900_000

const USAGE = `npm run mutate -- hand [options]

  --only <text>   only mutants whose name or file contains the text
  --jobs <n>      mutants at a time (2)
  --no-sound      does not first run the tests on the sound tree, where they must be green
`

interface Tried {
  readonly mutant: Mutant
  readonly ran: Ran
}

/** Returns the exit code. */
export async function runHandMutants(root: string, args: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...args],
    allowNegative: true,
    options: {
      only: { type: 'string' },
      jobs: { type: 'string', default: '2' },
      sound: { type: 'boolean', default: true },
      help: { type: 'boolean', default: false },
    },
  })
  if (values.help) return say(USAGE, 0)
  const { only = '' } = values
  const mutants = HAND_MUTANTS.filter(({ name, file }) => name.includes(only) || file.includes(only))
  if (mutants.length === 0) return say(`no mutant has '${only}' in its name or file`, 2)
  if (values.sound && !(await isSoundGreen(root, mutants))) return 1
  const tried = await tryAll(root, mutants, Number(values.jobs))
  return judge(tried)
}

/** A test that is red by itself would catch every mutant. */
async function isSoundGreen(root: string, mutants: readonly Mutant[]): Promise<boolean> {
  await using copy = await TreeCopy.of(root)
  const files = [...new Set(mutants.flatMap(({ tests }) => tests))]
  console.log(`${files.length} test files on the sound tree …`)
  const { result, detail, seconds } = await runTests(copy.folder, files, {
    bail: false,
    limitMs: BASELINE_LIMIT_MS,
  })
  console.log(`${result} in ${seconds.toFixed(0)} s ${detail}`)
  return result === 'green'
}

async function tryAll(root: string, mutants: readonly Mutant[], jobs: number): Promise<Tried[]> {
  const waiting = [...mutants]
  const tried: Tried[] = []
  const lane = async () => {
    await using copy = await TreeCopy.of(root)
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const one = mutant
      const ran = await copy.with(one, () =>
        runTests(copy.folder, one.tests, { only: one.only, limitMs: LIMIT_MS }),
      )
      tried.push({ mutant: one, ran })
      console.log(lineOf({ mutant: one, ran }))
    }
  }
  await Promise.all(Array.from({ length: Math.min(jobs, mutants.length) }, lane))
  return tried
}

function lineOf({ mutant: { name, file, survives }, ran: { result, detail, seconds } }: Tried): string {
  const word = result === 'green' ? (survives === undefined ? 'SURVIVED' : 'survived') : WORDS[result]
  const by = detail.split('\n', 1)[0]?.slice(0, 120) ?? ''
  return `${word.padEnd(8)} ${seconds.toFixed(1).padStart(5)} s  ${file}: ${name}${by === '' ? '' : `\n${' '.repeat(18)}${by}`}`
}

const WORDS = { red: 'caught', hung: 'caught', broken: 'BROKEN' } as const

function judge(tried: readonly Tried[]): number {
  const broken = tried.filter(({ ran }) => ran.result === 'broken')
  const survivors = tried.filter(({ ran }) => ran.result === 'green')
  const caught = tried.length - broken.length - survivors.length
  for (const { mutant, ran } of broken) console.log(`\nBROKEN ${mutant.name}\n${ran.detail}`)
  if (survivors.length > 0) console.log('\nsurvivors:')
  for (const { mutant } of survivors)
    console.log(`  ${mutant.file}: ${mutant.name}\n    ${mutant.survives ?? 'NO REASON GIVEN'}`)
  const known = tried.filter(({ mutant, ran }) => mutant.survives !== undefined && ran.result !== 'green')
  for (const { mutant } of known) console.log(`caught, though it has a reason to survive: ${mutant.name}`)
  const score = caught / tried.length
  console.log(`\n${caught} of ${tried.length} caught: ${(score * 100).toFixed(1)} %`)
  const isExplained = survivors.every(({ mutant }) => mutant.survives !== undefined)
  return broken.length === 0 && known.length === 0 && isExplained && score >= SCORE_MIN ? 0 : 1
}

function say(text: string, code: number): number {
  console.log(text)
  return code
}
