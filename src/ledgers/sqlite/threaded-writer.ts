import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { Clock } from '../../clock.ts'
import { type ErrorCode, TocsinError } from '../../errors.ts'
import type { Step, Writer } from './committer.ts'
import type { Answer, PortableError, Question, WriterData } from './writer-thread.ts'

interface Waiting {
  readonly resolve: (answer: unknown) => void
  readonly reject: (error: unknown) => void
}

/** Group commit in a worker thread, so that the calling thread does not wait for a slow disk. */
export class ThreadedWriter implements Writer {
  readonly #worker: Worker
  readonly #clock: Clock
  readonly #ready: Promise<void>
  readonly #waiting = new Map<number, Waiting>()
  #questions: Question[] = []
  #nextId = 1
  #isGone = false
  #whenDrained: (() => void)[] = []

  private constructor(worker: Worker, clock: Clock) {
    this.#worker = worker
    this.#clock = clock
    this.#ready = new Promise((resolve, reject) => {
      worker.on('message', (message: Answer[] | 'ready') => {
        if (message !== 'ready') return this.#hear(message)
        worker.unref()
        resolve()
      })
      worker.on('error', reject)
      worker.on('exit', () => {
        this.#gone()
        reject(new Error('the thread of the ledger ended before it was ready'))
      })
    })
  }

  static async start(data: WriterData, clock: Clock): Promise<ThreadedWriter> {
    const worker = new Worker(new URL(`./writer-thread${extname(import.meta.url)}`, import.meta.url), {
      workerData: data,
    })
    const writer = new ThreadedWriter(worker, clock)
    await writer.#ready
    return writer
  }

  get isGone(): boolean {
    return this.#isGone
  }

  run(step: Step): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#isGone) return reject(endedUnexpectedly())
      const id = this.#nextId++
      this.#waiting.set(id, { resolve, reject })
      // The process must not exit while a step is unanswered.
      if (this.#waiting.size === 1) this.#worker.ref()
      if (this.#questions.push({ id, step }) === 1) void this.#clock.turn().then(() => this.#send())
    })
  }

  drained(): Promise<void> {
    if (this.#waiting.size === 0) return Promise.resolve()
    return new Promise((resolve) => this.#whenDrained.push(resolve))
  }

  /** Ends the worker thread after it has answered all steps. */
  async close(): Promise<void> {
    await this.drained()
    if (this.#isGone) return
    const ended = new Promise((resolve) => this.#worker.once('exit', resolve))
    this.#worker.ref()
    this.#worker.postMessage('close')
    await ended
  }

  /** Sends the steps of one turn of the event loop in one message. */
  #send(): void {
    const questions = this.#questions
    this.#questions = []
    if (!this.#isGone) this.#worker.postMessage(questions)
  }

  #hear(answers: readonly Answer[]): void {
    for (const one of answers) {
      const waiting = this.#waiting.get(one.id)
      this.#waiting.delete(one.id)
      if ('error' in one) waiting?.reject(revived(one.error))
      else waiting?.resolve(one.answer)
    }
    if (this.#waiting.size === 0) this.#rest()
  }

  #gone(): void {
    this.#isGone = true
    const lost = [...this.#waiting.values()]
    this.#waiting.clear()
    for (const { reject } of lost) reject(endedUnexpectedly())
    this.#rest()
  }

  #rest(): void {
    if (!this.#isGone) this.#worker.unref()
    const waiting = this.#whenDrained
    this.#whenDrained = []
    for (const resolve of waiting) resolve()
  }
}

function endedUnexpectedly(): TocsinError {
  return new TocsinError(
    'unknown-outcome',
    "the ledger's thread ended unexpectedly: what was under way may have been written, or not",
  )
}

function revived({ code, message, details }: PortableError): Error {
  return code === null ? new Error(message) : new TocsinError(code as ErrorCode, message, details)
}
