import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import type { Plan } from './plan.ts'
import type { RunReport } from './run.ts'

/** The plan could not be carried out to its end. */
export interface Broken {
  readonly seed: number
  readonly broke: string
}

/** Processes that carry out plans, so that all processors are used; and a planted bug may do there what it likes. */
export class Crew {
  readonly #workers: ChildProcess[]
  readonly #idle: ChildProcess[]
  readonly #waiting: ((worker: ChildProcess) => void)[] = []

  /** `compiled`: where the compiler has put the simulator. */
  constructor(compiled: string, size: number) {
    this.#workers = Array.from({ length: size }, () =>
      // In a group of its own: Ctrl-C is for whoever asked for the runs, who wants to hear how they end.
      fork(join(compiled, 'test/simulation/worker.js'), { execArgv: [], detached: true }),
    )
    this.#idle = [...this.#workers]
  }

  async run(plan: Plan): Promise<RunReport | Broken> {
    const worker = this.#idle.pop() ?? (await new Promise<ChildProcess>((free) => this.#waiting.push(free)))
    try {
      return await new Promise((resolve, reject) => {
        const ended = () => reject(new Error(`seed ${plan.seed}: its process ended`))
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
