/**
 * Vitest's test runner, which goes on after the tests of a file have passed: it turns on one mutant after the other, loads
 * the file and the source anew, and runs the tests that reach the mutant until one fails.
 */
import { appendFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTests } from '@vitest/runner'
import fc from 'fast-check'
import { inject, TestRunner, vi } from 'vitest'

/** The number of no mutant. */
const NONE = 0

/** A mutant may make a loop endless: it has this long, or many times as long as the sound code takes. */
const DEADLINE_MS = 5_000
const TIMES_SLOWER_MAX = 20

// The smallest failing case is of no interest here, and takes long to find.
fc.configureGlobal({ endOnFailure: true })

const state = { active: NONE, deadlineMs: Infinity, calls: 0, reached: new Set() }

globalThis.__mutant = (id) => {
  if (state.active === NONE) {
    state.reached.add(id)
    return false
  }
  // The clock is read now and then only: this is called at every step of the code under test.
  state.calls += 1
  if (state.calls % 1_000 === 0 && performance.now() > state.deadlineMs)
    throw new Error('the mutant does not end')
  return id === state.active
}

export default class MutationRunner extends TestRunner {
  #isMutated = false
  #hasFailed = false
  /** By the name of a test: the mutants it reaches. */
  #reachedBy = new Map()
  /** The mutants reached while modules load: every test of the file may depend on them. */
  #reachedOnLoad = new Set()

  onCollected(files) {
    super.onCollected?.(files)
    if (!this.#isMutated) this.#reachedOnLoad = takeReached()
  }

  async onBeforeRunTask(test) {
    if (this.#isMutated && (this.#hasFailed || !this.#reaches(test, state.active))) test.mode = 'skip'
    await super.onBeforeRunTask(test)
  }

  onTaskFinished(test) {
    if (this.#isMutated) this.#hasFailed ||= test.result?.state === 'fail'
    else this.#reachedBy.set(nameOf(test), takeReached())
  }

  // oxlint-disable-next-line typescript/no-misused-promises -- Vitest awaits it.
  async onAfterRunFiles(files) {
    super.onAfterRunFiles(files)
    if (this.#isMutated) return
    const [file] = files
    const { folder, mutants } = inject('mutation')
    if (file.result?.state === 'fail') {
      writeFileSync(join(folder, `broken-${file.id}`), file.filepath)
      return
    }
    await this.#runMutants(file, folder, ownFirst(mutants, file.filepath))
  }

  async #runMutants(file, folder, mutants) {
    const tookMs = file.result?.duration ?? 0
    const reached = new Set([
      ...this.#reachedOnLoad,
      ...[...this.#reachedBy.values()].flatMap((ids) => [...ids]),
    ])
    const quiet = this.#quiet()
    this.#isMutated = true
    for (const { id } of mutants) {
      if (!reached.has(id)) continue
      appendFileSync(join(folder, 'reached'), `${id}\n`)
      // Another file's tests have seen it.
      if (existsSync(join(folder, `killed-${id}`))) continue
      this.#hasFailed = false
      state.active = id
      state.deadlineMs = performance.now() + Math.max(DEADLINE_MS, tookMs * TIMES_SLOWER_MAX)
      vi.resetModules()
      const [outcome] = await startTests([file.filepath], quiet)
      state.active = NONE
      if (this.#hasFailed || outcome.result?.state === 'fail') writeFileSync(join(folder, `killed-${id}`), '')
    }
  }

  /** This runner, without telling Vitest of the tests that it runs again. */
  #quiet() {
    const told = { onTaskUpdate: async () => {}, onCollected: () => {}, onAfterRunFiles: () => {} }
    return new Proxy(this, {
      get: (target, name) => {
        if (Object.hasOwn(told, name)) return told[name]
        const value = Reflect.get(target, name, target)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
  }

  #reaches(test, id) {
    return this.#reachedOnLoad.has(id) || this.#reachedBy.get(nameOf(test))?.has(id) === true
  }
}

function takeReached() {
  const { reached } = state
  state.reached = new Set()
  return reached
}

/** The mutants of the file that the tests stand beside come first: most of them fail there, and no other file has to run them. */
function ownFirst(mutants, testFile) {
  const isOwn = ({ file }) => testFile.endsWith(file.replace(/\.ts$/, '.test.ts'))
  return [...mutants.filter(isOwn), ...mutants.filter((one) => !isOwn(one))]
}

function nameOf(test) {
  return test.suite === undefined ? test.name : `${nameOf(test.suite)} > ${test.name}`
}
