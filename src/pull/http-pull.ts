/**
 * Consumption over HTTP: a client claims tasks, and settles each task with the token that the claim returned.
 *
 *   claim ──▶ pending pulls ◀── pullers ◀── store          token + outcome ──▶ settle ──▶ store
 *
 * Once the tasks are handed out, this process keeps no state of the claim: the token contains what a settle needs. So a
 * client may settle through another process, or after a restart of this process.
 */
import { TocsinError } from '../errors.ts'
import { groupBy } from '../lib/group-by.ts'
import type { Task } from '../task.ts'
import type { CellAddress, SettleAnswer } from '../timetable.ts'
import { Reporter, type ReporterParts } from '../consume/reporter.ts'
import { StartRate } from '../consume/start-rate.ts'
import type { Rate, RateLimiter } from '../lib/rate-limiter.ts'
import { PendingPulls, type PendingPullsParts } from './pending-pulls.ts'
import { type Pulled, PulledTasks } from './pulled-tasks.ts'
import { decodeToken, encodeToken, type PullToken } from './pull-token.ts'
import { settleOutcomeOf, type Verdict } from '../consume/verdict.ts'

export interface HttpPullParts extends PendingPullsParts, ReporterParts {
  readonly decode: (body: string) => unknown
  readonly rateLimiter: RateLimiter
  /** Returns this process's part of the topic's rate; null if the topic has no rate limit. */
  readonly rate: () => Rate | null
}

export interface PulledTask extends Task<unknown> {
  readonly token: string
  /** The end of the lease on the timetable's clock. */
  readonly leaseUntil: Date
}

/** A key, and the token that proves that the client holds the task. */
export interface KeyAndToken {
  readonly key: string
  readonly token: string
}

interface DecodedItem {
  readonly key: string
  readonly token: PullToken
}

export class HttpPull {
  readonly #parts: HttpPullParts
  readonly #pulledTasks: PulledTasks
  readonly #pendingPulls: PendingPulls
  readonly #reporter: Reporter

  constructor(parts: HttpPullParts) {
    this.#parts = parts
    const startRate = new StartRate(parts.clock, parts.rateLimiter, parts.rate)
    this.#reporter = new Reporter(parts)
    this.#pulledTasks = new PulledTasks(parts, startRate, this.#reporter)
    this.#pendingPulls = new PendingPulls(parts, this.#pulledTasks, startRate, this.#reporter)
  }

  get waitingCount(): number {
    return this.#pendingPulls.count
  }

  /**
   * Resolves with up to `limit` tasks as soon as any are due. Resolves with no tasks if none is due within `waitMs`, or
   * if `signal` aborts.
   */
  async claim(limit: number, leaseMs: number, waitMs: number, signal: AbortSignal): Promise<PulledTask[]> {
    const pulled = await this.#pendingPulls.wait(limit, leaseMs, waitMs, signal)
    if (!signal.aborted) return pulled.map((one) => this.#task(one))
    // The client is gone. Give the tasks back, so that other clients can claim them at once.
    await this.#pulledTasks.giveBack(pulled)
    return []
  }

  /**
   * Settles tasks. Returns one answer per item, in order. A retry is safe: the answer for a task that is settled
   * already is 'stale'.
   */
  async settle(items: readonly (KeyAndToken & { readonly verdict: Verdict })[]): Promise<SettleAnswer[]> {
    const { settings, random, store } = this.#parts
    const given = decodeItems(items).map(({ key, token }, i) => {
      const { verdict } = items[i] as { verdict: Verdict }
      return {
        key,
        token,
        outcome: settleOutcomeOf(verdict, token.failures, settings().retry, random.fraction()),
      }
    })
    const answers = await this.#byClaim(given, (at, { session }, some) => {
      const settlements = some.map(({ key, token, outcome }) => ({ key, stamp: token.stamp, outcome }))
      return store.settle(at, settlements, session)
    })
    for (const [i, { key, token, outcome }] of given.entries()) {
      if (answers[i] !== 'settled') continue
      this.#reporter.settled(outcome)
      this.#reporter.announce({ key, id: token.id, failures: token.failures }, outcome)
    }
    return answers
  }

  /**
   * Extends leases. Without a ledger, all tasks that one claim took from a cell share one lease, so the leases of the
   * other tasks of that claim are extended, too.
   */
  async extend(items: readonly KeyAndToken[], leaseMs: number): Promise<('extended' | 'stale')[]> {
    const { store } = this.#parts
    const { extendKeys } = store.features
    return this.#byClaim(decodeItems(items), async (at, { session, req, stamp }, some) => {
      if (session === null || extendKeys === null) {
        const answer = await store.extend(at, req, leaseMs)
        return some.map(() => answer)
      }
      const keys = some.map(({ key }) => key)
      const answers = await extendKeys({ session, req, stamp }, at, keys, leaseMs)
      return answers.map((answer) => {
        if (answer !== 'locked') return answer
        // The lease is not lost: the client can retry until the lease expires.
        throw new TocsinError(
          'ledger-unavailable',
          'extend: another transaction has locked one of these tasks; retry before the lease ends',
        )
      })
    })
  }

  /** Gives back tasks that never reached the client. The timetable does not count their deliveries. */
  async giveBack(tasks: readonly PulledTask[]): Promise<void> {
    const { store } = this.#parts
    const outcome = { kind: 'return' } as const
    await this.#byClaim(decodeItems(tasks), (at, { stamp }, some) =>
      store.settle(
        at,
        some.map(({ key }) => ({ key, stamp, outcome })),
      ),
    ).catch((error: unknown) => this.#reporter.callFailed('settle', error))
  }

  reconfigure(): void {
    this.#pendingPulls.reconfigure()
  }

  /** Answers all pending pulls at once. Clients keep the tasks that were handed out. */
  stop(): Promise<void> {
    return this.#pendingPulls.stop()
  }

  /** Makes one call per claim. Returns the answers in the order of the items. */
  async #byClaim<T extends DecodedItem, A>(
    given: readonly T[],
    ask: (at: CellAddress, token: PullToken, some: readonly T[]) => Promise<readonly A[]>,
  ): Promise<A[]> {
    const answers = new Array<A>(given.length)
    const claims = groupBy(given.keys(), (i) => {
      const { cell, session, req } = (given[i] as T).token
      return `${cell}/${session}/${req}`
    })
    await Promise.all(
      [...claims.values()].map(async (indexes) => {
        const some = indexes.map((i) => given[i] as T)
        const { token } = some[0] as T
        const answered = await ask({ topic: this.#parts.topic, cell: token.cell }, token, some)
        for (const [n, i] of indexes.entries()) answers[i] = answered[n] as A
      }),
    )
    return answers
  }

  #task({ entry, cell, stamp, req, firedMs, leaseUntilMs }: Pulled): PulledTask {
    const { topic, store, decode } = this.#parts
    const { id, key, failures } = entry
    const session = store.features.sessionOf(cell)
    return {
      id,
      topic,
      key,
      payload: decode(entry.body),
      dueAt: new Date(entry.dueMs),
      latenessMs: Math.max(0, firedMs - entry.dueMs),
      attempt: failures + 1,
      deliveries: entry.deliveries,
      tags: entry.tags,
      priority: entry.priority,
      token: encodeToken({ cell, stamp, req, session, failures, id }),
      leaseUntil: new Date(leaseUntilMs),
    }
  }
}

function decodeItems(items: readonly KeyAndToken[]): DecodedItem[] {
  return items.map(({ key, token }, i) => ({ key, token: decodeToken(token, `tasks[${i}].token`) }))
}
