/** The hand-made mutants. The list and its runner are in test/mutants. */
import { join } from 'node:path'
import { bin, root, run as runProgram } from '../bootstrap.mjs'

const COMPILED = join(root, 'node_modules/.tocsin-mutants')

/** Resolves to whether enough mutants were caught, and every survivor has its reason. */
export async function run(args) {
  const compiled = await runProgram(process.execPath, [bin('typescript', 'tsc'), '-p', 'test/mutants'])
  if (compiled !== 0) return false
  const { runHandMutants } = await import(join(COMPILED, 'test/mutants/hand-run.js'))
  return (await runHandMutants(root, args)) === 0
}
