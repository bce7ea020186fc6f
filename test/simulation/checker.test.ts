/**
 * The checker itself is checked: for each invariant stories that keep it, the tricky ones among them, and stories that
 * break it, of which it must say exactly that. A checker that finds nothing proves nothing.
 */
import { describe, expect, it } from 'vitest'
import { check } from './checker/check.ts'
import { figuresOf } from './checker/figures.ts'
import { DONE, EXHAUSTED, LOST, REJECTED, RETURN, retry, snooze, Story } from './checker/story.ts'
import type { Composition, History } from './history.ts'

type Telling = (composition: Composition) => History

/** A story that is fine. */
function fine(name: string, tell: Telling, compositions: readonly Composition[] = ['center']): void {
  for (const composition of compositions)
    it(`fine, ${composition}: ${name}`, () => expect(check(tell(composition))).toEqual([]))
}

/** A story that breaks exactly these. */
function breaks(
  invariants: string,
  name: string,
  tell: Telling,
  compositions: readonly Composition[] = ['center'],
): void {
  for (const composition of compositions)
    it(`${invariants}, ${composition}: ${name}`, () => {
      const told = check(tell(composition))
      const broken = new Set(told.map(({ invariant }) => invariant))
      expect([...broken].toSorted(), told.map(({ message }) => message).join('\n')).toEqual(
        invariants.split(' '),
      )
    })
}

const ALL: readonly Composition[] = ['redis', 'center', 'alone', 'embedded']
const LEDGERS: readonly Composition[] = ['center', 'alone', 'embedded']

/** What a look shows of a task that ended well. */
const ended = (composition: Composition, said: string): string => (composition === 'redis' ? 'none' : said)

/** Scheduled as v1, due at 100; time stands at 100. */
const due = (composition: Composition = 'center', attemptsMax = 3): Story =>
  new Story(composition, attemptsMax).at(10).schedule('a', 'v1', 100).at(100)

/** Claimed by n1/1 under t1 until 1100; time stands at 100. */
const held = (composition: Composition = 'center'): Story => due(composition).claim('a', 'v1', 't1')

const DONE_A = { done: 1 }
const CANCELLED_A = { cancelled: 1 }

describe('a plain life', () => {
  fine(
    'done',
    (c) =>
      due(c)
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'pending, far away',
    (c) => new Story(c).schedule('a', 'v1', 1e9).ends({ a: 'pending v1' }, { pending: 1 }),
    ALL,
  )
  fine(
    'many, one of them obsolete',
    (c) =>
      due(c)
        .schedule('b', 'v2', 100)
        .done('a', 'v1', 't1')
        .claim('b', 'v2', 't2')
        .settle('b', 't2', { kind: 'obsolete' })
        .ends({ a: ended(c, 'done v1'), b: ended(c, 'obsolete v2') }, { done: 1, obsolete: 1 }),
    ALL,
  )
})

describe('I1 no loss', () => {
  breaks('I1', 'acknowledged, and never written', () =>
    new Story().call('schedule', 'a', { version: 'v1' }).answer('created', { dueMs: 5 }).ends({}, {}),
  )
  breaks(
    'I1 I12',
    'gone at the end, without a reason',
    (c) => due(c).ends({ a: 'none' }, { scheduled: 1 }),
    ALL,
  )
  breaks('I1', 'gone at the end, and the books pretend', () => due().ends({}, { pending: 1 }))
  breaks('I1', 'another version than the last one', () =>
    due().schedule('a', 'v2', 1e9, 'replaced').ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I1', 'done, and pending nevertheless', () =>
    due().done('a', 'v1', 't1').ends({ a: 'pending v1' }, DONE_A, {}, { dueMs: 1e9 }),
  )
  breaks('I1', 'due at another time than it was rescheduled to', () =>
    due().reschedule('a', 'rescheduled', 1e9).ends({ a: 'pending v1' }, { pending: 1 }, {}, { dueMs: 2e9 }),
  )
  breaks('I1', 'a transaction was committed without one of its writes', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1', tx: 7 })
      .answer('created', { dueMs: 1e9 })
      .call('schedule', 'b', { version: 'v2', tx: 7 })
      .answer('created', { dueMs: 1e9 })
      .write('schedule', 'b', 'created', { version: 'v2', dueMs: 1e9, tx: 7 })
      .ends({ b: 'pending v2' }, { pending: 1 }),
  )
  fine('a transaction that was rolled back', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1', tx: 7 })
      .answer('created', { dueMs: 1e9 })
      .ends({}, {}),
  )
  fine('a transaction that was committed after its task was due', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1', tx: 7 })
      .answer('created', { dueMs: 5 })
      .at(50)
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 5, tx: 7 })
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'an unknown outcome without an effect, and one with',
    (c) =>
      new Story(c)
        .call('schedule', 'a', { version: 'v1' })
        .answer(null, { error: 'unknown-outcome' })
        .call('schedule', 'b', { version: 'v2' })
        .answer(null, { error: 'unknown-outcome' })
        .at(9)
        .write('schedule', 'b', 'created', { version: 'v2', dueMs: 9 })
        .done('b', 'v2', 't1')
        .ends({ b: ended(c, 'done v2') }, DONE_A),
    ALL,
  )
  fine(
    'a process that died before it was answered',
    (c) =>
      new Story(c)
        .call('schedule', 'a', { version: 'v1' })
        .write('schedule', 'a', 'created', { version: 'v1', dueMs: 9 })
        .life('crashes')
        .life('starts', 'n1/2')
        .at(9)
        .claim('a', 'v1', 't1', { life: 'n1/2' })
        .start('a', 'v1', { life: 'n1/2' })
        .end('done', 'n1/2')
        .settle('a', 't1', DONE, { life: 'n1/2' })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'replaced, and the later one purged',
    (c) =>
      due(c)
        .schedule('a', 'v2', 100, 'replaced')
        .claim('a', 'v2', 't1')
        .start('a', 'v2')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .purge('a')
        .ends({ a: 'none' }, { purged: 1 }),
    ALL,
  )
  fine('what runs at the end is given back when all is closed', (c) =>
    held(c)
      .start('a', 'v1')
      .life('closes')
      .settle('a', 't1', snooze(0))
      .life('closed')
      .ends({ a: 'claimed v1' }, { claimed: 1 }, { settledBeforeMs: 50 }),
  )
})

