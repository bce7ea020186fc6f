import { TopicDraft } from './draft.ts'
import { Locks } from './locks.ts'
import type { Moment } from './rows.ts'
import type { Statement } from './statement.ts'
import { TopicTable } from './topic-table.ts'
import { WriteAheadLog } from './write-ahead-log.ts'

/** The server's clock: tasks are due by `now`, leases end by `monotonicNow`. */
export interface ServerClock {
  now(): number
  monotonicNow(): number
}

/** Listeners are notified of tasks that ring before the next read of the commit feed, as in PostgreSQL's ledger. */
export const TELL_WITHIN_MS = 2_000

type Listener = (topic: string) => void

/** What outlives sessions: tables, sequences, locks, and who listens. */
export class Engine {
  readonly #clock: ServerClock
  readonly #tables = new Map<string, TopicTable>()
  readonly #listeners = new Set<Listener>()
  readonly locks = new Locks()
  readonly log = new WriteAheadLog()
  /** Open transactions. */
  readonly open = new Set<{ rollback(): void }>()
  #generation = 0

  constructor(clock: ServerClock) {
    this.#clock = clock
  }

  /** One per statement. */
  moment(): Moment {
    return { nowMs: Math.floor(this.#clock.now()), steadyMs: this.#clock.monotonicNow() }
  }

  get topics(): string[] {
    return [...this.#tables.keys()].toSorted()
  }

  /** A topic that is only asked after does not become one. */
  table(topic: string): TopicTable {
    return this.#tables.get(topic) ?? new TopicTable()
  }

  /** At once, and for good: no transaction takes a topic along that is undone. */
  makeTopic(topic: string): void {
    if (!this.#tables.has(topic)) this.#tables.set(topic, new TopicTable())
  }

  /** Without an owner, it has to be applied or discarded before any other statement runs. */
  draft(topic: string, owner: object | null): TopicDraft {
    return new TopicDraft(topic, this.table(topic), this.locks, owner)
  }

  statement(draft: TopicDraft, topic: string, session: number, doing: string): Statement {
    draft.doing = doing
    const nextGeneration = () => ++this.#generation
    return { draft, topic, session, moment: this.moment(), nextGeneration }
  }

  listen(listener: Listener): () => void {
    // One of its own each time: the same function may listen twice.
    const own: Listener = (topic) => listener(topic)
    this.#listeners.add(own)
    return () => this.#listeners.delete(own)
  }

  tell(topic: string): void {
    for (const listener of this.#listeners) listener(topic)
  }
}

export type NearAnswers = readonly { readonly hint: { readonly ringMs: number } | null }[]

/** Whether one of what was written rings within `withinMs`. */
export function isNear(answers: NearAnswers, { nowMs }: Moment, withinMs: number): boolean {
  return withinMs > 0 && answers.some(({ hint }) => hint !== null && hint.ringMs <= nowMs + withinMs)
}
