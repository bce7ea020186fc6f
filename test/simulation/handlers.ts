import type { Outcome, Task } from '../../src/task.ts'
import type { Tx } from '../../src/values/tx.ts'
import type { Chance } from './chance.ts'
import type { Life } from './node.ts'
import type { Payload, Recorder } from './recorder.ts'
import type { WorldClock } from './world-clock.ts'

/** How a handler takes its task. What a task does to its handler is drawn for each run anew; a killer stays one. */
export const WAYS = {
  quick: 60,
  slow: 12,
  throws: 9,
  snoozes: 4,
  retries: 2,
  rejects: 1,
  hangs: 1,
  longer: 2,
}

/** The text in a payload that makes a task kill any process or client that handles it. */
export const KILLER = 'killer'

interface HandlerParts {
  readonly world: WorldClock
  readonly recorder: Recorder
  readonly chance: Chance
  readonly leaseMs: number
  readonly recordMs: () => number
  readonly crash: () => void
  /** Schedules something in the transaction of the handler; answers how that is called. */
  readonly writeIn: (life: Life, tx: Tx) => Promise<number | null>
}

/** What users' handlers do: quickly, slowly, badly, or never. */
export class Handlers {
  readonly #parts: HandlerParts
  readonly #life: Life

  constructor(life: Life, parts: HandlerParts) {
    this.#life = life
    this.#parts = parts
  }

  async one(
    task: Task<Payload>,
    { tx, batch }: { readonly tx?: Tx; readonly batch?: number } = {},
  ): Promise<Outcome | void> {
    const { recorder, chance, crash } = this.#parts
    const run = recorder.nextRun()
    const life = this.#life.name
    const { key, payload, id, attempt, deliveries, dueAt, tags, priority } = task
    recorder.tell({
      kind: 'start',
      life,
      run,
      key,
      version: payload.v,
      body: JSON.stringify(payload),
      id,
      attempt,
      deliveries,
      dueMs: dueAt.getTime(),
      tags,
      priority,
      recordMs: this.#parts.recordMs(),
      ...(batch === undefined ? {} : { batch }),
    })
    let written: number | null = null
    const end = (outcome: 'done' | 'throw' | 'retry' | 'snooze' | 'dead', delayMs: number | null = null) =>
      recorder.tell({ kind: 'end', life, run, outcome, delayMs, tx: written })
    if (payload.text.startsWith(KILLER)) {
      await this.#sleep(chance.between(0, 50))
      crash()
      return new Promise<never>(() => {})
    }
    const way = chance.weighted(WAYS)
    if (way === 'hangs') return new Promise<never>(() => {})
    if (tx !== undefined && chance.is(0.5)) written = await this.#parts.writeIn(this.#life, tx)
    await this.#sleep(takesMs(way, this.#parts.leaseMs, chance))
    if (way === 'throws') {
      end('throw')
      throw new Error('the handler failed')
    }
    const delayMs = chance.whole(50, 1_500)
    if (way === 'snoozes') {
      end('snooze', delayMs)
      return { snooze: delayMs }
    }
    if (way === 'retries') {
      end('retry', delayMs)
      return { retry: delayMs }
    }
    if (way === 'rejects') {
      end('dead')
      return { dead: 'the handler does not want it' }
    }
    end('done')
  }

  async batch(tasks: readonly Task<Payload>[]): Promise<PromiseSettledResult<Outcome | void>[]> {
    const batch = this.#parts.recorder.nextRun()
    return Promise.allSettled(tasks.map((task) => this.one(task, { batch })))
  }

  /** Not by the engine's clock: timers that it leaves behind are counted. */
  #sleep(ms: number): Promise<void> {
    if (ms === 0) return Promise.resolve()
    return new Promise((resolve) => this.#parts.world.after(ms, () => this.#life.clock.reach(resolve)))
  }
}

export function takesMs(way: keyof typeof WAYS, leaseMs: number, chance: Chance): number {
  if (way === 'slow') return chance.between(20, 400)
  // Longer than its lease: it has to be kept.
  if (way === 'longer') return chance.between(leaseMs, leaseMs * 2)
  return chance.is(0.5) ? 0 : chance.between(0, 20)
}