describe('I2 nothing from nowhere', () => {
  const told = (more: Parameters<Story['start']>[2]): History =>
    held().start('a', 'v1', more).end('done').settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A)
  breaks('I2', 'another body', () => told({ body: 'body of v2' }))
  breaks('I2', 'other tags', () => told({ tags: ['red'] }))
  breaks('I2', 'another priority', () => told({ priority: 'low' }))
  breaks('I2', 'another due time', () => told({ dueMs: 99 }))
  breaks('I2', 'a version that nobody wrote', () =>
    due().done('a', 'v1', 't1').start('a', 'v9').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I2', 'a claim of a version that nobody wrote', () =>
    due()
      .done('a', 'v1', 't1')
      .claim('b', 'v9', 't2')
      .settle('b', 't2', DONE)
      .ends({ a: 'done v1', b: 'done v9' }, { done: 2 }),
  )
  breaks('I2', 'under the key of another', () =>
    due()
      .done('a', 'v1', 't1')
      .schedule('b', 'v2', 100)
      .claim('b', 'v2', 't2')
      .start('b', 'v1')
      .start('b', 'v2')
      .settle('b', 't2', DONE)
      .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
  )
  breaks('I2', 'its id changed between attempts', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', snooze(10), { ringMs: 110 })
      .at(110)
      .claim('a', 'v1', 't2', { ringMs: 110, deliveries: 2 })
      .start('a', 'v1', { id: 'another' })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I2', 'the id of another', () =>
    due()
      .done('a', 'v1', 't1')
      .schedule('b', 'v2', 100)
      .claim('b', 'v2', 't2')
      .start('b', 'v2', { id: 'id of v1' })
      .settle('b', 't2', DONE)
      .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
  )
  breaks('I2', 'written, and nobody had called it', () =>
    new Story()
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I2', 'something is there at the end that nobody wrote', () =>
    new Story().ends({ a: 'done v1' }, {}),
  )
})

