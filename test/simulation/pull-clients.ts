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

/** Concurrent pull loops. */
const WORKERS = 3
/** Timeout of a settle or extend request. It is retried, perhaps at another process. */
const REQUEST_TIMEOUT_MS = 3_000
const TRIES_MAX = 8

interface PullClientsParts {
  readonly world: WorldClock
  readonly recorder: Recorder
  readonly chance: Chance
  /** Processes that run now: a task may be settled at any of them. */
  readonly lives: () => readonly Life[]
  readonly leaseMs: number
  /** The engine's poll interval. In runs of hours, clients pull less often as well. */
  readonly lookMs: number
  /** About how many tasks are held at a time. */
  readonly capacity: number
  readonly recordMs: () => number
  /** A task killed the client that held it. */
  readonly onDeath: () => void
}

/** The tasks of one pull. They are held by one client: if it dies, all of them are lost to it. */
interface Pulled {
  readonly count: number
  readonly leaseMs: number
  readonly requests: Request[]
  isDead: boolean
}

interface Request {
  readonly task: PulledTask
  readonly what: AskEvent['what']
  readonly verdict: Verdict | null
  readonly told: (answer: 'settled' | 'extended' | 'stale' | 'failed') => void
}

/**
 * Programs outside of the cluster that pull tasks over HTTP from one process. They hold a task by its claim token, whatever
 * happens to that process, and extend and settle it at any other. Some are slow, disconnect, vanish, repeat requests, or
 * ignore replies.
 */
export class PullClients {
  readonly #parts: PullClientsParts
  readonly #life: Life
  readonly #name: string
  #heldCount = 0

  constructor(life: Life, parts: PullClientsParts) {
    this.#life = life
    this.#parts = parts
    this.#name = `${life.name}>`
  }

  start(): void {
    for (let n = 0; n < WORKERS; n++) void this.#work()
  }

