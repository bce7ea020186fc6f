import type { Mutant } from './mutant.ts'

const TOKENS = 'src/server/token-book.ts'
const ACCESS = 'src/server/access.ts'
const BULK = 'src/server/bulk-schedule.ts'
const EVENTS = 'src/server/routes/events.ts'
const ACCESS_TEST = 'test/server/access.test.ts'
const BULK_TEST = 'test/server/bulk.test.ts'

export const SERVER_MUTANTS: readonly Mutant[] = [
  {
    name: 'a slow read of the tokens brings a revoked one back',
    file: TOKENS,
    find: 'if (askedMs < this.#readMs) return\n',
    replace: '\n',
    why: 'Reads are taken to end in the order in which they were sent.',
    tests: ['src/server/token-book.test.ts'],
  },
  {
    name: 'a server that starts after the last token was revoked is open',
    file: TOKENS,
    find: 'await this.#board.putToken(LOCK)\n',
    replace: '\n',
    why: 'The running server remembers it, and the test asks the running server.',
    tests: [ACCESS_TEST],
  },
  {
    name: 'no request is answered while the board is away',
    file: TOKENS,
    find: 'if (this.#readMs === Number.NEGATIVE_INFINITY) throw error',
    replace: 'throw error',
    why: 'An error of a read is thrown, usually.',
    tests: ['src/server/token-book.test.ts'],
  },
  {
    name: 'a rotated token that expires soon gets a longer life',
    file: TOKENS,
    find: 'expiresMs: Math.min(old.expiresMs ?? Number.POSITIVE_INFINITY, nowMs + overlapMs),',
    replace: 'expiresMs: nowMs + overlapMs,',
    why: "'Expires after the overlap' is what the docs say in short.",
    tests: [ACCESS_TEST],
  },
  {
    name: 'images of other sites reach a server without tokens',
    file: ACCESS,
    find: " || site === 'cross-site')",
    replace: ')',
    why: 'The Origin header looks like all that a browser tells.',
    tests: [ACCESS_TEST],
  },
  {
    name: 'a token of a topic prefix reads topics that have it somewhere',
    file: ACCESS,
    find: 'return topics.filter((topic) => prefix === null || topic.startsWith(prefix))',
    replace: 'return topics.filter((topic) => prefix === null || topic.includes(prefix))',
    why: 'Tests use names that begin with the prefix.',
    tests: ['src/server/token-book.test.ts'],
  },
  {
    name: "a token's prefix is not asked of events",
    file: EVENTS,
    find: '(topic === undefined || of === topic) && (prefix === null || of.startsWith(prefix))',
    replace: 'topic === undefined || of === topic',
    why: 'The topic of the query is checked; without a query all topics come.',
    tests: [ACCESS_TEST, 'test/server/events.test.ts'],
  },
  {
    name: 'a client that left stays subscribed to events',
    file: EVENTS,
    find: 'for (const off of offs) off()\n',
    replace: '\n',
    why: 'Writing to a closed response does nothing, so nothing seems wrong.',
    tests: ['test/server/events.test.ts'],
    survives:
      'Writing to a closed response does nothing, so only memory shows it; a test would have to count the listeners of the library.',
  },
  {
    name: 'a slow reader of events fills the memory',
    file: EVENTS,
    find: 'if (this.#response.writableLength > BUFFERED_MAX) return false',
    replace: '',
    why: 'write() never fails; it buffers.',
    tests: ['test/server/events.test.ts'],
  },
  {
    name: 'events that were dropped are counted again and again',
    file: EVENTS,
    find: 'this.#missed = 0\n    return true',
    replace: 'return true',
    why: 'The count is sent, and the reset forgotten.',
    tests: ['test/server/events.test.ts'],
  },
  {
    name: 'the failure of the last batches of a stream ends with a summary',
    file: BULK,
    find: 'await Promise.all(underWay)\n  }\n  stop.signal.throwIfAborted()',
    replace: 'await Promise.all(underWay)\n  }',
    why: 'Each batch before is checked in the loop.',
    tests: [BULK_TEST],
    survives:
      'A failed batch also destroys the stream of chunks, whose error ends the loop; only a failure in the turn between the two is left.',
  },
  {
    name: 'a stream of bulk tasks reads ahead without a bound',
    file: BULK,
    find: 'if (underWay.length === AHEAD) await underWay.shift()',
    replace: '',
    why: 'All of it is awaited at the end.',
    tests: ['test/server/bulk-memory.test.ts', BULK_TEST],
  },
  {
    name: 'a body that stops half-way is waited for without an end',
    file: 'src/server/bodies.ts',
    find: "refuse(new TocsinError('request-timeout', `body: not received within ${deadlineMs / 1_000} s`)),",
    replace: 'undefined,',
    why: "Node's own limit is off, because of streams.",
    tests: ['test/server/bad-input.test.ts', 'test/server/fuzz.test.ts'],
  },
  {
    name: 'a claim of another cell is taken: the cell of a claim token is not checked',
    file: 'src/pull/pull-token.ts',
    find: 'cell < 64 &&\n',
    replace: '\n',
    why: 'A count is checked for its type, and the range is left to the store.',
    tests: ['src/pull/pull-token.test.ts'],
  },
]
