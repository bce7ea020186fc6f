/** The worker thread that threaded-writer.ts starts. It writes with group commit, on its own connection. */
import { parentPort, workerData } from 'node:worker_threads'
import { systemClock } from '../../clock.ts'
import { TocsinError } from '../../errors.ts'
import { Committer, type Step } from './committer.ts'
import { connect } from './connect.ts'
import { Transitions } from './transitions.ts'

export interface WriterData {
  readonly path: string
  readonly session: number
  readonly callTimeoutMs: number
  readonly where: string
}

export interface Question {
  readonly id: number
  readonly step: Step
}

export type Answer =
  | { readonly id: number; readonly answer: unknown }
  | { readonly id: number; readonly error: PortableError }

/** An error in a form that can be sent to another thread. */
export interface PortableError {
  readonly code: string | null
  readonly message: string
  readonly details: Record<string, never>
}

function serve(data: WriterData): void {
  const port = parentPort
  if (port === null) return
  const database = connect(data.path)
  const transitions = new Transitions(database, data.session)
  const committer = new Committer(database, transitions, systemClock, data.callTimeoutMs, data.where)
  let answers: Answer[] = []
  // All answers of one commit are sent in one message.
  const send = (answer: Answer) => {
    if (answers.push(answer) > 1) return
    queueMicrotask(() => {
      port.postMessage(answers)
      answers = []
    })
  }
  port.on('message', (message: Question[] | 'close') => {
    if (message === 'close') {
      void committer.drained().then(() => {
        database.close()
        port.close()
      })
      return
    }
    for (const { id, step } of message)
      committer.run(step).then(
        (answer) => send({ id, answer }),
        (error: unknown) => send({ id, error: portable(error) }),
      )
  })
  port.postMessage('ready')
}

function portable(error: unknown): PortableError {
  const { message } = error instanceof Error ? error : new Error(String(error))
  if (!TocsinError.is(error)) return { code: null, message, details: {} }
  return { code: error.code, message, details: error.details as Record<string, never> }
}

serve(workerData as WriterData)