  /** Pulls for as long as the process answers. */
  async #work(): Promise<void> {
    const { chance, capacity, lookMs } = this.#parts
    for (let goesOn = true; goesOn;) {
      const free = capacity - this.#heldCount
      const brought = free > 0 ? await this.#pull(Math.min(free, chance.pick([1, 2, 8, 30]))) : 0
      if (brought === 0) await this.#sleep(chance.between(0, lookMs / 50))
      goesOn = brought !== null && this.#parts.lives().includes(this.#life)
    }
  }

  /** Returns how many tasks were pulled, or null if the process is gone. */
  #pull(limit: number): Promise<number | null> {
    const { clock } = this.#life
    return new Promise((resolve) => clock.reach(() => void this.#claim(limit).then(resolve)))
  }

  async #claim(limit: number): Promise<number | null> {
    const { world, recorder, chance, lookMs } = this.#parts
    const { name, clock } = this.#life
    const httpPull = httpPullOf(this.#life)
    if (httpPull === null) return null
    const leaseMs = chance.pick([this.#parts.leaseMs, this.#parts.leaseMs, 2_000, 5_000])
    const waitMs = chance.pick([0, lookMs / 50, lookMs / 5, lookMs / 2])
    const pull = recorder.nextCall()
    recorder.tell({ kind: 'pull', pull, life: name, limit })
    const { signal, abort } = abortable()
    if (chance.is(0.15)) world.after(chance.between(0, Math.min(waitMs, 1_000) + 5), () => clock.reach(abort))
    const tasks = await httpPull.claim(limit, leaseMs, waitMs, signal)
    recorder.tell({ kind: 'pulled', pull, count: tasks.length, isGone: signal.aborted })
    // The connection broke while the reply was sent: the client did not receive the tasks.
    if (tasks.length > 0 && chance.is(0.03)) {
      await httpPull.giveBack(tasks)
      return tasks.length
    }
    const pulled: Pulled = { count: tasks.length, leaseMs, requests: [], isDead: false }
    for (const task of tasks) void this.#hold(task, pulled)
    return tasks.length
  }

  async #hold(task: PulledTask, pulled: Pulled): Promise<void> {
    this.#heldCount++
    await this.#handle(task, pulled)
    this.#heldCount--
  }

  async #handle(task: PulledTask, pulled: Pulled): Promise<void> {
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
      beside: pulled.count - 1,
    })
    if (payload.text.startsWith(KILLER)) {
      await this.#sleep(chance.between(0, 50))
      pulled.isDead = true
      return onDeath()
    }
    const way = chance.weighted(WAYS)
    if (way === 'hangs') return
    const isStillHeld = await this.#takeTime(task, pulled, takesMs(way, pulled.leaseMs, chance), way)
    if (!isStillHeld || pulled.isDead) return
    const delayMs = chance.whole(50, 1_500)
    const end = (outcome: EndEvent['outcome'], ms: number | null = null) =>
      recorder.tell({ kind: 'end', life, run, outcome, delayMs: ms, tx: null })
    const settle = (what: AskEvent['what'], verdict: Verdict) => this.#settle(task, pulled, what, verdict)
    if (way === 'throws') {
      end('throw')
      return settle('failed', { kind: 'failed', delayMs: null, error: 'the client failed' })
    }
    if (way === 'retries') {
      end('retry', delayMs)
      return settle('failed', { kind: 'failed', delayMs, error: 'the client asked for a retry' })
    }
    if (way === 'snoozes') {
      end('snooze', delayMs)
      return settle('snooze', { kind: 'snooze', delayMs })
    }
    if (way === 'rejects') {
      end('dead')
      return settle('dead', { kind: 'dead', error: 'the client rejected it' })
    }
    end('done')
    return settle('done', { kind: 'done' })
  }

  /** Extends the lease meanwhile. Not every client does, and some stop when they learn that the lease is lost. */
  async #takeTime(task: PulledTask, pulled: Pulled, ms: number, way: keyof typeof WAYS): Promise<boolean> {
    const { chance, world } = this.#parts
    const endMs = world.nowMs + ms
    const extendsLease = way === 'longer' && chance.is(0.75)
    while (extendsLease && endMs - world.nowMs > pulled.leaseMs * 0.6) {
      await this.#sleep(pulled.leaseMs * chance.between(0.3, 0.6))
      if (pulled.isDead) return false
      const told = await this.#request(pulled, { task, what: 'extend', verdict: null })
      if (told === 'stale' && chance.is(0.5)) return false
    }
    await this.#sleep(endMs - world.nowMs)
    return true
  }

  async #settle(task: PulledTask, pulled: Pulled, what: AskEvent['what'], verdict: Verdict): Promise<void> {
    const { chance } = this.#parts
    for (let n = 0; n < TRIES_MAX; n++) {
      if (pulled.isDead) return
      const told = await this.#request(pulled, { task, what, verdict })
      // Some clients repeat a request although it was answered.
      if (told !== 'failed' && !chance.is(0.1)) return
      await this.#sleep(chance.between(0, 1_000))
    }
  }

  /** Sends requests that one client makes at the same time in one call. */
  #request(pulled: Pulled, request: Omit<Request, 'told'>): Promise<Parameters<Request['told']>[0]> {
    const { world, chance } = this.#parts
    return new Promise((resolve) => {
      const cancel = world.after(REQUEST_TIMEOUT_MS, () => resolve('failed'))
      const told: Request['told'] = (heard) => {
        cancel()
        resolve(heard)
      }
      if (pulled.requests.push({ ...request, told }) > 1) return
      world.after(chance.between(0, 10), () => this.#send(pulled.requests.splice(0)))
    })
  }

  #send(all: readonly Request[]): void {
    const lives = this.#parts.lives()
    if (lives.length === 0) return
    const life = this.#parts.chance.pick(lives)
    const isExtension = ({ what }: Request) => what === 'extend'
    const settlements = all.filter((one) => !isExtension(one))
    const extensions = all.filter(isExtension)
    life.clock.reach(() => {
      const httpPull = httpPullOf(life)
      if (httpPull === null) return
      const { leaseMs } = this.#parts
      if (settlements.length > 0)
        void this.#call(life, settlements, (held) =>
          httpPull.settle(held.map((one, i) => ({ ...one, verdict: settlements[i]?.verdict as Verdict }))),
        )
      if (extensions.length > 0) void this.#call(life, extensions, (held) => httpPull.extend(held, leaseMs))
    })
  }

  async #call(
    { name }: Life,
    all: readonly Request[],
    work: (held: { key: string; token: string }[]) => Promise<readonly ('settled' | 'extended' | 'stale')[]>,
  ): Promise<void> {
    const { recorder } = this.#parts
    const asks = all.map(({ task, what }) => {
      const ask = recorder.nextCall()
      recorder.tell({ kind: 'ask', ask, life: name, key: task.key, token: tokenOf(task), what })
      return ask
    })
    const held = all.map(({ task: { key, token } }) => ({ key, token }))
    const answers = await work(held).catch(() => null)
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

/** Returns null if the process is shutting down. */
function httpPullOf({ toc }: Life): HttpPull | null {
  try {
    return toc.handle(TOPIC).httpPull
  } catch {
    return null
  }
}

/** The token as the recorded history names it. */
function tokenOf({ token }: PulledTask): string {
  const { cell, stamp, session } = decodeToken(token, 'token')
  return `${session === null ? '' : `s${session}/`}${cell}/${stamp}`
}

function abortable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController()
  return { signal: controller.signal, abort: () => controller.abort() }
}
