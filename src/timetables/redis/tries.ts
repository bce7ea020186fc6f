/** The record of the earlier claims of a task, as lua/shared/tries.lua stores it. */
export interface Tries {
  readonly dueMs: number
  readonly firstStamp: number
  readonly failures: number
  readonly deliveries: number
  readonly updatedMs: number
  readonly error: string | null
}

export function readTries(text: string): Tries {
  const [due, first, failures, deliveries, , , updated, ...error] = text.split('|')
  const message = error.join('|')
  return {
    dueMs: Number(due),
    firstStamp: Number(first),
    failures: Number(failures),
    deliveries: Number(deliveries),
    updatedMs: Number(updated),
    error: message === '' ? null : message,
  }
}
