import type { Verdict } from '../../src/consume/verdict.ts'
import type { HttpPull, PulledTask } from '../../src/pull/http-pull.ts'
import { decodeToken } from '../../src/pull/pull-token.ts'
import type { Chance } from './chance.ts'
import { KILLER, takesMs, WAYS } from './handlers.ts'
import type { AskEvent, EndEvent } from './history.ts'
import type { Life } from './node.ts'
import type { Payload, Recorder } from './recorder.ts'
import { TOPIC } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

/** So many ask at a time. */
const WORKERS = 3
/** Whoever asked and heard nothing for so long asks somebody else. */
const PATIENCE_MS = 3_000
const TRIES_MAX = 8

interface BearersParts {
  readonly world: WorldClock
  readonly recorder: Recorder
  readonly chance: Chance
  /** Processes that run now: a task may be settled at any of them. */
  readonly lives: () => readonly Life[]
  readonly leaseMs: number
  /** How often anything is looked at by itself: in runs of hours nobody asks every second. */
  readonly lookMs: number
  /** So many tasks are borne at a time, or nearly. */
  readonly capacity: number
  readonly recordMs: () => number
  /** A task took its bearer down. */
  readonly onDeath: () => void
}

/** What one answer brought, to one program: it dies with all of it. */
interface Answer {
  readonly count: number
  readonly leaseMs: number
  readonly asking: Asking[]
  isDead: boolean
}

interface Asking {
  readonly task: PulledTask
  readonly what: AskEvent['what']
  readonly verdict: Verdict | null
  readonly told: (answer: 'settled' | 'extended' | 'stale' | 'failed') => void
}

/**
 * Programs that are in no process of ours, and pull tasks from one. What they bear is theirs, whatever becomes of that
 * process: they prolong and settle it at any other. Some are slow, hang up, vanish, ask twice, or do not listen.
 */
export class Bearers {
  readonly #parts: BearersParts
  readonly #life: Life
  readonly #name: string
  #borne = 0

  constructor(life: Life, parts: BearersParts) {
    this.#life = life
    this.#parts = parts
    this.#name = `${life.name}>`
  }

  start(): void {
    for (let n = 0; n < WORKERS; n++) void this.#work()
  }

