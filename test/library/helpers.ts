import { expect } from 'vitest'
import { type ErrorCode, type Outcome, type Topic, TocsinError } from 'tocsin'
import type { TestTocsin } from 'tocsin/testing'

/** What a caller may rely on for each code: the HTTP status, and whether the same call may succeed later. */
const ANSWERS: Partial<Record<ErrorCode, [status: number, retryable: boolean]>> = {
  'payload-too-large': [413, false],
  'version-conflict': [412, false],
  interrupted: [503, true],
  closed: [503, false],
}

/** The error that a call ends with, thrown now or later; it must be one of ours, and fit to be read. */
export async function refusal(call: () => unknown): Promise<TocsinError> {
  let thrown: unknown
  try {
    await call()
  } catch (error) {
    thrown = error
  }
  if (!TocsinError.is(thrown)) throw new Error(`expected a TocsinError, got ${String(thrown)}`)
  const [status, retryable] = ANSWERS[thrown.code] ?? [400, false]
  expect(thrown).toMatchObject({ name: 'TocsinError', status, retryable })
  expect(thrown).toBeInstanceOf(TocsinError)
  expectReadable(thrown.message)
  return thrown
}

/** One line, of bounded length, without traces of our own code. */
function expectReadable(message: string): void {
  expect(message.length).toBeLessThan(700)
  expect(message).not.toMatch(/\p{Cc}/u)
  expect(message).not.toMatch(/ at .*:\d+|=>|node_modules|\[object |is not a function|Cannot read/)
}

export interface Gate<T> {
  readonly passed: Promise<T>
  readonly open: (value: T) => void
}

/** A promise that the test settles. */
export function gate<T = void>(): Gate<T> {
  let open!: (value: T) => void
  const passed = new Promise<T>((resolve) => {
    open = resolve
  })
  return { passed, open }
}

export interface InFlight {
  /** Ends the handler with this answer, and resolves when the outcome is recorded. */
  readonly end: (outcome?: Outcome) => Promise<void>
  /** The same, by a throw. */
  readonly fail: (message: string) => Promise<void>
  readonly signal: AbortSignal
}

/**
 * Schedules a task, lets its time come, and returns while its handler has it. The consumer is there for this task
 * alone: it answers 'done' to every later one, and `deliveries` lists what it got.
 */
export async function inFlight<In>(
  toc: TestTocsin,
  topic: Topic<In, unknown>,
  key: string,
  payload: In,
  deliveries: string[] = [],
  tags: readonly string[] = [],
): Promise<InFlight> {
  const started = gate<AbortSignal>()
  const ended = gate<() => Outcome | void>()
  let first = true
  topic.consume(async (task, { signal }) => {
    deliveries.push(`${task.key}#${task.attempt}`)
    if (!first) return
    first = false
    started.open(signal)
    return (await ended.passed)()
  })
  await topic.schedule({ key, delay: '1s', payload, tags })
  const advancing = toc.advance('1s')
  const signal = await started.passed
  return {
    signal,
    end: (outcome) => {
      ended.open(() => outcome)
      return advancing
    },
    fail: (message) => {
      ended.open(() => {
        throw new Error(message)
      })
      return advancing
    },
  }
}

/** The key, and when it fired, in ms since `from`. */
export function recordFirings(topic: Topic<never, unknown>, toc: TestTocsin): [key: string, atMs: number][] {
  const fromMs = toc.now().getTime()
  const fired: [string, number][] = []
  topic.consume(async (task) => void fired.push([task.key, toc.now().getTime() - fromMs]))
  return fired
}
