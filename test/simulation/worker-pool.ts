import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import type { Plan } from './plan.ts'
import type { RunReport } from './run.ts'

/** A run that ended with an exception instead of a history. */
export interface Broken {
  readonly seed: number
  readonly broke: string
}

/** Worker processes that run plans: they use all processors, and isolate what a planted bug does. */
export class WorkerPool {
  readonly #workers: ChildProcess[]
  readonly #idle: ChildProcess[]
  readonly #waiting: ((worker: ChildProcess) => void)[] = []

  /** `compiled` is the folder of the compiled simulator. */
  constructor(compiled: string, size: number) {
    this.#workers = Array.from({ length: size }, () =>
      // In a process group of its own: Ctrl-C must reach only the parent, which then waits for the runs in progress.
      fork(join(compiled, 'test/simulation/worker.js'), { execArgv: [], detached: true }),
    )
    this.#idle = [...this.#workers]
  }

  async run(plan: Plan): Promise<RunReport | Broken> {
    const worker = this.#idle.pop() ?? (await new Promise<ChildProcess>((free) => this.#waiting.push(free)))
    try {
      return await new Promise((resolve, reject) => {
        const ended = () => reject(new Error(`seed ${plan.seed}: its worker process ended`))
        worker.once('exit', ended)
        worker.once('message', (report) => {
          worker.off('exit', ended)
          resolve(report as RunReport | Broken)
        })
        worker.send(plan)
      })
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#idle.push(worker)
      else next(worker)
    }
  }

  async close(): Promise<void> {
    await Promise.all(
      this.#workers.map(
        (worker) =>
          new Promise((resolve) => {
            if (worker.exitCode !== null || worker.signalCode !== null) return resolve(null)
            worker.once('exit', resolve)
            worker.kill('SIGKILL')
          }),
      ),
    )
  }
}
