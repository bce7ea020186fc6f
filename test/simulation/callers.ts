import { cellOf } from '../../src/values/cell.ts'
import { TocsinError } from '../../src/errors.ts'
import type { Tx } from '../../src/values/tx.ts'
import type { NewTask, Scheduled } from '../../src/task.ts'
import type { Chance } from './chance.ts'
import { KILLER } from './handlers.ts'
import type { Op } from './history.ts'
import type { Life } from './node.ts'
import type { Payload, Recorder } from './recorder.ts'
import type { Servers } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

interface CallersParts {
  readonly world: WorldClock
  readonly recorder: Recorder
  readonly chance: Chance
  readonly servers: Servers
  /** Processes that run now. */
  readonly lives: () => readonly Life[]
  /** Callers may use transactions of their own. */
  readonly canTransact: boolean
  /**
   * Transactions may stay open for seconds, with rows locked. Then the claims of these rows come later than the sweeper
   * looks for them.
   */
  readonly hasLongTransactions: boolean
  readonly callEveryMs: number
  readonly aheadMs: number
  readonly cells: number
  readonly untilMs: number
}

export interface Acknowledged {
  readonly dueMs: number
  /** When, by the simulation's clock. */
  readonly atMs: number
  readonly life: string
  readonly isInTransaction: boolean
}

interface Answered {
  readonly outcome: string | null
  readonly dueMs?: number | null
  readonly inFlight?: boolean
  readonly version?: string | null
}

/** Later than any run lasts: such a task is still pending at the end. */
const FAR_MS = 86_400_000
const TAGS = ['red', 'green', 'blue']

const OPS = {
  schedule: 45,
  many: 4,
  replace: 7,
  keep: 4,
  cancel: 6,
  reschedule: 5,
  get: 5,
  cancelBy: 1,
  rescheduleBy: 1,
  transaction: 9,
  replay: 2,
  purge: 1,
}

/** Programs that use Tocsin: they call at random times, from every process, and remember what they have scheduled. */
export class Callers {
  readonly #parts: CallersParts
  readonly #keys: string[] = []
  /** What was acknowledged last of each key. */
  readonly acknowledged = new Map<string, Acknowledged>()
  #made = 0
  #versions = 0

  constructor(parts: CallersParts) {
    this.#parts = parts
  }

  get keys(): readonly string[] {
    return this.#keys
  }

  start(): void {
    this.#next()
  }

  /** Schedules a task in a handler's transaction, as long as callers are active. Throws if that fails. */
  async writeIn(life: Life, tx: Tx): Promise<number | null> {
    if (this.#parts.world.nowMs > this.#parts.untilMs) return null
    const number = this.#parts.servers.numberOf(tx)
    const before = this.#failures
    await this.#schedule(life, this.#newKey(), {}, { tx, number })
    if (this.#failures > before) throw new Error('what the handler wrote failed')
    return number
  }

  #next(): void {
    const { world, chance, callEveryMs, untilMs } = this.#parts
    const inMs = -Math.log(1 - chance.fraction()) * callEveryMs
    if (world.nowMs + inMs > untilMs) return
    world.after(inMs, () => {
      this.#anywhere((life) => this.#act(life))
      this.#next()
    })
  }

  /** Acts in a random process that runs. One that is stopped acts when it resumes. */
  #anywhere(act: (life: Life) => Promise<void>): void {
    const lives = this.#parts.lives()
    if (lives.length === 0) return
    const life = this.#parts.chance.pick(lives)
    life.clock.reach(() => void act(life))
  }

