/**
 * Pull consumption: tasks are handed to whoever asks, wherever that is, and settled by the token that came with each.
 *
 *   claim ──▶ pendingPulls ◀── pullers ◀── store          token + outcome ──▶ settle ──▶ store
 *
 * Nothing about a claim is kept here: its bearer may settle it at the desk of another process, or after this one was
 * started again.
 */
import { TocsinError } from '../errors.ts'
import { groupBy } from '../lib/group-by.ts'
import type { Task } from '../task.ts'
import type { CellAddress, SettleAnswer } from '../timetable.ts'
import { Reporter, type ReporterParts } from '../consume/reporter.ts'
import type { Pulled } from './pending-pull.ts'
import { PendingPulls, type PendingPullsParts } from './pending-pulls.ts'
import { decodeToken, encodeToken, type PullToken } from './pull-token.ts'
import { settleOutcomeOf, type Verdict } from '../consume/verdict.ts'

export interface HttpPullParts extends PendingPullsParts, ReporterParts {
  readonly decode: (body: string) => unknown
}

export interface PulledTask extends Task<unknown> {
  readonly token: string
  /** By the clock of record. */
  readonly leaseUntil: Date
}

/** A task, and what proves that it is held. */
export interface Borne {
  readonly key: string
  readonly token: string
}

interface Proven {
  readonly key: string
  readonly proof: PullToken
}

export class HttpPull {
  readonly #parts: HttpPullParts
  readonly #pendingPulls: PendingPulls
  readonly #reporter: Reporter

  constructor(parts: HttpPullParts) {
    this.#parts = parts
    this.#reporter = new Reporter(parts)
    this.#pendingPulls = new PendingPulls(parts, this.#reporter)
  }

  get waitingCount(): number {
    return this.#pendingPulls.count
  }

  /** Tasks as soon as there are any, at most `limit`; none after `waitMs`, or when `signal` aborts. */
  async claim(limit: number, leaseMs: number, waitMs: number, signal: AbortSignal): Promise<PulledTask[]> {
    const pulled = await this.#pendingPulls.wait(limit, leaseMs, waitMs, signal)
    if (!signal.aborted) return pulled.map((one) => this.#task(one))
    // Whoever asked is gone: somebody else may have them at once.
    await this.#pendingPulls.giveBack(pulled)
    return []
  }

  /** One answer for each, in order. May be repeated: what is settled already is stale. */
  async settle(items: readonly (Borne & { readonly verdict: Verdict })[]): Promise<SettleAnswer[]> {
    const { settings, random, store } = this.#parts
    const given = provenOf(items).map(({ key, proof }, i) => {
      const { verdict } = items[i] as { verdict: Verdict }
      return {
        key,
        proof,
        outcome: settleOutcomeOf(verdict, proof.failures, settings().retry, random.fraction()),
      }
    })
    const answers = await this.#byClaim(given, (at, { session }, some) => {
      const settlements = some.map(({ key, proof, outcome }) => ({ key, stamp: proof.stamp, outcome }))
      return session === null || store.ledger === undefined
        ? store.settle(at, settlements)
        : store.ledger.settleFor(session, at, settlements)
    })
    for (const [i, { key, proof, outcome }] of given.entries()) {
      if (answers[i] !== 'settled') continue
      this.#reporter.settled(outcome)
      this.#reporter.announce({ key, id: proof.id, failures: proof.failures }, outcome)
    }
    return answers
  }

  /** Without a ledger a lease is that of a whole claim call: what the same answer brought of the same cell is prolonged, too. */
  async extend(items: readonly Borne[], leaseMs: number): Promise<('extended' | 'stale')[]> {
    const { store } = this.#parts
    return this.#byClaim(provenOf(items), async (at, { session, req, stamp }, some) => {
      if (session === null || store.ledger === undefined) {
        const answer = await store.extend(at, req, leaseMs)
        return some.map(() => answer)
      }
      const keys = some.map(({ key }) => key)
      const answers = await store.ledger.extendFor({ session, req, stamp }, at, keys, leaseMs)
      return answers.map((answer) => {
        if (answer !== 'locked') return answer
        // Not lost: to be asked for again, for as long as its lease lasts.
        throw new TocsinError(
          'ledger-unavailable',
          'extend: somebody else has a transaction open on a task of these',
        )
      })
    })
  }

  /** Whoever was to have them never got them: as if they had not been claimed. */
  async giveBack(tasks: readonly PulledTask[]): Promise<void> {
    const { store } = this.#parts
    const outcome = { kind: 'return' } as const
    await this.#byClaim(provenOf(tasks), (at, { stamp }, some) =>
      store.settle(
        at,
        some.map(({ key }) => ({ key, stamp, outcome })),
      ),
    ).catch((error: unknown) => this.#reporter.callFailed('settle', error))
  }

  reconfigure(): void {
    this.#pendingPulls.reconfigure()
  }

  /** Whoever waits is answered at once. What was handed out stays with whoever has it. */
  stop(): Promise<void> {
    return this.#pendingPulls.stop()
  }

  /** One call per claim, whatever the order in which its tasks come. */
  async #byClaim<T extends Proven, A>(
    given: readonly T[],
    ask: (at: CellAddress, proof: PullToken, some: readonly T[]) => Promise<readonly A[]>,
  ): Promise<A[]> {
    const answers = new Array<A>(given.length)
    const claims = groupBy(given.keys(), (i) => {
      const { cell, session, req } = (given[i] as T).proof
      return `${cell}/${session}/${req}`
    })
    await Promise.all(
      [...claims.values()].map(async (indexes) => {
        const some = indexes.map((i) => given[i] as T)
        const { proof } = some[0] as T
        const answered = await ask({ topic: this.#parts.topic, cell: proof.cell }, proof, some)
        for (const [n, i] of indexes.entries()) answers[i] = answered[n] as A
      }),
    )
    return answers
  }

  #task({ entry, cell, stamp, req, firedMs, leaseUntilMs }: Pulled): PulledTask {
    const { topic, store, decode } = this.#parts
    const { id, key, failures } = entry
    const session = store.ledger?.sessionOf(cell) ?? null
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

function provenOf(items: readonly Borne[]): Proven[] {
  return items.map(({ key, token }, i) => ({ key, proof: decodeToken(token, `tasks[${i}].token`) }))
}
