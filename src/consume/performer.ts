/**
 * One interface to handlers, batch handlers and guards: a performer gets tasks and returns one verdict per task. It
 * never throws.
 */
import { TocsinError } from '../errors.ts'
import type { Outcome, Task } from '../task.ts'
import type { Context, TransactionContext } from './handler-call.ts'
import { DONE, failure, OBSOLETE, type Verdict, verdictOf, verdictsOf } from './verdict.ts'

export type Handler<Out> = (task: Task<Out>, context: Context) => Promise<Outcome | void>
export type BatchHandler<Out> = (
  tasks: readonly Task<Out>[],
  context: Context,
) => Promise<void | readonly (Outcome | void)[] | readonly PromiseSettledResult<Outcome | void>[]>
/** A handler with `transaction: true`. Its context has a `tx`. */
export type TransactionHandler<Out> = (
  task: Task<Out>,
  context: TransactionContext,
) => Promise<Outcome | void>
export type TransactionBatchHandler<Out> = (
  tasks: readonly Task<Out>[],
  context: TransactionContext,
) => ReturnType<BatchHandler<Out>>
/** Returns one boolean per task, in the order of the tasks. False ends the task as 'obsolete', without an attempt. */
export type Guard<Out> = (tasks: readonly Task<Out>[], context: Context) => Promise<readonly boolean[]>

export type Performer<Out> = (tasks: readonly Task<Out>[], context: Context) => Promise<readonly Verdict[]>

/** Called with a description of what a handler returned, if that is neither nothing nor an outcome. */
export type OnIgnored = (returned: string) => void

export function performOne<Out>(handler: Handler<Out>, onIgnored: OnIgnored): Performer<Out> {
  return async (tasks, context) => {
    try {
      return reported([verdictOf(await handler(tasks[0] as Task<Out>, context))], onIgnored)
    } catch (thrown) {
      return [failure(thrown)]
    }
  }
}

export function performBatch<Out>(handler: BatchHandler<Out>, onIgnored: OnIgnored): Performer<Out> {
  return async (tasks, context) => {
    try {
      return reported(verdictsOf(await handler(tasks, context), tasks.length), onIgnored)
    } catch (thrown) {
      return tasks.map(() => failure(thrown))
    }
  }
}

/**
 * Wraps a guard. True becomes the verdict 'done', which here means that the handler is called next. False becomes
 * 'obsolete'. If the guard throws, or does not return one boolean per task, the attempts of all its tasks have failed.
 */
export function performGuard<Out>(guard: Guard<Out>): Performer<Out> {
  return async (tasks, context) => {
    try {
      const given: unknown = await guard(tasks, context)
      const answers: unknown[] = Array.isArray(given) ? Array.from(given) : []
      if (answers.length === tasks.length && answers.every((one) => typeof one === 'boolean'))
        return answers.map((goOn) => (goOn ? DONE : OBSOLETE))
      throw new TocsinError(
        'outcome-count',
        `outcome-count: the guard must answer an array of ${tasks.length} booleans, one per task (promises need an await Promise.all)`,
      )
    } catch (thrown) {
      return tasks.map(() => failure(thrown))
    }
  }
}

/** Reports the returned values that were ignored. Returns the verdicts. */
function reported(verdicts: readonly Verdict[], onIgnored: OnIgnored): readonly Verdict[] {
  for (const verdict of verdicts)
    if (verdict.kind === 'done' && verdict.ignored !== undefined) onIgnored(verdict.ignored)
  return verdicts
}
