/** The exact bounds of rules. Each of these cases was judged wrongly by some mutant of the checker. */
import { describe } from 'vitest'
import { ALL, breaks, doneOf, due, ended, fine, held, LEDGERS } from './expectations.ts'
import { DONE, EXHAUSTED, LOST, REJECTED, RETURN, retry, Story } from './story.ts'
import type { Composition, History } from '../../history.ts'

/** Expects exactly these invariants to be broken; '' expects a history without violations. */
function tells(
  invariants: string,
  name: string,
  tell: (composition: Composition) => History,
  compositions: readonly Composition[] = ['center'],
): void {
  if (invariants === '') fine(name, tell, compositions)
  else breaks(invariants, name, tell, compositions)
}

const rejected = (composition: Composition = 'center'): Story =>
  held(composition).start('a', 'v1').end('dead').settle('a', 't1', REJECTED)

describe('answers', () => {
  tells('I4', 'a cancel took effect after it was acknowledged', () =>
    due()
      .call('cancel', 'a')
      .answer('cancelled')
      .write('cancel', 'a', 'cancelled')
      .ends({ a: 'cancelled v1' }, { cancelled: 1 }),
  )
  tells('', 'a cancel failed, and nothing happened', () =>
    doneOf(due().call('cancel', 'a').answer(null, { error: 'ledger-unavailable' }).done('a', 'v1', 't1')),
  )
  tells('', 'a cancel of unknown outcome took effect later', () =>
    due()
      .call('cancel', 'a')
      .answer(null, { error: 'unknown-outcome' })
      .at(500)
      .write('cancel', 'a', 'cancelled')
      .ends({ a: 'cancelled v1' }, { cancelled: 1 }),
  )
  tells('I9', 'a purge was acknowledged that never happened', () =>
    rejected()
      .call('purge', 'a')
      .answer('purged')
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  tells('', 'a purge was sent twice: the second time there is nothing', () =>
    rejected()
      .call('purge', 'a')
      .write('purge', 'a', 'purged')
      .write('purge', 'a', 'not-found')
      .answer('not-found')
      .ends({}, { purged: 1 }),
  )
  tells('I6', 'kept, though there was none', () =>
    doneOf(
      due().call('schedule', 'a', { version: 'v2' }).answer('kept', { dueMs: 100 }).done('a', 'v1', 't1'),
    ),
  )
  tells('I2', 'written before it was called', () =>
    new Story()
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .call('schedule', 'a', { version: 'v1' })
      .answer('created', { dueMs: 1e9 })
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
  tells('I2', 'written under another key', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'b', 'created', { version: 'v1', dueMs: 1e9 })
      .answer('created', { dueMs: 1e9 })
      .ends({ b: 'pending v1' }, { pending: 1 }),
  )
  tells('', 'a face that does not tell when', () =>
    new Story()
      .call('schedule', 'a', { version: 'v1' })
      .write('schedule', 'a', 'created', { version: 'v1', dueMs: 1e9 })
      .answer('created')
      .ends({ a: 'pending v1' }, { pending: 1 }),
  )
})

describe('leases that ran out', () => {
  tells(
    'I8',
    'stale, though it held it, and another one has it later',
    (c) => doneOf(held(c).stale('a', 't1', DONE).at(2_000).done('a', 'v1', 't2', { deliveries: 2 }), c),
    ALL,
  )
  tells(
    'I8',
    'stale after its lease was over, though a ledger does nothing by itself',
    (c) => doneOf(held(c).at(2_000).stale('a', 't1', DONE).done('a', 'v1', 't2', { deliveries: 2 }), c),
    LEDGERS,
  )
  tells(
    'I10',
    'lost twice, and claimed among others',
    (c) =>
      doneOf(
        held(c)
          .at(2_000)
          .settle('a', 't1', LOST, { ringMs: 2_000 })
          .claim('a', 'v1', 't2', { ringMs: 2_000, deliveries: 2 })
          .at(4_000)
          .settle('a', 't2', LOST, { ringMs: 4_000 })
          .done('a', 'v1', 't3', { ringMs: 4_000, deliveries: 3 }),
        c,
      ),
    LEDGERS,
  )
  tells(
    '',
    'alone and started, but it is its first loss: not poison',
    (c) =>
      doneOf(
        due(c)
          .claim('a', 'v1', 't1', { isAlone: true })
          .begin('a', 't1')
          .at(2_000)
          .done('a', 'v1', 't2', { deliveries: 2 }),
        c,
      ),
    ALL,
  )
  tells(
    'I3',
    'taken over as if it rang earlier',
    (c) => doneOf(held(c).at(2_000).done('a', 'v1', 't2', { ringMs: 99, deliveries: 2 }), c),
    LEDGERS,
  )
  tells(
    '',
    'taken over where a rescue put it',
    (c) => doneOf(held(c).at(2_000).done('a', 'v1', 't2', { ringMs: 1_900, deliveries: 2 }), c),
    ['redis'],
  )
  tells('', 'its former holder reports that its attempts are used up, and is ignored', () =>
    doneOf(
      held()
        .at(2_000)
        .claim('a', 'v1', 't2', { deliveries: 2 })
        .stale('a', 't1', EXHAUSTED)
        .settle('a', 't2', DONE),
    ),
  )
})

describe('what ended', () => {
  const deadThenDone = (story: Story): Story => story.at(500).schedule('a', 'v2', 500).done('a', 'v2', 't2')
  tells(
    'I1',
    'the dead one is shown, though another one ended after it',
    (c) =>
      deadThenDone(rejected(c)).ends({ a: 'dead v1' }, { dead: 1, done: 1 }, {}, { deadCause: 'handler' }),
    LEDGERS,
  )
  tells(
    'I1',
    'the same after a fault that touched no clock',
    (c) =>
      deadThenDone(rejected(c).tell({ kind: 'fault', fault: 'crash', phase: 'begin', life: null })).ends(
        { a: 'dead v1' },
        { dead: 1, done: 1 },
        {},
        { deadCause: 'handler' },
      ),
    LEDGERS,
  )
  tells('', 'of two that ended within a millisecond either may be the last', () =>
    due()
      .done('a', 'v1', 't1')
      .at(101)
      .schedule('a', 'v2', 101)
      .cancel('a')
      .ends({ a: 'done v1' }, { done: 1, cancelled: 1 }),
  )
  tells('I10', 'another death was announced than it died', () =>
    rejected()
      .tell({ kind: 'dead', life: 'n1/1', key: 'a', cause: 'attempts' })
      .ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
  tells('', 'due at the very moment before which all is settled', () =>
    due().ends({ a: 'pending v1' }, { pending: 1 }, { settledBeforeMs: 100 }),
  )
  tells('I11', 'started in a transaction that will cancel it, and its claim was over', () =>
    held()
      .settle('a', 't1', RETURN)
      .call('cancel', 'a', { tx: 1 })
      .answer('cancelled')
      .start('a', 'v1')
      .write('cancel', 'a', 'cancelled', { tx: 1 })
      .ends({ a: 'cancelled v1' }, { cancelled: 1 }),
  )
})

describe('times', () => {
  tells(
    'I3',
    'before a retry was due, where only the next claim says when',
    (c) =>
      doneOf(
        held(c)
          .start('a', 'v1')
          .settle('a', 't1', retry(300))
          .at(399)
          .claim('a', 'v1', 't2', { ringMs: 400, failures: 1, deliveries: 2 })
          .start('a', 'v1', { attempt: 2 })
          .end('done')
          .settle('a', 't2', DONE),
        c,
      ),
    ['redis'],
  )
  tells(
    '',
    'a clock was set back, and a rescue let it ring by that',
    (c) =>
      doneOf(
        held(c)
          .at(2_000)
          .claim('a', 'v1', 't2', { ringMs: 50, deliveries: 2 })
          .start('a', 'v1', { recordMs: 60 })
          .end('done')
          .settle('a', 't2', DONE),
        c,
      ),
    ['redis'],
  )
})

describe('extensions', () => {
  const both = (c: Composition): Story =>
    due(c).schedule('b', 'v2', 100).claim('a', 'v1', 't1').claim('b', 'v2', 't1')
  tells(
    'I7',
    'of two that were extended one is taken before their lease is over',
    (c) =>
      both(c)
        .at(900)
        .extend('t1', ['a', 'b'])
        .at(1_500)
        .claim('a', 'v1', 't2', { deliveries: 2 })
        .settle('a', 't2', DONE)
        .settle('b', 't1', DONE)
        .ends({ a: ended(c, 'done v1'), b: ended(c, 'done v2') }, { done: 2 }),
    ALL,
  )
  tells(
    'I7',
    'extended after its lease had expired unnoticed, and taken before it expires again',
    (c) =>
      doneOf(
        held(c)
          .at(2_000)
          .extend('t1', ['a'])
          .at(2_500)
          .claim('a', 'v1', 't2', { deliveries: 2 })
          .settle('a', 't2', DONE),
        c,
      ),
    ALL,
  )
  tells('I8', 'not extended, while a transaction was open that had to do with another key', () =>
    doneOf(
      held()
        .call('cancel', 'b', { tx: 4 })
        .answer('not-found')
        .extend('t1', [])
        .write('cancel', 'b', 'not-found', { tx: 4 })
        .settle('a', 't1', DONE),
    ),
  )
  tells(
    '',
    'not extended: of two it had settled one, and may have asked for that alone',
    (c) =>
      both(c)
        .settle('a', 't1', DONE)
        .extend('t1', [])
        .settle('b', 't1', DONE)
        .ends({ a: 'done v1', b: 'done v2' }, { done: 2 }),
    LEDGERS,
  )
})

describe('cancelled in flight', () => {
  tells('', 'in a transaction that commits when the lease is over', () =>
    doneOf(
      held()
        .call('cancel', 'a', { tx: 1 })
        .answer('in-flight')
        .at(2_000)
        .write('cancel', 'a', 'in-flight', { tx: 1 })
        .settle('a', 't1', DONE),
    ),
  )
  tells('I5', 'and not found by one who wants to move it, though it is still held', () =>
    doneOf(held().cancel('a', 'in-flight').reschedule('a', 'not-found').settle('a', 't1', DONE)),
  )
})

describe('burials', () => {
  tells('I9', 'damaged after it was done', () => doneOf(due().done('a', 'v1', 't1').buried('a', 'payload')))
  tells('I8', 'lost after it was rejected', () =>
    rejected().settle('a', 't1', LOST).ends({ a: 'dead v1' }, { dead: 1 }, {}, { deadCause: 'handler' }),
  )
})

describe('processes that close', () => {
  tells('', 'and are followed by others: that is not the ending', () =>
    doneOf(
      due()
        .life('closes')
        .life('closed')
        .life('starts', 'n1/2')
        .claim('a', 'v1', 't1', { life: 'n1/2' })
        .settle('a', 't1', DONE, { life: 'n1/2' }),
    ),
  )
  tells('', 'and while others go on a fault is over: that is not the ending', () =>
    doneOf(
      due()
        .life('closes', 'n2/1')
        .life('closed', 'n2/1')
        .tell({ kind: 'fault', fault: 'pause', phase: 'end', life: null })
        .done('a', 'v1', 't1'),
    ),
  )
  tells(
    '',
    'without a word about what they held: it is free where they had the file for themselves',
    (c) =>
      doneOf(
        held(c)
          .life('closes')
          .life('closed')
          .life('starts', 'n1/2')
          .at(200)
          .claim('a', 'v1', 't2', { life: 'n1/2', deliveries: 2 })
          .settle('a', 't2', DONE, { life: 'n1/2' }),
        c,
      ),
    ['embedded'],
  )
})

describe('what was asked for', () => {
  const asked = (dueMs: number): History =>
    new Story()
      .call('schedule', 'a', { version: 'v1', delayMs: 1e9 })
      .write('schedule', 'a', 'created', { version: 'v1', nowMs: 7, dueMs })
      .answer('created', { dueMs })
      .ends({ a: 'pending v1' }, { pending: 1 })
  tells('', 'a delay counts from the moment of the truth', () => asked(1e9 + 7))
  tells('I3', 'a delay became shorter', () => asked(1e9 + 6))
  tells('I3', 'a delay became longer', () => asked(1e9 + 8))
  const kept = (story: Story, outcome: string, inFlight: boolean): Story =>
    story
      .call('schedule', 'a', { version: 'v2', onConflict: 'keep' })
      .write('schedule', 'a', outcome, { version: 'v2', dueMs: outcome === 'kept' ? 100 : 1e9, inFlight })
      .answer(outcome, { inFlight })
  tells('I6', 'replaced, though it was to be kept', () =>
    kept(due(), 'replaced', false).ends({ a: 'pending v2' }, { pending: 1 }),
  )
  tells('', 'kept', () => doneOf(kept(due(), 'kept', false).done('a', 'v1', 't1')))
  tells('', 'there was nothing left to keep', () =>
    kept(held().cancel('a', 'in-flight'), 'replaced', true).ends({ a: 'pending v2' }, { pending: 1 }),
  )
  tells('I13', 'the timetable does not know of what rings soon', () =>
    doneOf(due().tell({ kind: 'missing', key: 'a', ringMs: 100 }).done('a', 'v1', 't1')),
  )
})

describe('what handlers did', () => {
  tells('', 'done, and recorded as done', () => doneOf(due().withHandlers().done('a', 'v1', 't1')))
  tells('I1', 'recorded as done, and no handler did it', () =>
    doneOf(held().withHandlers().settle('a', 't1', DONE)),
  )
  tells('I1', 'recorded as done before it was', () =>
    doneOf(held().withHandlers().start('a', 'v1').settle('a', 't1', DONE).end('done')),
  )
  tells('I1', 'recorded as done, and it threw', () =>
    doneOf(held().withHandlers().start('a', 'v1').end('throw').settle('a', 't1', DONE)),
  )
  tells('', 'not recorded, because it came too late; and obsolete without a handler', () =>
    held()
      .withHandlers()
      .at(2_000)
      .claim('a', 'v1', 't2', { deliveries: 2 })
      .stale('a', 't1', DONE)
      .settle('a', 't2', { kind: 'obsolete' })
      .ends({ a: 'obsolete v1' }, { obsolete: 1 }),
  )
  const threw = (commits: boolean, outcome: 'throw' | 'done'): History => {
    const story = held()
      .withHandlers()
      .start('a', 'v1')
      .call('schedule', 'b', { version: 'v2', tx: 5 })
      .answer('created', { dueMs: 1e9 })
      .end(outcome, 'n1/1', 5)
    if (commits) story.write('schedule', 'b', 'created', { version: 'v2', dueMs: 1e9, tx: 5 })
    story.settle('a', 't1', outcome === 'done' ? DONE : { kind: 'obsolete' })
    return story.ends(
      { a: outcome === 'done' ? 'done v1' : 'obsolete v1', ...(commits ? { b: 'pending v2' } : {}) },
      { [outcome === 'done' ? 'done' : 'obsolete']: 1, pending: commits ? 1 : 0 },
    )
  }
  tells('', 'it threw, and what it wrote is undone', () => threw(false, 'throw'))
  tells('', 'it was done, and what it wrote is there', () => threw(true, 'done'))
  tells('I9', 'it threw, and what it wrote is there nevertheless', () => threw(true, 'throw'))
})
