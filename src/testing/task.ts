import { silentLogger } from '../telemetry/logger.ts'
import type { Context } from '../consume/handler-call.ts'
import type { Task } from '../task.ts'

/** Returns a task like those that a handler gets, to call the handler as a plain function in a unit test. */
export function task<Out>(payload: Out, fields: Partial<Omit<Task<Out>, 'payload'>> = {}): Task<Out> {
  return {
    id: 'test/task/1',
    topic: 'test',
    key: 'task',
    dueAt: new Date('2026-01-01T00:00:00Z'),
    latenessMs: 0,
    attempt: 1,
    deliveries: 1,
    tags: [],
    priority: 'normal',
    ...fields,
    payload,
  }
}

/** Returns a context, the second argument of a handler. Pass your own `signal` to test an abort. */
export function context(fields: Partial<Context> = {}): Context {
  return { signal: new AbortController().signal, logger: silentLogger, ...fields }
}
