import { describe, expect, it } from 'vitest'
import { check } from '../check.ts'
import { figuresOf } from '../figures.ts'
import { DONE_A, due, held } from './expectations.ts'
import { DONE, REJECTED, RETURN, retry, Story } from './story.ts'

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
      .cancel('absent', 'not-found')
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
