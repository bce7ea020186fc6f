import type { Logger } from '../../telemetry/logger.ts'
import type { Committer, Step, Writer } from './committer.ts'
import type { ThreadedWriter } from './threaded-writer.ts'

/**
 * Writes in the calling thread while commits are fast, because a worker thread has more overhead. When commits become
 * slow on average, writing moves to a worker thread, so that commits do not block the event loop. If the worker thread
 * ends unexpectedly, writing returns to the calling thread and stays there.
 */
export class AdaptiveWriter implements Writer {
  readonly #committer: Committer
  readonly #startThread: () => Promise<ThreadedWriter>
  readonly #slowCommitMs: number
  readonly #logger: Logger
  #thread: ThreadedWriter | null = null
  #moving: Promise<void> | null = null
  #mayMove = true

  constructor(
    committer: Committer,
    startThread: () => Promise<ThreadedWriter>,
    slowCommitMs: number,
    logger: Logger,
  ) {
    this.#committer = committer
    this.#startThread = startThread
    this.#slowCommitMs = slowCommitMs
    this.#logger = logger
  }

  run(step: Step): Promise<unknown> {
    // While writing moves to the worker thread, new steps wait. A step must not overtake an earlier step.
    if (this.#moving !== null) return this.#moving.then(() => this.run(step))
    if (this.#thread?.isGone) this.#fallBack()
    if (this.#thread !== null) return this.#thread.run(step)
    if (this.#mayMove && this.#committer.commitMs > this.#slowCommitMs) {
      this.#moving = this.#move().finally(() => {
        this.#moving = null
      })
      return this.run(step)
    }
    return this.#committer.run(step)
  }

  async drained(): Promise<void> {
    await this.#moving
    await this.#committer.drained()
    await this.#thread?.drained()
  }

  async close(): Promise<void> {
    await this.drained()
    await this.#thread?.close()
  }

  async #move(): Promise<void> {
    this.#mayMove = false
    await this.#committer.drained()
    try {
      this.#thread = await this.#startThread()
      const commitMs = Math.round(this.#committer.commitMs)
      this.#logger.info(
        { commitMs },
        'the disk of the ledger is slow: writing has moved to a thread of its own',
      )
    } catch (error) {
      this.#logger.warn({ error }, 'the ledger could not move to a thread of its own; it goes on in this one')
    }
  }

  #fallBack(): void {
    this.#thread = null
    this.#logger.error({}, "the ledger's thread ended unexpectedly; writing goes on in this one")
  }
}