  /** As long as the process answers. */
  async #work(): Promise<void> {
    const { chance, capacity, lookMs } = this.#parts
    for (let goesOn = true; goesOn;) {
      const room = capacity - this.#borne
      const brought = room > 0 ? await this.#pull(Math.min(room, chance.pick([1, 2, 8, 30]))) : 0
      if (brought === 0) await this.#sleep(chance.between(0, lookMs / 50))
      goesOn = brought !== null && this.#parts.lives().includes(this.#life)
    }
  }

  /** Answers how many it got; null: nobody is there any more. */
  #pull(limit: number): Promise<number | null> {
    const { clock } = this.#life
    return new Promise((resolve) => clock.reach(() => void this.#claim(limit).then(resolve)))
  }

  async #claim(limit: number): Promise<number | null> {
    const { world, recorder, chance, lookMs } = this.#parts
    const { name, clock } = this.#life
    const httpPull = deskOf(this.#life)
    if (httpPull === null) return null
    const leaseMs = chance.pick([this.#parts.leaseMs, this.#parts.leaseMs, 2_000, 5_000])
    const waitMs = chance.pick([0, lookMs / 50, lookMs / 5, lookMs / 2])
    const pull = recorder.nextCall()
    recorder.tell({ kind: 'pull', pull, life: name, limit })
    const { signal, abort } = abortable()
    if (chance.is(0.15)) world.after(chance.between(0, Math.min(waitMs, 1_000) + 5), () => clock.reach(abort))
    const tasks = await httpPull.claim(limit, leaseMs, waitMs, signal)
    recorder.tell({ kind: 'pulled', pull, count: tasks.length, isGone: signal.aborted })
    // The connection broke just when it was answered: whoever asked has not got them.
    if (tasks.length > 0 && chance.is(0.03)) {
      await httpPull.giveBack(tasks)
      return tasks.length
    }
    const answer: Answer = { count: tasks.length, leaseMs, asking: [], isDead: false }
    for (const task of tasks) void this.#bear(task, answer)
    return tasks.length
  }

  async #bear(task: PulledTask, answer: Answer): Promise<void> {
    this.#borne++
    await this.#handle(task, answer)
    this.#borne--
  }

  async #handle(task: PulledTask, answer: Answer): Promise<void> {
    const { recorder, chance, onDeath } = this.#parts
    const run = recorder.nextRun()
    const life = this.#name
    const { key, id, attempt, deliveries, dueAt, tags, priority } = task
    const payload = task.payload as Payload
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
      token: tokenOf(task),
      beside: answer.count - 1,
    })
    if (payload.text.startsWith(KILLER)) {
      await this.#sleep(chance.between(0, 50))
      answer.isDead = true
      return onDeath()
    }
    const way = chance.weighted(WAYS)
    if (way === 'hangs') return
    const isStillBorne = await this.#takeTime(task, answer, takesMs(way, answer.leaseMs, chance), way)
    if (!isStillBorne || answer.isDead) return
    const delayMs = chance.whole(50, 1_500)
    const end = (outcome: EndEvent['outcome'], ms: number | null = null) =>
      recorder.tell({ kind: 'end', life, run, outcome, delayMs: ms, tx: null })
    const settle = (what: AskEvent['what'], verdict: Verdict) => this.#settle(task, answer, what, verdict)
    if (way === 'throws') {
      end('throw')
      return settle('failed', { kind: 'failed', delayMs: null, error: 'its bearer failed' })
    }
    if (way === 'retries') {
      end('retry', delayMs)
      return settle('failed', { kind: 'failed', delayMs, error: 'its bearer asked for a retry' })
    }
    if (way === 'snoozes') {
      end('snooze', delayMs)
      return settle('snooze', { kind: 'snooze', delayMs })
    }
    if (way === 'rejects') {
      end('dead')
      return settle('dead', { kind: 'dead', error: 'its bearer does not want it' })
    }
    end('done')
    return settle('done', { kind: 'done' })
  }

  /** Its lease has to be kept meanwhile. Not everybody does; and some stop working when they hear that it is lost. */
  async #takeTime(task: PulledTask, answer: Answer, ms: number, way: keyof typeof WAYS): Promise<boolean> {
    const { chance, world } = this.#parts
    const endMs = world.nowMs + ms
    const keepsIt = way === 'longer' && chance.is(0.75)
    while (keepsIt && endMs - world.nowMs > answer.leaseMs * 0.6) {
      await this.#sleep(answer.leaseMs * chance.between(0.3, 0.6))
      if (answer.isDead) return false
      const told = await this.#ask(answer, { task, what: 'extend', verdict: null })
      if (told === 'stale' && chance.is(0.5)) return false
    }
    await this.#sleep(endMs - world.nowMs)
    return true
  }

  async #settle(task: PulledTask, answer: Answer, what: AskEvent['what'], verdict: Verdict): Promise<void> {
    const { chance } = this.#parts
    for (let n = 0; n < TRIES_MAX; n++) {
      if (answer.isDead) return
      const told = await this.#ask(answer, { task, what, verdict })
      // Asked again by somebody who has not listened.
      if (told !== 'failed' && !chance.is(0.1)) return
      await this.#sleep(chance.between(0, 1_000))
    }
  }

  /** What one program has to say at the same time it says in one call. */
  #ask(answer: Answer, asking: Omit<Asking, 'told'>): Promise<Parameters<Asking['told']>[0]> {
    const { world, chance } = this.#parts
    return new Promise((resolve) => {
      const callOff = world.after(PATIENCE_MS, () => resolve('failed'))
      const told: Asking['told'] = (heard) => {
        callOff()
        resolve(heard)
      }
      if (answer.asking.push({ ...asking, told }) > 1) return
      world.after(chance.between(0, 10), () => this.#send(answer.asking.splice(0)))
    })
  }

  #send(all: readonly Asking[]): void {
    const lives = this.#parts.lives()
    if (lives.length === 0) return
    const life = this.#parts.chance.pick(lives)
    const isExtension = ({ what }: Asking) => what === 'extend'
    const settlements = all.filter((one) => !isExtension(one))
    const extensions = all.filter(isExtension)
    life.clock.reach(() => {
      const httpPull = deskOf(life)
      if (httpPull === null) return
      const { leaseMs } = this.#parts
      if (settlements.length > 0)
        void this.#say(life, settlements, (borne) =>
          httpPull.settle(borne.map((one, i) => ({ ...one, verdict: settlements[i]?.verdict as Verdict }))),
        )
      if (extensions.length > 0) void this.#say(life, extensions, (borne) => httpPull.extend(borne, leaseMs))
    })
  }

  async #say(
    { name }: Life,
    all: readonly Asking[],
    work: (borne: { key: string; token: string }[]) => Promise<readonly ('settled' | 'extended' | 'stale')[]>,
  ): Promise<void> {
    const { recorder } = this.#parts
    const asks = all.map(({ task, what }) => {
      const ask = recorder.nextCall()
      recorder.tell({ kind: 'ask', ask, life: name, key: task.key, token: tokenOf(task), what })
      return ask
    })
    const borne = all.map(({ task: { key, token } }) => ({ key, token }))
    const answers = await work(borne).catch(() => null)
    for (const [i, { told }] of all.entries()) {
      const answer = answers?.[i] ?? 'failed'
      recorder.tell({ kind: 'told', ask: asks[i] as number, answer })
      told(answer)
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => this.#parts.world.after(ms, resolve))
  }
}

/** Null: it is being closed. */
function deskOf({ toc }: Life): HttpPull | null {
  try {
    return toc.handle(TOPIC).httpPull
  } catch {
    return null
  }
}

/** As the truth calls it. */
function tokenOf({ token }: PulledTask): string {
  const { cell, stamp, session } = decodeToken(token, 'token')
  return `${session === null ? '' : `s${session}/`}${cell}/${stamp}`
}

function abortable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