describe('I3 never early', () => {
  breaks('I3', 'started before its time', () =>
    due()
      .at(90)
      .claim('a', 'v1', 't1')
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I3', 'claimed as if it rang earlier', () =>
    due()
      .claim('a', 'v1', 't1', { ringMs: 99 })
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I3', 'before the time it was rescheduled to', () =>
    due()
      .reschedule('a', 'rescheduled', 500)
      .at(400)
      .claim('a', 'v1', 't1')
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I3', 'before a retry was due', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', retry(300), { ringMs: 400 })
      .at(399)
      .claim('a', 'v1', 't2', { ringMs: 400, failures: 1, deliveries: 2 })
      .start('a', 'v1', { attempt: 2 })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'on the dot, and again after a retry',
    (c) =>
      held(c)
        .start('a', 'v1')
        .settle('a', 't1', retry(300), { ringMs: c === 'redis' ? null : 400 })
        .at(400)
        .claim('a', 'v1', 't2', { ringMs: 400, failures: 1, deliveries: 2 })
        .start('a', 'v1', { attempt: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine('early by the true time, and not by the clock that rang', () =>
    due()
      .at(90)
      .claim('a', 'v1', 't1')
      .start('a', 'v1', { recordMs: 100 })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
})

describe('I4 cancelled means never delivered', () => {
  const cancelledA = (c: Composition) => ({ a: ended(c, 'cancelled v1') })
  fine('before its claim', (c) => due(c).cancel('a').ends(cancelledA(c), CANCELLED_A), ALL)
  breaks(
    'I4',
    'claimed nevertheless',
    (c) =>
      due(c)
        .cancel('a')
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I4',
    'started after the caller knew, under a claim from before',
    (c) => held(c).settle('a', 't1', RETURN).cancel('a').start('a', 'v1').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  breaks(
    'I4',
    'cancelled, though somebody had it',
    (c) => held(c).cancel('a').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  breaks('I4', 'in flight, though nobody had it', () =>
    due().cancel('a', 'in-flight').ends({ a: 'pending v1' }, { pending: 1 }, { settledBeforeMs: 50 }),
  )
  breaks(
    'I4',
    'in flight, though the lease was over',
    (c) =>
      held(c)
        .at(2_000)
        .cancel('a', 'in-flight')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    // A file decides by the moment at which it was asked, which the history does not have.
    ['redis', 'center', 'alone'],
  )
  breaks('I4', 'not found, though it was there', () =>
    due().cancel('a', 'not-found').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I4', 'claimed again after it was cancelled in flight', () =>
    held()
      .cancel('a', 'in-flight')
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I4', 'acknowledged, and the truth knows nothing of it', () =>
    due().call('cancel', 'a').answer('cancelled').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'in flight, and the attempt ends well',
    (c) =>
      held(c)
        .cancel('a', 'in-flight')
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'in flight, and the attempt fails',
    (c) =>
      held(c)
        .start('a', 'v1')
        .cancel('a', 'in-flight')
        .settle('a', 't1', retry(5))
        .ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'in flight, and its lease runs out: nobody need tell',
    (c) => held(c).cancel('a', 'in-flight').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'in flight, its lease runs out, and it is not found',
    (c) =>
      held(c).cancel('a', 'in-flight').at(2_000).cancel('a', 'not-found').ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'in flight, its lease runs out, and whoever asks to move it ends it',
    (c) =>
      held(c)
        .cancel('a', 'in-flight')
        .at(2_000)
        .reschedule('a', 'not-found')
        .ends(cancelledA(c), CANCELLED_A),
    LEDGERS,
  )
  fine(
    'after the lease was over',
    (c) => held(c).at(2_000).cancel('a').stale('a', 't1', DONE).ends(cancelledA(c), CANCELLED_A),
    ALL,
  )
  fine(
    'scheduled anew after it was cancelled',
    (c) =>
      due(c)
        .cancel('a')
        .schedule('a', 'v2', 100)
        .done('a', 'v2', 't1')
        .ends({ a: ended(c, 'done v2') }, { done: 1, cancelled: 1 }),
    ALL,
  )
  fine('what was replaced in flight may start after its successor was cancelled', () =>
    held()
      .schedule('a', 'v2', 1e9, 'replaced', true)
      .cancel('a')
      .start('a', 'v1', { dueMs: 100 })
      .end('done')
      .stale('a', 't1', DONE)
      .ends({ a: 'cancelled v2' }, CANCELLED_A),
  )
  fine('swept by a tag: nobody called for this key', () =>
    due().write('cancel', 'a', 'cancelled').ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('of a transaction, which answers before it commits', () =>
    due()
      .call('cancel', 'a', { tx: 3 })
      .answer('cancelled')
      .at(120)
      .write('cancel', 'a', 'cancelled', { tx: 3 })
      .ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('of a transaction that found nothing, and when it commits there is something', () =>
    new Story()
      .call('cancel', 'a', { tx: 3 })
      .answer('not-found')
      .schedule('a', 'v1', 1e9)
      .write('cancel', 'a', 'not-found', { tx: 3 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
})

describe('I5 rescheduled means not before', () => {
  fine(
    'before its claim',
    (c) =>
      due(c)
        .reschedule('a', 'rescheduled', 300)
        .at(300)
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I5',
    'started after the caller knew, under a claim from before',
    (c) =>
      held(c)
        .settle('a', 't1', RETURN)
        .reschedule('a', 'rescheduled', 1e9)
        .start('a', 'v1', { dueMs: 100 })
        .ends({ a: 'pending v1' }, { pending: 1 }),
    ALL,
  )
  breaks('I5', 'rescheduled, though somebody had it', () =>
    held().reschedule('a', 'rescheduled', 1e9).ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I5', 'rescheduled, though there was nothing', () =>
    new Story().reschedule('a', 'rescheduled', 1e9).ends({}, {}),
  )
  breaks('I5', 'rescheduled, though it was cancelled in flight', () =>
    held()
      .cancel('a', 'in-flight')
      .at(2_000)
      .reschedule('a', 'rescheduled', 1e9)
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  breaks('I5', 'in flight, though nobody had it', () =>
    due().reschedule('a', 'in-flight').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I5', 'not found, though it was there', () =>
    due().reschedule('a', 'not-found').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I5', 'to another time than the caller was told', () =>
    due()
      .call('reschedule', 'a')
      .write('reschedule', 'a', 'rescheduled', { dueMs: 1e9 })
      .answer('rescheduled', { dueMs: 2e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  fine(
    'in flight, not found, and after a lost lease',
    (c) =>
      held(c)
        .reschedule('b', 'not-found')
        .reschedule('a', 'in-flight')
        .at(2_000)
        .reschedule('a', 'rescheduled', 2_500)
        .stale('a', 't1', DONE)
        .at(2_500)
        .done('a', 'v1', 't2', { deliveries: 2 })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'failures and lost leases are forgotten',
    (c) =>
      due(c, 2)
        .claim('a', 'v1', 't1')
        .start('a', 'v1')
        .settle('a', 't1', retry(100), { ringMs: 200 })
        .reschedule('a', 'rescheduled', 300)
        .at(300)
        .claim('a', 'v1', 't2', { deliveries: 2 })
        .start('a', 'v1')
        .settle('a', 't2', retry(100), { ringMs: 400 })
        .at(400)
        .claim('a', 'v1', 't3', { ringMs: 400, failures: 1, deliveries: 3 })
        .start('a', 'v1', { attempt: 2 })
        .settle('a', 't3', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
})

describe('I6 the outcome of a schedule says what happened', () => {
  const pending = { pending: 1 }
  breaks('I6', 'created, though one was alive', () =>
    due().schedule('a', 'v2', 1e9, 'created').ends({ a: 'pending v2' }, { pending: 1 }),
  )
  breaks('I6', 'replaced, though there was none', () =>
    new Story().schedule('a', 'v1', 1e9, 'replaced').ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'kept, though there was none', () => new Story().schedule('a', 'v1', 1e9, 'kept').ends({}, {}))
  breaks('I6', 'kept, though it was cancelled in flight', () =>
    held()
      .cancel('a', 'in-flight')
      .schedule('a', 'v2', 100, 'kept', true)
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I6', 'kept with another due time', () =>
    due().schedule('a', 'v2', 101, 'kept').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I6', 'in flight, though nobody had it', () =>
    due().schedule('a', 'v2', 1e9, 'replaced', true).ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'not in flight, though somebody had it', () =>
    held().schedule('a', 'v2', 1e9, 'replaced').ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'claimed after another took its place', () =>
    due()
      .schedule('a', 'v2', 1e9, 'replaced')
      .claim('a', 'v1', 't1', { dueMs: 100, ringMs: 100 })
      .ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'the caller was told another outcome', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .answer('replaced', { dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'the caller was told another due time', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .answer('created', { dueMs: 1e9 + 1 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'the caller was not told that it was in flight', () =>
    held()
      .call('schedule', 'a', { version: 'v2' })
      .write('schedule', 'a', 'replaced', { version: 'v2', dueMs: 1e9, inFlight: true })
      .answer('replaced', { dueMs: 1e9 })
      .ends({ a: 'pending v2' }, pending),
  )
  breaks('I6', 'acknowledged before it took effect', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .answer('created', { dueMs: 1e9 })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'sent twice', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .write('schedule', 'a', 'replaced', { version: 'v1', dueMs: 1e9 })
      .answer('created', { dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  breaks('I6', 'failed, and took effect later', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .answer(null, { error: 'timetable-unavailable' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .ends({ a: 'pending v1' }, pending),
  )
  fine(
    'kept, replaced, and replaced in flight',
    (c) =>
      due(c)
        .schedule('a', 'v2', 100, 'kept')
        .claim('a', 'v1', 't1')
        .schedule('a', 'v3', 100, 'kept', true)
        .schedule('a', 'v4', 200, 'replaced', true)
        .start('a', 'v1', { dueMs: 100 })
        .end('done')
        .stale('a', 't1', DONE)
        .at(200)
        .done('a', 'v4', 't2')
        .ends({ a: ended(c, 'done v4') }, DONE_A),
    ALL,
  )
  fine(
    'what was cancelled in flight is not kept',
    (c) =>
      held(c)
        .cancel('a', 'in-flight')
        .schedule('a', 'v2', 1e9, 'replaced', true)
        .stale('a', 't1', DONE)
        .ends({ a: 'pending v2' }, pending),
    ALL,
  )
  fine(
    'a lease that is over may count as in flight, or not',
    (c) =>
      held(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't2')
        .at(2_000)
        .schedule('a', 'v3', 1e9, 'replaced', true)
        .schedule('b', 'v4', 1e9, 'replaced', false)
        .ends({ a: 'pending v3', b: 'pending v4' }, { pending: 2 }),
    ALL,
  )
  fine('a call that failed without an effect, and one that would have kept', () =>
    due()
      .call('schedule', 'a', { version: 'v2' })
      .answer(null, { error: 'timetable-full' })
      .call('schedule', 'a', { version: 'v3' })
      .answer(null, { error: 'ledger-unavailable' })
      .write('schedule', 'a', 'kept', { version: 'v3', dueMs: 100 })
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine('a transaction that would have kept what is gone when it commits', () =>
    due()
      .call('schedule', 'a', { version: 'v2', tx: 1 })
      .answer('kept', { dueMs: 100 })
      .done('a', 'v1', 't1')
      .write('schedule', 'a', 'kept', { version: 'v2', dueMs: 100, tx: 1 })
      .ends({ a: 'done v1' }, DONE_A),
  )
})

describe('I7 valid leases do not overlap', () => {
  breaks(
    'I7',
    'claimed by another one before the lease was over',
    (c) =>
      held(c)
        .at(1_000)
        .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I7', 'claimed by another one after the lease was extended', () =>
    held()
      .at(1_000)
      .extend('t1', ['a'])
      .at(1_500)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I7',
    'started when the lease was over',
    (c) =>
      held(c)
        .at(1_100)
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'a claim whose answer was lost is repeated under its token',
    (c) =>
      held(c)
        .at(600)
        .claim('a', 'v1', 't1', { leaseEndTrueMs: 1_100 })
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'claimed by another one when the lease was over, and in the last millisecond of it',
    (c) =>
      held(c)
        .at(1_099.5)
        .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
        .at(3_000)
        .claim('a', 'v1', 't3', { life: 'n3/1', isAlone: true, deliveries: 3 })
        .start('a', 'v1', { life: 'n3/1' })
        .settle('a', 't3', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine('a start under an extended lease', () =>
    held()
      .at(1_000)
      .extend('t1', ['a'])
      .at(1_500)
      .start('a', 'v1')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine('taken anew under a token that lost it before: nobody knows until when', () =>
    held()
      .at(2_000)
      .claim('a', 'v1', 't1', { deliveries: 2, leaseEndTrueMs: 1_100 })
      .cancel('a', 'in-flight')
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'a process that has the file for itself takes what its predecessor held',
    (c) =>
      held(c)
        .life('crashes')
        .life('starts', 'n1/2')
        .at(200)
        .claim('a', 'v1', 't2', { life: 'n1/2', deliveries: 2 })
        .start('a', 'v1', { life: 'n1/2' })
        .settle('a', 't2', DONE)
        .ends({ a: 'done v1' }, DONE_A),
    ['embedded'],
  )
  breaks(
    'I7',
    'a process takes what its predecessor held, and others could have',
    (c) =>
      held(c)
        .life('crashes')
        .life('starts', 'n1/2')
        .at(200)
        .claim('a', 'v1', 't2', { life: 'n1/2', deliveries: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ['redis', 'center', 'alone'],
  )
})

describe('I8 stale tokens change nothing', () => {
  breaks('I8', 'settled by one who had lost it to another', () =>
    held()
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I8',
    'settled twice',
    (c) =>
      held(c)
        .settle('a', 't1', DONE)
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I8', 'settled after it was replaced', () =>
    held()
      .schedule('a', 'v2', 1e9, 'replaced', true)
      .settle('a', 't1', DONE)
      .ends({ a: 'pending v2' }, { pending: 1 }),
  )
  breaks(
    'I8',
    'stale, though it held it',
    (c) =>
      held(c)
        .stale('a', 't1', DONE)
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I8',
    'stale, though its lease had been extended',
    (c) =>
      held(c)
        .at(900)
        .extend('t1', ['a'])
        .at(1_500)
        .stale('a', 't1', DONE)
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I8',
    'stale when the lease was over, though nobody had come by',
    (c) => held(c).at(2_000).stale('a', 't1', DONE).settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
    LEDGERS,
  )
  breaks(
    'I8',
    'lost, though the lease was not over',
    (c) => held(c).settle('a', 't1', LOST, { ringMs: 1e9 }).ends({ a: 'pending v1' }, { pending: 1 }),
    LEDGERS,
  )
  breaks('I8', 'extended by one who did not hold it', () =>
    held()
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .extend('t1', ['a'])
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I8',
    'not extended, though it held it',
    (c) =>
      held(c)
        .extend('t1', [])
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I8',
    'of two that it held only one was extended',
    (c) =>
      held(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't1')
        .extend('t1', ['b'])
        .settle('a', 't1', DONE)
        .settle('b', 't1', DONE)
        .ends({ a: 'none', b: 'none' }, { done: 2 }),
    ['redis'],
  )
  breaks('I8', 'a start was recorded for one who did not hold it', () =>
    due().begin('a', 't9').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I8', 'a start was refused to one who held it', () =>
    held().begin('a', 't1', false).settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'settled after the lease was over, when nobody had come by',
    (c) =>
      held(c)
        .start('a', 'v1')
        .at(2_000)
        .settle('a', 't1', DONE)
        .stale('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'stale after the lease was over: a rescue came by, and told nobody',
    (c) =>
      held(c)
        .at(2_000)
        .stale('a', 't1', DONE)
        .extend('t1', [])
        .begin('a', 't1', false)
        .at(2_500)
        .done('a', 'v1', 't2', { ringMs: 2_400, deliveries: 2 })
        .ends({ a: 'none' }, DONE_A),
    ['redis'],
  )
  fine(
    'of two, one was settled before: the other one is extended',
    (c) =>
      held(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't1')
        .settle('a', 't1', DONE)
        .at(900)
        .extend('t1', ['b'])
        .at(1_500)
        .settle('b', 't1', DONE)
        .ends({ a: ended(c, 'done v1'), b: ended(c, 'done v2') }, { done: 2 }),
    ALL,
  )
  fine(
    'lost by the word of whoever found it, with a late settle',
    (c) =>
      held(c)
        .at(900)
        .stale('a', 't1', LOST)
        .at(2_000)
        .settle('a', 't1', LOST, { ringMs: 2_300 })
        .stale('a', 't1', DONE)
        .at(2_300)
        .done('a', 'v1', 't2', { ringMs: 2_300, deliveries: 2 })
        .ends({ a: 'done v1' }, DONE_A),
    LEDGERS,
  )
  fine('not extended while a transaction that may have locked it was open', () =>
    held()
      .call('cancel', 'a', { tx: 4 })
      .answer('in-flight')
      .extend('t1', [])
      .write('cancel', 'a', 'in-flight', { tx: 4 })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine('a suspect was freed, and its batch extended: nobody was told which of them', () =>
    due()
      .claim('a', 'v1', 't0')
      .at(2_000)
      .schedule('b', 'v2', 100)
      .claim('a', 'v1', 't1', { deliveries: 2, dueMs: 100, ringMs: 100 })
      .claim('b', 'v2', 't1')
      .at(3_500)
      .extend('t1', ['a', 'b'])
      .claim('a', 'v1', 't2', { isAlone: true, deliveries: 3 })
      .settle('a', 't2', DONE)
      .settle('b', 't1', DONE)
      .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
  )
})

describe('I9 one final state', () => {
  const again = (story: Story, c: Composition): History =>
    story.done('a', 'v1', 't2', { deliveries: 2 }).ends({ a: ended(c, 'done v1') }, DONE_A)
  breaks('I9', 'claimed after it was done', (c) => again(due(c).done('a', 'v1', 't1'), c), ALL)
  breaks(
    'I9',
    'claimed after it was obsolete',
    (c) => again(held(c).settle('a', 't1', { kind: 'obsolete' }), c),
    ALL,
  )
  breaks(
    'I9',
    'claimed after it was dead',
    (c) => again(held(c).start('a', 'v1').end('dead').settle('a', 't1', REJECTED), c),
    ALL,
  )
  breaks('I9', 'buried after it was done', () =>
    due().done('a', 'v1', 't1').buried('a', 'poison').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I9', 'replayed, though it was not dead', () =>
    due().done('a', 'v1', 't1').replay('a').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I9', 'not replayed, though it was dead', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .replay('a', 'not-found')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  breaks('I12 I9', 'replayed over a live task, which is gone', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .schedule('a', 'v2', 1e9)
      .call('replay', 'a')
      .write('replay', 'a', 'replayed', { dueMs: 1e9 })
      .answer('replayed')
      .ends({ a: 'pending v1' }, { pending: 1, scheduled: 2 }),
  )
  breaks('I9', 'live, though it was not', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .replay('a', 'live')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  breaks('I9', 'purged, though there was no grave', () =>
    due().purge('a').done('a', 'v1', 't1').ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I9', 'replayed twice for one call', () => {
    const story = held().start('a', 'v1').end('dead').settle('a', 't1', REJECTED).call('replay', 'a')
    return story
      .write('replay', 'a', 'replayed', { dueMs: 100 })
      .write('replay', 'a', 'not-found')
      .answer('replayed')
      .done('a', 'v1', 't2', { deliveries: 2 })
      .ends({ a: 'done v1' }, DONE_A)
  })
  breaks('I9', 'a replay was acknowledged that never happened', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .call('replay', 'a')
      .answer('replayed')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  fine(
    'dead, replayed, done',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .replay('a')
        .replay('a', 'not-found')
        .done('a', 'v1', 't2', { deliveries: 2 })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'dead twice: the second grave takes the place of the first, which a live task protects',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .schedule('a', 'v2', 100)
        .replay('a', 'live')
        .claim('a', 'v2', 't2')
        .start('a', 'v2')
        .end('dead')
        .settle('a', 't2', REJECTED)
        .ends({ a: 'dead v2' }, { dead: 1, purged: 1 }, {}, { deadCause: 'handler' }),
    ALL,
  )
  fine(
    'dead, and another one of the key done after that',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .at(500)
        .schedule('a', 'v2', 500)
        .done('a', 'v2', 't2')
        .ends(
          { a: c === 'redis' ? 'dead v1' : 'done v2' },
          { dead: 1, done: 1 },
          {},
          { deadCause: c === 'redis' ? 'handler' : null },
        ),
    ALL,
  )
})

/** Lost twice in a row, so that only a claim of its own may have it; time stands at 4000. */
const suspect = (c: Composition): Story =>
  held(c).at(2_000).claim('a', 'v1', 't2', { deliveries: 2 }).at(4_000)

describe('I10 dead if and only if', () => {
  const dead = (story: Story, cause: 'attempts' | 'handler' | 'poison' | 'payload', failures = 0): History =>
    story.ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: cause, failures })
  const failsTwice = (c: Composition): Story =>
    held(c)
      .start('a', 'v1')
      .settle('a', 't1', retry(100), { ringMs: 200 })
      .at(200)
      .claim('a', 'v1', 't2', { ringMs: 200, failures: 1, deliveries: 2 })
      .start('a', 'v1', { attempt: 2 })
      .settle('a', 't2', retry(100), { ringMs: 300 })
      .at(300)
  fine(
    'after as many failures as it may have',
    (c) =>
      dead(
        failsTwice(c)
          .claim('a', 'v1', 't3', { ringMs: 300, failures: 2, deliveries: 3 })
          .start('a', 'v1', { attempt: 3 })
          .settle('a', 't3', EXHAUSTED)
          .tell({ kind: 'dead', life: 'n1/1', key: 'a', cause: 'attempts' }),
        'attempts',
        3,
      ),
    ALL,
  )
  breaks(
    'I10',
    'after fewer',
    (c) => dead(held(c).start('a', 'v1').settle('a', 't1', EXHAUSTED), 'attempts', 1),
    ALL,
  )
  breaks('I10', 'retried after as many', () =>
    failsTwice('center')
      .claim('a', 'v1', 't3', { ringMs: 300, failures: 2, deliveries: 3 })
      .start('a', 'v1', { attempt: 3 })
      .settle('a', 't3', retry(1e9), { ringMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 3 }),
  )
  breaks('I10', 'a claim does not know its failures', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', retry(100), { ringMs: 200 })
      .at(200)
      .claim('a', 'v1', 't2', { ringMs: 200, failures: 0, deliveries: 2 })
      .start('a', 'v1')
      .settle('a', 't2', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I10',
    'a lost lease counted as a failure',
    (c) =>
      held(c)
        .at(2_000)
        .claim('a', 'v1', 't2', { failures: 1, deliveries: 2 })
        .start('a', 'v1', { attempt: 2 })
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I10', 'a handler was told another attempt', () =>
    held().start('a', 'v1', { attempt: 2 }).settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
  )
  breaks(
    'I10',
    'rejected by nobody',
    (c) => dead(held(c).start('a', 'v1').end('throw').settle('a', 't1', REJECTED), 'handler'),
    ALL,
  )
  breaks('I10', 'its payload did not fit, after a handler had it', () =>
    dead(
      held()
        .start('a', 'v1')
        .settle('a', 't1', { kind: 'dead', cause: 'payload', error: 'no', failed: false }),
      'payload',
    ),
  )
  breaks('I10', 'too late, which nobody asked for', () =>
    dead(
      held().settle('a', 't1', { kind: 'dead', cause: 'late', error: 'no', failed: false }),
      'late' as never,
    ),
  )
  breaks('I10', 'a rejection counted as a failure', () =>
    dead(
      held()
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', { kind: 'dead', cause: 'handler', error: 'no', failed: true }),
      'handler',
      1,
    ),
  )
  fine('its payload did not fit, or was damaged', () =>
    held()
      .settle('a', 't1', { kind: 'dead', cause: 'payload', error: 'no', failed: false })
      .schedule('b', 'v2', 100)
      .buried('b', 'payload')
      .ends({ a: 'dead v1', b: 'dead v2' }, { dead: 2 }, {}, { deadCause: 'payload' }),
  )
  fine(
    'poison: three leases in a row, the last one alone and started',
    (c) =>
      dead(
        suspect(c)
          .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
          .begin('a', 't3')
          .start('a', 'v1')
          .at(6_000)
          .buried('a', 'poison')
          .tell({ kind: 'dead', life: 'n2/1', key: 'a', cause: 'poison' })
          .stale('a', 't3', DONE),
        'poison',
      ),
    ALL,
  )
  fine(
    'poison, found by a settle, whichever is told first',
    (c) =>
      suspect(c)
        .schedule('b', 'v2', 100)
        .claim('b', 'v2', 't4')
        .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3, dueMs: 100, ringMs: 100 })
        .begin('a', 't3')
        .at(6_000)
        .claim('b', 'v2', 't5', { deliveries: 2 })
        .at(8_000)
        .claim('b', 'v2', 't6', { isAlone: true, deliveries: 3 })
        .begin('b', 't6')
        .settle('a', 't3', LOST)
        .buried('a', 'poison')
        .at(10_000)
        .buried('b', 'poison')
        .settle('b', 't6', LOST)
        .ends({ a: 'dead v1', b: 'dead v2' }, { dead: 2 }, {}, { deadCause: 'poison' }),
    LEDGERS,
  )
  fine(
    'poison, found by a rescue on behalf of somebody who was not told, and scheduled anew before anybody is',
    (c) =>
      suspect(c)
        .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
        .begin('a', 't3')
        .at(6_000)
        .schedule('a', 'v2', 1e9)
        .buried('a', 'poison')
        .ends({ a: 'pending v2' }, { pending: 1, dead: 1 }),
    ['redis'],
  )
  breaks(
    'I10',
    'poison after one lost lease',
    (c) =>
      dead(
        due(c).claim('a', 'v1', 't1', { isAlone: true }).begin('a', 't1').at(2_000).buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'poison, though it was not started',
    (c) =>
      dead(
        suspect(c).claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 }).at(6_000).buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'poison, though its lease was not over',
    (c) =>
      dead(
        suspect(c)
          .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
          .begin('a', 't3')
          .at(4_500)
          .buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'poison, after a snooze in between',
    (c) =>
      dead(
        suspect(c)
          .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
          .settle('a', 't3', snooze(100), { ringMs: 4_100 })
          .at(4_100)
          .claim('a', 'v1', 't4', { isAlone: true, deliveries: 4, ringMs: 4_100 })
          .begin('a', 't4')
          .at(6_000)
          .buried('a', 'poison'),
        'poison',
      ),
    ALL,
  )
  breaks(
    'I10',
    'claimed again, though it is poison',
    (c) =>
      suspect(c)
        .claim('a', 'v1', 't3', { isAlone: true, deliveries: 3 })
        .begin('a', 't3')
        .at(6_000)
        .claim('a', 'v1', 't4', { isAlone: true, deliveries: 4 })
        .settle('a', 't4', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I10',
    'a suspect was claimed among others',
    (c) =>
      suspect(c)
        .claim('a', 'v1', 't3', { deliveries: 3 })
        .settle('a', 't3', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks('I10', 'a death was announced that did not happen', () =>
    held()
      .tell({ kind: 'dead', life: 'n1/1', key: 'a', cause: 'attempts' })
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1' }, DONE_A),
  )
  breaks('I10', 'at the end with other failures', () =>
    held()
      .start('a', 'v1')
      .settle('a', 't1', retry(1e9), { ringMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 2 }),
  )
  breaks('I10', 'at the end of another cause', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'poison' }),
  )
  fine(
    'given back, snoozed and crashed as often as you like: no failure',
    (c) =>
      held(c)
        .settle('a', 't1', RETURN)
        .claim('a', 'v1', 't2')
        .start('a', 'v1')
        .settle('a', 't2', snooze(50), { ringMs: 150 })
        .at(150)
        .claim('a', 'v1', 't3', { ringMs: 150, deliveries: 2 })
        .life('crashes')
        .life('starts', 'n1/2')
        .at(2_000)
        .claim('a', 'v1', 't4', { ringMs: c === 'redis' ? 1_900 : 150, life: 'n1/2', deliveries: 3 })
        .start('a', 'v1', { life: 'n1/2' })
        .settle('a', 't4', DONE, { life: 'n1/2' })
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
})

describe('I11 every start has a cause', () => {
  breaks(
    'I11',
    'started twice under one claim',
    (c) =>
      held(c)
        .start('a', 'v1')
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I11',
    'started by a process that did not claim it',
    (c) =>
      held(c)
        .start('a', 'v1', { life: 'n2/1' })
        .settle('a', 't1', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I11',
    'started after its claim was settled',
    (c) =>
      held(c)
        .settle('a', 't1', DONE)
        .start('a', 'v1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine(
    'a lease ran out, and both handlers run',
    (c) =>
      held(c)
        .start('a', 'v1')
        .at(2_000)
        .claim('a', 'v1', 't2', { life: 'n2/1', deliveries: 2 })
        .start('a', 'v1', { life: 'n2/1' })
        .stale('a', 't1', DONE)
        .settle('a', 't2', DONE)
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  fine('a process starts the older of two versions that it claimed', () =>
    held()
      .schedule('a', 'v2', 100, 'replaced', true)
      .claim('a', 'v2', 't2')
      .start('a', 'v1')
      .start('a', 'v2')
      .stale('a', 't1', DONE)
      .settle('a', 't2', DONE)
      .ends({ a: 'done v2' }, DONE_A),
  )
})

describe('I12 the books balance', () => {
  const done = (books: Parameters<Story['ends']>[1], more: Parameters<Story['ends']>[2] = {}): History =>
    due().done('a', 'v1', 't1').ends({ a: 'done v1' }, books, more)
  breaks('I12', 'one too few', () => done({ scheduled: 2, done: 1 }))
  breaks('I12', 'balanced, and wrong', () => done({ scheduled: 1, cancelled: 1 }))
  breaks('I12', 'one pending that nobody knows', () => done({ scheduled: 2, done: 1, pending: 1 }))
  breaks('I12', 'claimed instead of pending', () =>
    new Story().schedule('a', 'v1', 1e9).ends({ a: 'pending v1' }, { claimed: 1 }),
  )
  breaks('I12', 'a grave that was overwritten counts as dead', () =>
    held()
      .start('a', 'v1')
      .end('dead')
      .settle('a', 't1', REJECTED)
      .schedule('a', 'v2', 100)
      .claim('a', 'v2', 't2')
      .start('a', 'v2')
      .end('dead')
      .settle('a', 't2', REJECTED)
      .ends({ a: 'dead v2' }, { dead: 2 }, {}, { deadCause: 'handler' }),
  )
  breaks('I12', 'the rows do not agree', () =>
    done(DONE_A, { audit: { balances: false, missing: 0, orphaned: 0 } }),
  )
  fine(
    'a claim whose lease is over at the end: nobody knows whether it was found',
    (c) => held(c).ends({ a: 'pending v1' }, { pending: 1 }, { settledBeforeMs: 0 }),
    ['redis', 'embedded'],
  )
})

describe('I13 no orphan', () => {
  const audited = (missing: number, orphaned: number): History =>
    due()
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A, { audit: { balances: true, missing, orphaned } })
  breaks('I13', 'a live task that the timetable did not know', () => audited(1, 0))
  fine('an entry too many only rings in vain', () => audited(0, 3))
})

describe('I14 read your writes', () => {
  fine(
    'pending, claimed, gone',
    (c) =>
      new Story(c)
        .get('a', 'not-found')
        .schedule('a', 'v1', 100)
        .get('a', 'pending', 'v1')
        .at(100)
        .claim('a', 'v1', 't1')
        .get('a', 'claimed', 'v1')
        .start('a', 'v1')
        .settle('a', 't1', DONE)
        .get('a', ...((c === 'redis' ? ['not-found'] : ['done', 'v1']) as [string, string?]))
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I14',
    'not found after it was acknowledged',
    (c) =>
      due(c)
        .get('a', 'not-found')
        .done('a', 'v1', 't1')
        .ends({ a: ended(c, 'done v1') }, DONE_A),
    ALL,
  )
  breaks(
    'I14',
    'not found after it was done, and a ledger remembers',
    (c) => due(c).done('a', 'v1', 't1').get('a', 'not-found').ends({ a: 'done v1' }, DONE_A),
    LEDGERS,
  )
  breaks('I14', 'the older one after it was replaced', () =>
    due()
      .schedule('a', 'v2', 1e9, 'replaced')
      .get('a', 'pending', 'v1')
      .ends({ a: 'pending v2' }, { pending: 1 }),
  )
  breaks('I14', 'pending after it was cancelled', () =>
    due().cancel('a').get('a', 'pending', 'v1').ends({ a: 'cancelled v1' }, CANCELLED_A),
  )
  fine('whichever of the states that it had meanwhile', () => {
    const looked = (outcome: string): History =>
      new Story()
        .call('get', 'a')
        .tell({
          kind: 'call',
          call: 90,
          life: 'n1/1',
          op: 'schedule',
          key: 'a',
          version: 'v1',
          tx: null,
          delayMs: null,
          onConflict: null,
        })
        .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
        .tell({
          kind: 'return',
          call: 90,
          outcome: 'created',
          dueMs: 1e9,
          inFlight: false,
          error: null,
          version: null,
        })
        .answer(outcome, { version: outcome === 'not-found' ? null : 'v1' })
        .ends({ a: 'pending v1' }, { pending: 1 })
    expect(check(looked('not-found'))).toEqual([])
    return looked('pending')
  })
  fine('one that failed saw nothing', () =>
    due()
      .call('get', 'a')
      .answer(null, { error: 'ledger-unavailable' })
      .done('a', 'v1', 't1')
      .ends({ a: 'done v1' }, DONE_A),
  )
  fine(
    'not found after it was dead and purged',
    (c) =>
      held(c)
        .start('a', 'v1')
        .end('dead')
        .settle('a', 't1', REJECTED)
        .get('a', 'dead', 'v1')
        .purge('a')
        .get('a', 'not-found')
        .ends({}, { purged: 1 }),
    ALL,
  )
  fine('a ledger whose clock was set back may take another one for the last', () =>
    due()
      .tell({ kind: 'fault', fault: 'step-ledger', phase: 'begin', life: null })
      .done('a', 'v1', 't1')
      .at(500)
      .schedule('a', 'v2', 500)
      .cancel('a')
      .ends({ a: 'done v1' }, { done: 1, cancelled: 1 }),
  )
})

describe('liveness', () => {
  breaks(
    'L1',
    'pending, though it was due long ago',
    (c) => due(c).ends({ a: 'pending v1' }, { pending: 1 }),
    ALL,
  )
  breaks('L1', 'claimed, though it was due long ago', () =>
    held().extend('t1', ['a'], { leaseEndTrueMs: 1e9 }).ends({ a: 'claimed v1' }, { claimed: 1 }),
  )
  fine(
    'a retry that is due after the end',
    (c) =>
      held(c)
        .start('a', 'v1')
        .settle('a', 't1', retry(1e6), { ringMs: c === 'redis' ? null : 1_000_100 })
        .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 1 }),
    ALL,
  )
  breaks(
    'L1',
    'a retry that was due before the end',
    (c) =>
      held(c)
        .start('a', 'v1')
        .settle('a', 't1', retry(1_000), { ringMs: c === 'redis' ? null : 1_100 })
        .ends({ a: 'pending v1' }, { pending: 1 }, {}, { failures: 1 }),
    ALL,
  )
  breaks('L6', 'an unhandled rejection', () =>
    new Story().tell({ kind: 'trouble', what: 'unhandled' }).ends({}, {}),
  )
  breaks('L6', 'a call that was never answered', () => new Story().call('cancel', 'a').ends({}, {}))
  fine('a call whose process died', () => new Story().call('cancel', 'a').life('crashes').ends({}, {}))
  breaks('L7', 'a timer is left', () => new Story().ends({}, {}, { timersLeft: 1 }))
})

describe('the history itself', () => {
  const seqs = (...all: number[]): History => {
    const history = new Story().ends({}, {})
    const events = all.map(
      (seq) => ({ kind: 'fault', fault: 'x', phase: 'end', life: null, seq, trueMs: 0 }) as const,
    )
    return { ...history, events }
  }
  fine('numbers from anywhere', () => seqs(5, 6, 7))
  breaks('history', 'a gap', () => seqs(5, 7))
  breaks('history', 'true time goes back', () =>
    new Story().at(9).life('starts').at(8).life('starts', 'n2/1').ends({}, {}),
  )
  breaks('history', 'returned twice', () =>
    new Story().get('a', 'not-found').answer('not-found').ends({}, {}),
  )
  breaks('history', 'returned before it was called', () => new Story().answer('not-found').ends({}, {}))
  breaks('history', 'a run that ended and never began', () => new Story().end('done').ends({}, {}))
  breaks('history', 'a handler runs in a process that died', () =>
    held().life('crashes').start('a', 'v1').settle('a', 't1', DONE).ends({ a: 'done v1' }, DONE_A),
  )
  breaks('history', 'it ended before its last event', () =>
    new Story().at(9).life('starts').ends({}, {}, { trueMs: 8 }),
  )
})

describe('what it says', () => {
  it('names the key, the version and the event, first things first', () => {
    const history = due()
      .cancel('a')
      .claim('a', 'v1', 't1')
      .settle('a', 't1', DONE)
      .ends({ a: 'none' }, DONE_A)
    const [first, second] = check(history)
    expect(first).toMatchObject({ invariant: 'I4', seq: 6 })
    expect(first?.message).toBe('a v1 was claimed by n1/1 (t1), but it was cancelled (seq 6)')
    expect(second).toMatchObject({ invariant: 'I1', seq: -1 })
  })

  it('tells no more than twenty of a kind', () => {
    const story = new Story()
    for (let n = 0; n < 100; n++) story.schedule(`k${n}`, `v${n}`, 5, 'replaced')
    const told = check(story.ends({}, {}))
    expect(told.filter(({ invariant }) => invariant === 'I6')).toHaveLength(20)
    expect(told.filter(({ invariant }) => invariant === 'I1')).toHaveLength(20)
  })

  it('takes 200,000 events in its stride, also all of one key', () => {
    const story = new Story('center')
    for (let n = 0; n < 20_000; n++) {
      story.at(n * 10).schedule('a', `v${n}`, n * 10)
      story.done('a', `v${n}`, `t${n}`).get('a', 'done', `v${n}`)
    }
    const history = story.ends({ a: 'done v19999' }, { done: 20_000 })
    const from = performance.now()
    expect(check(history)).toEqual([])
    expect(performance.now() - from).toBeLessThan(5_000)
  })
})

describe('figures', () => {
  it('counts what there was', () => {
    const history = due()
      .schedule('b', 'v2', 100)
      .call('schedule', 'c', { version: 'v3' })
      .answer(null, { error: 'unknown-outcome' })
      .tell({ kind: 'fault', fault: 'crash', phase: 'begin', life: 'n1/1' })
      .tell({ kind: 'fault', fault: 'crash', phase: 'end', life: 'n1/1' })
      .claim('a', 'v1', 't1')
      .at(130)
      .start('a', 'v1')
      .cancel('a', 'in-flight')
      .cancel('b')
      .cancel('nobody', 'not-found')
      .call('schedule', 'd', { version: 'v4', tx: 1 })
      .answer('created', { dueMs: 1e9 })
      .call('schedule', 'e', { version: 'v5', tx: 2 })
      .answer('created', { dueMs: 1e9 })
      .write('schedule', 'e', 'created', { version: 'v5', dueMs: 1e9, tx: 2 })
      .life('crashes')
      .stale('a', 't9', DONE)
      .settle('a', 't1', DONE)
      .ends({ a: 'done v1', b: 'cancelled v2', e: 'pending v5' }, { done: 1, cancelled: 1, pending: 1 })
    expect(figuresOf(history)).toEqual({
      events: { call: 8, write: 6, return: 8, fault: 2, claim: 1, start: 1, life: 1, settle: 2 },
      faults: { crash: 1 },
      schedules: 5,
      cancels: 3,
      racingCancels: 1,
      settles: 2,
      staleSettles: 1,
      pulled: 0,
      settledElsewhere: 0,
      starts: 1,
      duplicates: 0,
      lostLeases: 0,
      unknownOutcomes: 1,
      transactions: 2,
      committed: 1,
      crashes: 1,
      changes: 0,
      conflicts: 0,
      burials: 0,
      lateness: { p50Ms: 30, p99Ms: 30, maxMs: 30 },
    })
  })

  it('tells duplicates from what was wanted, and counts lost leases', () => {
    const history = held()
      .start('a', 'v1')
      .settle('a', 't1', retry(100), { ringMs: 200 })
      .at(200)
      .claim('a', 'v1', 't2', { ringMs: 200, failures: 1, deliveries: 2 })
      .start('a', 'v1', { attempt: 2 })
      .at(1_300)
      .claim('a', 'v1', 't3', { ringMs: 200, failures: 1, deliveries: 3 })
      .start('a', 'v1', { attempt: 2 })
      .end('dead')
      .settle('a', 't3', REJECTED)
      .replay('a')
      .done('a', 'v1', 't4', { deliveries: 4 })
      .ends({ a: 'done v1' }, DONE_A)
    expect(check(history)).toEqual([])
    expect(figuresOf(history)).toMatchObject({ starts: 4, duplicates: 1, lostLeases: 1 })
  })

  it('knows which cancels raced a claim', () => {
    const soon = due().claim('a', 'v1', 't1').settle('a', 't1', RETURN).at(150).cancel('a')
    expect(figuresOf(soon.ends({}, {})).racingCancels).toBe(1)
    const later = due().claim('a', 'v1', 't1').settle('a', 't1', RETURN).at(151).cancel('a')
    expect(figuresOf(later.ends({}, {})).racingCancels).toBe(0)
    const around = due().call('cancel', 'a').claim('a', 'v1', 't1').answer('cancelled')
    expect(figuresOf(around.ends({}, {})).racingCancels).toBe(1)
    expect(figuresOf(new Story().ends({}, {})).lateness).toBeNull()
  })
})
