import { TocsinError } from '../../../src/errors.ts'
import { badTx } from '../../../src/values/tx.ts'
import type { TopicDraft } from './draft.ts'
import type { Engine } from './engine.ts'
import type { Statement } from './statement.ts'

/**
 * Several statements that take effect together or not at all. As in PostgreSQL, one that fails spoils the rest: all is
 * undone at once, its locks included, and nothing is taken any more but its end.
 */
export class Transaction {
  readonly engine: Engine
  readonly #drafts = new Map<string, TopicDraft>()
  readonly #near = new Set<string>()
  #state: 'open' | 'spoiled' | 'over' = 'open'

  constructor(engine: Engine) {
    this.engine = engine
    engine.open.add(this)
  }

  /** A failed transaction, too, is open until its caller ends it. */
  get isOpen(): boolean {
    return this.#state !== 'over'
  }

  get isSpoiled(): boolean {
    return this.#state === 'spoiled'
  }

  write<T>(topic: string, session: number, doing: string, work: (statement: Statement) => T): T {
    if (this.#state === 'over') throw overTx()
    if (this.#state === 'spoiled')
      throw badTx(
        'an earlier statement of your transaction failed; nothing is taken any more but its rollback',
      )
    let draft = this.#drafts.get(topic)
    if (draft === undefined) {
      this.engine.makeTopic(topic)
      draft = this.engine.draft(topic, this)
      this.#drafts.set(topic, draft)
    }
    try {
      return work(this.engine.statement(draft, topic, session, doing))
    } catch (error) {
      this.#undo()
      this.#state = 'spoiled'
      throw error
    }
  }

  /** Who listens is told of the topic, once it is committed. */
  tellOf(topic: string): void {
    this.#near.add(topic)
  }

  commit(): void {
    if (this.#state === 'over') throw overTx()
    const isSpoiled = this.isSpoiled
    this.#end()
    // PostgreSQL answers a COMMIT of a failed transaction with 'ROLLBACK', which callers often do not read.
    if (isSpoiled)
      throw new TocsinError(
        'ledger-refused',
        'a statement of it failed before: the transaction is rolled back',
      )
    for (const draft of this.#drafts.values()) {
      if (!draft.isEmpty) this.engine.log.written()
      draft.apply()
    }
    this.#release()
    for (const topic of this.#near) this.engine.tell(topic)
  }

  /** One that is over already has nothing that could be undone. */
  rollback(): void {
    this.#undo()
    this.#end()
  }

  #end(): void {
    this.#state = 'over'
    this.engine.open.delete(this)
  }

  #undo(): void {
    this.#release()
    this.#near.clear()
  }

  #release(): void {
    for (const draft of this.#drafts.values()) draft.release()
    this.#drafts.clear()
  }
}

function overTx(): TocsinError {
  return badTx('no transaction is open on it (any more): await this call before commit or rollback')
}