  #act(life: Life): Promise<void> {
    const { chance, canTransact } = this.#parts
    const drawn = chance.weighted(OPS)
    const op = this.#keys.length === 0 || (drawn === 'transaction' && !canTransact) ? 'schedule' : drawn
    switch (op) {
      case 'schedule':
        return this.#schedule(life, this.#newKey())
      case 'replace':
        return this.#schedule(life, this.#someKey())
      case 'keep':
        return this.#schedule(life, this.#someKey(), { onConflict: 'keep' })
      case 'many':
        return this.#scheduleMany(life)
      case 'cancel':
        return this.#cancel(life, this.#someKey())
      case 'reschedule':
        return this.#reschedule(life, this.#someKey())
      case 'get':
        return this.#get(life, this.#someKey())
      case 'cancelBy':
        return quietly(life.topic.cancelBy({ tag: chance.pick(TAGS) }))
      case 'rescheduleBy':
        return quietly(life.topic.rescheduleBy({ tag: chance.pick(TAGS) }, { shift: '+500ms' }))
      case 'replay':
        return this.#dead(life, 'replay')
      case 'purge':
        return this.#dead(life, 'purge')
      case 'transaction':
        return this.#transact(life)
    }
  }

  async #schedule(life: Life, key: string, more: Partial<NewTask<Payload>> = {}, tx: InTx | null = null) {
    const task = this.#task(key, more)
    const scheduled = await this.#call(life, 'schedule', key, task, tx, async () =>
      answerOf(await life.topic.schedule(task, tx === null ? {} : { tx: tx.tx })),
    )
    const dueMs = scheduled?.dueMs ?? null
    if (dueMs === null || tx !== null) return
    if (this.#parts.chance.is(0.3)) await this.#get(life, key)
    if (this.#parts.chance.is(0.25)) this.#meddle(key, task.delay as number)
  }

  /** Cancels, moves or replaces the task just when it fires, or shortly before or after. */
  #meddle(key: string, delayMs: number): void {
    const { world, chance } = this.#parts
    world.after(Math.max(0, delayMs + chance.between(-10, 60)), () =>
      this.#anywhere((life) => {
        const transaction = this.#parts.canTransact ? 2 : 0
        const way = chance.weighted({ cancel: 5, reschedule: 2, schedule: 2, transaction })
        if (way === 'transaction') return this.#transact(life, key)
        if (way === 'cancel') return this.#cancel(life, key)
        return way === 'reschedule' ? this.#reschedule(life, key) : this.#schedule(life, key)
      }),
    )
  }

  async #scheduleMany(life: Life): Promise<void> {
    const { recorder, chance } = this.#parts
    const tasks = Array.from({ length: chance.whole(2, 30) }, () => this.#task(this.#newKey()))
    const calls = tasks.map((task) => this.#called(life, 'schedule', task.key as string, task, null))
    try {
      const answers = await life.topic.scheduleMany(tasks)
      answers.forEach((answer, i) => this.#returned(calls[i] as number, answerOf(answer)))
    } catch (error) {
      // Part of the batch may be written, even if the error code says that the failed part was not.
      for (const call of calls) {
        const code = codeOf(error)
        recorder.tell({
          ...NOTHING,
          kind: 'return',
          call,
          error: code === 'interrupted' ? 'unknown-outcome' : code,
        })
      }
    }
  }

  async #cancel(life: Life, key: string, tx: InTx | null = null): Promise<void> {
    await this.#call(life, 'cancel', key, null, tx, async () => {
      const { outcome } = await life.topic.cancel(key, tx === null ? {} : { tx: tx.tx })
      return { outcome }
    })
  }

  async #reschedule(life: Life, key: string, tx: InTx | null = null): Promise<void> {
    await this.#call(life, 'reschedule', key, null, tx, async () => {
      const when = { delay: this.#delayMs() }
      const { outcome, dueAt } = await life.topic.reschedule(key, when, tx === null ? {} : { tx: tx.tx })
      return { outcome, dueMs: dueAt?.getTime() ?? null }
    })
  }

  async #get(life: Life, key: string): Promise<void> {
    await this.#call(life, 'get', key, null, null, async () => {
      const info = await life.topic.get(key)
      if (info === null) return { outcome: 'not-found' }
      return { outcome: info.state, version: (info.payload as Payload).v }
    })
  }

  async #dead(life: Life, op: 'replay' | 'purge'): Promise<void> {
    const page = await life.topic.list({ state: 'dead', limit: 20 }).catch(() => null)
    const dead = page?.tasks ?? []
    if (dead.length === 0) return
    const { key } = this.#parts.chance.pick(dead)
    // The key has a live task again: replaying or purging the dead one must not touch it.
    if (this.#parts.chance.is(0.4)) await this.#schedule(life, key)
    if (op === 'replay' && this.#parts.chance.is(0.3)) {
      // A newer task of the key that was cancelled supersedes the dead one as well as a live one does.
      if (this.#parts.chance.is(0.5)) await this.#cancel(life, key)
      return quietly(life.topic.dead.replay({ all: true }))
    }
    await this.#call(life, op, key, null, null, async () => {
      if (op === 'purge') {
        const { purged } = await life.topic.dead.purge({ keys: [key] })
        return { outcome: purged === 1 ? 'purged' : 'not-found' }
      }
      const { replayed } = await life.topic.dead.replay({ keys: [key] })
      return { outcome: replayed === 1 ? 'replayed' : 'not-found' }
    })
  }

  /** Makes some writes in one transaction, with pauses; then commits it, perhaps late, or rolls it back. */
  async #transact(life: Life, first: string | null = null): Promise<void> {
    const { chance, servers, world, hasLongTransactions } = this.#parts
    const transaction = servers.begin()
    const { tx, number } = transaction
    const inTx = { tx, number }
    const undo = () => {
      if (tx.isOpen) tx.rollback()
    }
    life.undo.add(undo)
    let isSpoiled = false
    for (let n = chance.whole(1, 4); n > 0 && !isSpoiled && tx.isOpen; n--) {
      const way = chance.weighted({ schedule: first === null ? 6 : 0, replace: 2, cancel: 2, reschedule: 2 })
      const before = this.#failures
      const key = first ?? this.#someKey()
      if (way === 'schedule') await this.#schedule(life, this.#newKey(), {}, inTx)
      else if (way === 'replace') await this.#schedule(life, key, {}, inTx)
      else if (way === 'cancel') await this.#cancel(life, key, inTx)
      else await this.#reschedule(life, key, inTx)
      isSpoiled = this.#failures > before
    }
    const heldMs = chance.pick(hasLongTransactions ? [0, 5, 200, 3_000, 8_000] : [0, 5, 200])
    await new Promise<void>((resolve) => world.after(heldMs, () => life.clock.reach(resolve)))
    life.undo.delete(undo)
    if (!tx.isOpen) return
    // Committed only while its process lives. A crash right after the commit loses the reply.
    if (isSpoiled || chance.is(0.3)) tx.rollback()
    else transaction.commit()
  }

  /** Calls that failed so far. */
  #failures = 0

  async #call(
    life: Life,
    op: Op,
    key: string,
    task: Given | null,
    tx: InTx | null,
    work: () => Promise<Answered>,
  ): Promise<Answered | null> {
    const call = this.#called(life, op, key, task, tx)
    try {
      const answered = await work()
      this.#returned(call, answered)
      const { dueMs } = answered
      const [atMs, isInTransaction] = [this.#parts.world.nowMs, tx !== null]
      // A call that kept an existing task wrote nothing, and no hint follows.
      if (typeof dueMs === 'number' && answered.outcome !== 'kept')
        this.acknowledged.set(key, { dueMs, atMs, life: life.name, isInTransaction })
      return answered
    } catch (error) {
      this.#failures++
      this.#parts.recorder.tell({ ...NOTHING, kind: 'return', call, error: codeOf(error) })
      return null
    }
  }

  #called(life: Life, op: Op, key: string, task: Given | null, tx: InTx | null): number {
    const { recorder } = this.#parts
    const call = recorder.nextCall()
    recorder.tell({
      kind: 'call',
      call,
      life: life.name,
      op,
      key,
      version: task?.payload.v ?? null,
      tx: tx?.number ?? null,
      delayMs: task === null ? null : (task.delay as number),
      onConflict: task === null ? null : (task.onConflict ?? 'replace'),
    })
    return call
  }

  #returned(call: number, { outcome, dueMs = null, inFlight = false, version = null }: Answered): void {
    this.#parts.recorder.tell({ kind: 'return', call, outcome, dueMs, inFlight, error: null, version })
  }

  #task(key: string, more: Partial<NewTask<Payload>> = {}): Given {
    const { chance } = this.#parts
    const isKiller = chance.is(0.0015)
    const text = isKiller ? KILLER : 'x'.repeat(chance.whole(0, 20))
    return {
      key,
      delay: this.#delayMs(),
      payload: { v: `v${++this.#versions}`, text },
      ...(chance.is(0.2) ? { tags: [chance.pick(TAGS)] } : {}),
      ...(chance.is(0.2) ? { priority: chance.pick(['high', 'low'] as const) } : {}),
      ...more,
    } as Given
  }

  #delayMs(): number {
    const { chance } = this.#parts
    const kind = chance.weighted({ now: 5, soon: 40, later: 50, far: 3 })
    if (kind === 'now') return 0
    if (kind === 'soon') return chance.whole(1, 2_000)
    return kind === 'far' ? FAR_MS : chance.whole(1, this.#parts.aheadMs)
  }

  #newKey(): string {
    let key: string
    do key = `k${++this.#made}`
    while (cellOf(key, 'key') >= this.#parts.cells)
    this.#keys.push(key)
    return key
  }

  /** Prefers recent keys: they are more likely to have a live task. */
  #someKey(): string {
    const back = Math.floor(-Math.log(1 - this.#parts.chance.fraction()) * 40)
    return this.#keys[Math.max(0, this.#keys.length - 1 - back)] ?? this.#newKey()
  }
}

type Given = NewTask<Payload> & { readonly payload: Payload }

interface InTx {
  readonly tx: Tx
  readonly number: number
}

const NOTHING = { outcome: null, dueMs: null, inFlight: false, version: null } as const

function answerOf({ outcome, dueAt, inFlight }: Scheduled): Answered {
  return { outcome, dueMs: dueAt.getTime(), inFlight: inFlight === true }
}

function codeOf(error: unknown): string {
  return TocsinError.is(error) ? error.code : `thrown: ${String(error)}`
}

async function quietly(work: Promise<unknown>): Promise<void> {
  await work.catch(() => {})
}
