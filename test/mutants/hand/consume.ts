import type { Mutant } from './mutant.ts'

const PULLER = 'src/consume/puller.ts'
const RENEWER = 'src/consume/renewer.ts'
const FAULTS_TEST = 'test/runtime/faults.test.ts'
const HTTP_PULL_TEST = 'test/runtime/http-pull.test.ts'

export const CONSUME_MUTANTS: readonly Mutant[] = [
  {
    name: 'a claim is repeated after its lease, too',
    file: 'src/consume/claimer.ts',
    find: 'return this.#parts.clock.monotonicNow() < sent.sentMs + sent.request.leaseMs ? sent : null',
    replace: 'return sent',
    why: 'Repeating is safe by the request id, so the age seems not to matter.',
    tests: ['src/consume/claimer.test.ts'],
  },
  {
    name: 'a wake does not end the wait of a cell whose claims failed',
    file: PULLER,
    find: 'times.notBeforeMs = 0\n',
    replace: '\n',
    why: 'The retry comes by itself, up to five seconds later.',
    tests: ['src/consume/puller.test.ts'],
  },
  {
    name: 'a wake that arrives during a claim is lost',
    file: PULLER,
    find: 'this.#takeWake(times)\n    times.suspectMs',
    replace: 'times.suspectMs',
    why: 'The answer of the claim tells the next ring; it was made before the wake.',
    tests: [FAULTS_TEST],
  },
  {
    name: 'a lease is extended once before its end, not twice',
    file: RENEWER,
    find: 'claim.trustedUntilMs - (claim.leaseMs * 2) / 3',
    replace: 'claim.trustedUntilMs - claim.leaseMs / 3',
    why: 'Two thirds from the start or from the end is easily mixed up.',
    tests: [FAULTS_TEST, 'test/runtime/leases.test.ts'],
  },
  {
    name: 'the answer to an older extension raises the trust in a shortened lease',
    file: RENEWER,
    find: 'if (renewal === claim.renewals) claim.trustedUntilMs = sentMs + leaseMs',
    replace: 'claim.trustedUntilMs = sentMs + leaseMs',
    why: 'Answers are taken to arrive in order.',
    tests: ['src/consume/renewer.test.ts'],
  },
  {
    name: 'an outcome that was decided is not marked as cancelled',
    file: 'src/consume/held-tasks.ts',
    find: "if (held === undefined || (held.isEnded && cause === 'replaced')) return",
    replace: 'if (held === undefined || held.isEnded) return',
    why: 'An ended task seems to need no mark; its retry is then announced though none follows.',
    tests: ['test/runtime/missed.test.ts'],
  },
  {
    name: 'queued tasks are kept when messages may have been missed',
    file: 'src/consume/consumer.ts',
    find: 'missed: () => this.#giveBackQueue(),',
    replace: 'missed: () => {},',
    why: 'The settle is fenced by the stamp, so the handler of a cancelled task seems harmless.',
    tests: ['test/runtime/missed.test.ts'],
  },
  {
    name: 'outcomes that are given up stay in the backlog',
    file: 'src/consume/settler.ts',
    find: 'this.#backlog -= items.length - trusted.length',
    replace: '',
    why: 'The error path does not come to the line that decrements; a full backlog stops the consumer.',
    tests: ['src/consume/settler.test.ts'],
  },
  {
    name: 'one cell that cannot be reached holds up the outcomes of the others',
    file: 'src/consume/settler.ts',
    find: 'if (left.items.length > 0) this.#follow(this.#retry(left, failures + 1))',
    replace: 'if (left.items.length > 0) await this.#retry(left, failures + 1)',
    why: 'Awaiting is the default; the round then lasts as long as its slowest cell.',
    tests: ['src/consume/settler.test.ts'],
  },
  {
    name: 'tasks that came too late for their pull wait for the end of their lease',
    file: 'src/pull/pending-pulls.ts',
    find: 'this.#pulledTasks.giveBackSoon(tasks.slice(taken.length))',
    replace: '',
    why: 'The rescue brings them back.',
    tests: [HTTP_PULL_TEST],
  },
  {
    name: 'tasks that are claimed after their client left wait for the end of their lease',
    file: 'src/pull/pending-pulls.ts',
    find: 'else await this.#pulledTasks.giveBack(tasks)',
    replace: '',
    why: 'The rescue brings them back.',
    tests: [HTTP_PULL_TEST],
  },
  {
    name: 'a repeated claim promises the client its whole lease',
    file: 'src/pull/pulled-tasks.ts',
    find: 'firedMs + leaseMs - Math.ceil(this.#parts.clock.monotonicNow() - sentMs)',
    replace: 'firedMs + leaseMs',
    why: 'Without a repetition the two are the same but for the trip.',
    tests: [HTTP_PULL_TEST],
  },
]
