import type { Mutant } from './mutant.ts'

const HTTP = 'src/client/http.ts'
const FAILURE = 'src/client/failure.ts'
const FAILURES_TEST = 'test/client/failures.test.ts'
const BULK_TEST = 'test/client/bulk.test.ts'
const EVENTS_TEST = 'test/client/events.test.ts'

export const CLIENT_MUTANTS: readonly Mutant[] = [
  {
    name: 'one refused address of several counts as never sent',
    file: FAILURE,
    find: 'return errors.every(wasNeverSent)',
    replace: 'return errors.some(wasNeverSent)',
    why: 'With one address it is the same.',
    tests: [FAILURES_TEST],
    survives:
      'fetch collects only failed connection attempts in one error, so a mix with a call that was sent does not occur.',
  },
  {
    name: 'a 502 of a proxy says that a write had no effect',
    file: FAILURE,
    find: "return isRepeatable || status === 503 ? 'unreachable' : 'unknown-outcome'",
    replace: "return 'unreachable'",
    why: 'A gateway that cannot reach the server seems to have sent nothing.',
    tests: [FAILURES_TEST],
  },
  {
    name: 'a redirect is followed',
    file: HTTP,
    find: "redirect: 'error',",
    replace: "redirect: 'follow',",
    why: 'It is what fetch does by default.',
    tests: [FAILURES_TEST],
  },
  {
    name: 'a stream is cut at the timeout of a call',
    file: HTTP,
    find: 'deadline.set(null)\n',
    replace: '\n',
    why: 'The deadline was set for the answer, which has begun.',
    tests: [EVENTS_TEST, BULK_TEST],
  },
  {
    name: 'a long poll times out as any other call',
    file: HTTP,
    find: 'return waitMs === null ? null : this.#timeoutMs + waitMs',
    replace: 'return waitMs === null ? null : this.#timeoutMs',
    why: 'The wait of the server is not thought of.',
    tests: [FAILURES_TEST],
  },
  {
    name: 'an answer of another server that is JSON is taken for ours',
    file: HTTP,
    find: "throw lost(sent, 'the answer is not from Tocsin: its JSON is of another shape', error)",
    replace: 'throw error',
    why: 'The error is thrown on as it is.',
    tests: [FAILURES_TEST, 'test/client/topic.test.ts'],
    survives: 'The caller gets the same code from the general translation of errors; only the words differ.',
  },
  {
    name: 'a bulk answer that ends without its summary is a success',
    file: 'src/client/bulk.ts',
    find: 'if (next.done === true) throw cutShort()',
    replace: 'if (next.done === true) return { created: 0, replaced: 0, kept: 0, failed: 0 }',
    why: 'The end of a stream is its end.',
    tests: [BULK_TEST],
  },
  {
    name: 'tasks that the client refused are missing in the summary',
    file: 'src/client/bulk.ts',
    find: 'const total = { ...summary, failed: summary.failed + refusedHere }',
    replace: 'const total = summary',
    why: 'The server counts what it refused; the client refuses before it.',
    tests: [BULK_TEST],
  },
  {
    name: 'a source of tasks that throws seems to have ended',
    file: 'src/client/bulk.ts',
    find: 'if (lines.problem !== null) throw brokenOff(lines.problem.thrown, total)',
    replace: '',
    why: 'The body ends normally, and the server is content.',
    tests: [BULK_TEST],
  },
  {
    name: 'a source that throws late is an unhandled rejection',
    file: 'src/client/task-lines.ts',
    find: 'next.catch(() => {})\n',
    replace: '\n',
    why: 'The promise is awaited at the next turn, unless there is none.',
    tests: [BULK_TEST],
    survives:
      'The next turn awaits the promise; only a call that ends in the same turn would leave it unhandled.',
  },
  {
    name: 'a source of tasks is not ended when the call fails',
    file: 'src/client/task-lines.ts',
    find: 'void (async () => this.#leave())().catch(() => {})',
    replace: '',
    why: 'for await does it by itself; this loop is made by hand.',
    tests: [BULK_TEST],
  },
  {
    name: 'a signal of many calls gathers listeners',
    file: 'src/client/call-deadline.ts',
    find: "this.#given?.removeEventListener('abort', this.#abort)",
    replace: '',
    why: "'once' looks like enough; a signal that never aborts keeps them all.",
    tests: [FAILURES_TEST],
  },
  {
    name: 'an event of a newer server is passed on as if it were known',
    file: 'src/client/events.ts',
    find: "if (data !== '' && KNOWN.includes(type)) yield",
    replace: "if (data !== '') yield",
    why: 'The server sends only events that there are.',
    tests: [EVENTS_TEST],
  },
  {
    name: 'an event stream that the server ends ends quietly',
    file: 'src/client/events.ts',
    find: 'if (hasEnded && !signal?.aborted)\n',
    replace: 'if (false)\n',
    why: 'The end of a stream is its end.',
    tests: [EVENTS_TEST],
  },
]
