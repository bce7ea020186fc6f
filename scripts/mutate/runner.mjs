/**
 * Vitest's test runner, which goes on after the tests of a file have passed: it turns on one mutant after the other, loads
 * the file and the source anew, and runs the tests that reach the mutant until one fails.
 */
import { appendFileSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startTests } from '@vitest/runner'
import fc from 'fast-check'
import { inject, TestRunner, vi } from 'vitest'

/** The number of no mutant. */
const NONE = 0

/** A mutant may make a loop endless: it has this much, or many times as much as the sound code takes. */
const DEADLINE_MS = 5_000
const CALLS_MAX = 100_000
const TIMES_SLOWER_MAX = 5

// The smallest failing case is of no interest here, and takes long to find.
fc.configureGlobal({ endOnFailure: true })

const state = { active: NONE, deadlineMs: Infinity, calls: 0, callsMax: 0, reached: new Set() }

globalThis.__mutant = (id) => {
  state.calls += 1
  if (state.active === NONE) {
    state.reached.add(id)
    return false
  }
  // The clock is read now and then only: this is called at every step of the code under test.
  if (state.calls > state.callsMax || (state.calls % 1_000 === 0 && performance.now() > state.deadlineMs))
    throw new Error('the mutant does not end')
  return id === state.active
}

export default class MutationRunner extends TestRunner {
  #isMutated = false
  #failure = null
  /** By the name of a test: the mutants it reaches. */
  #reachedBy = new Map()
  /** The mutants reached while modules load: every test of the file may depend on them. */
  #reachedOnLoad = new Set()

  onCollected(files) {
    super.onCollected?.(files)
    if (!this.#isMutated) this.#reachedOnLoad = takeReached()
  }

  async onBeforeRunTask(test) {
    if (this.#isMutated && (this.#failure !== null || !this.#reaches(test, state.active))) test.mode = 'skip'
    await super.onBeforeRunTask(test)
  }

  onTaskFinished(test) {
    if (test.result?.state === 'fail')
      this.#failure ??= `${nameOf(test)}: ${test.result.errors?.[0]?.message}`
    if (this.#isMutated) return
    this.#reachedBy.set(nameOf(test), takeReached())
  }

  // oxlint-disable-next-line typescript/no-misused-promises -- Vitest awaits it.
  async onAfterRunFiles(files) {
    super.onAfterRunFiles(files)
    if (this.#isMutated) return
    const [file] = files
    const { folder, mutants, isOwnOnly } = inject('mutation')
    if (file.result?.state === 'fail') {
      const why = this.#failure ?? file.result.errors?.[0]?.message
      writeFileSync(join(folder, `broken-${file.id}`), `${file.filepath}: ${why}`)
      return
    }
    const isOwn = ({ path }) => file.filepath.endsWith(path.replace(/\.ts$/, '.test.ts'))
    await this.#runMutants(file, folder, idsOf(isOwnOnly ? mutants.filter(isOwn) : mutants))
  }

  async #runMutants(file, folder, ids) {
    const reached = new Set([
      ...this.#reachedOnLoad,
      ...[...this.#reachedBy.values()].flatMap((ids) => [...ids]),
    ])
    const soundMs = file.result?.duration ?? 0
    const soundCalls = state.calls
    const tried = join(folder, `tried-${file.id}`)
    const running = join(folder, `running-${file.id}`)
    const isTried = idsIn(tried)
    const quiet = this.#quiet()
    this.#isMutated = true
    // Many mutants wait for ever, and the usual time limit is long.
    this.config.testTimeout = Math.min(this.config.testTimeout, DEADLINE_MS + soundMs * TIMES_SLOWER_MAX)
    for (const id of ids) {
      if (!reached.has(id) || isTried.has(id)) continue
      appendFileSync(tried, `${id}\n`)
      const killed = join(folder, `killed-${id}`)
      // The tests of another file have noticed it.
      if (existsSync(killed)) continue
      // If the mutant ends this process, scripts/mutate/pure.mjs finds its number here.
      writeFileSync(running, String(id))
      this.#failure = null
      state.active = id
      state.calls = 0
      state.callsMax = CALLS_MAX + soundCalls * TIMES_SLOWER_MAX
      state.deadlineMs = performance.now() + DEADLINE_MS + soundMs * TIMES_SLOWER_MAX
      vi.resetModules()
      const [outcome] = await startTests([file.filepath], quiet)
      state.active = NONE
      if (this.#failure !== null || outcome.result?.state === 'fail') writeFileSync(killed, '')
    }
    rmSync(running, { force: true })
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

function idsIn(path) {
  return new Set(existsSync(path) ? readFileSync(path, 'utf8').split('\n').filter(Boolean).map(Number) : [])
}

function takeReached() {
  const { reached } = state
  state.reached = new Set()
  return reached
}

/** The numbers of the mutants of these files: each file has `length` of them, from `first` on. */
function idsOf(files) {
  return files.flatMap(({ first, length }) => Array.from({ length }, (_, n) => first + n))
}

function nameOf(test) {
  return test.suite === undefined ? test.name : `${nameOf(test.suite)} > ${test.name}`
}
