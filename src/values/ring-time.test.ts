import { describe, expect, it } from 'vitest'
import { LAST_INSTANT_MS } from './instant.ts'
import { finiteOrNull, ringMsAt, ringTime, shiftTime } from './ring-time.ts'

const badTime = (field: string) => expect.objectContaining({ code: 'bad-time', details: { field } })

describe('when a task rings', () => {
  it('is a delay, or an instant', () => {
    expect(ringTime({ delay: '30m' }, 'task')).toEqual({ kind: 'delay', ms: 1_800_000 })
    expect(ringTime({ delay: 0 }, 'task')).toEqual({ kind: 'delay', ms: 0 })
    expect(ringTime({ at: new Date(5) }, 'task')).toEqual({ kind: 'at', ms: 5 })
    expect(ringTime({ delay: undefined, at: '2026-01-01T00:00:00Z' }, 'task')).toEqual({
      kind: 'at',
      ms: Date.UTC(2026, 0, 1),
    })
  })

  it('is refused if both are given, or none', () => {
    expect(() => ringTime({ delay: 1, at: 1 }, 'task')).toThrow(badTime('task'))
    expect(() => ringTime({}, 'tasks[2]')).toThrow(badTime('tasks[2]'))
  })

  it('is a shift with a sign', () => {
    expect(shiftTime({ shift: '+10m' })).toEqual({ kind: 'shift', ms: 600_000 })
    expect(shiftTime({ shift: '-1h' })).toEqual({ kind: 'shift', ms: -3_600_000 })
  })

  it.each(['10m', '', 'later-10m', 10, null])('is refused as the shift %j', (shift) => {
    expect(() => shiftTime({ shift })).toThrow(badTime('shift'))
  })

  it('is refused as a shift beside another time', () => {
    expect(() => shiftTime({ shift: '+1m', delay: 0 })).toThrow(badTime('when'))
    expect(() => shiftTime({ shift: '+1m', at: 0 })).toThrow(badTime('when'))
  })
})

describe('the ring time', () => {
  it('is computed from the clock of the store, or from the time before', () => {
    expect(ringMsAt({ kind: 'at', ms: 500 }, 10_000, 20_000, 0)).toBe(500)
    expect(ringMsAt({ kind: 'delay', ms: 500 }, 10_000, 20_000, 0)).toBe(10_500)
    expect(ringMsAt({ kind: 'shift', ms: -500 }, 10_000, 20_000, 0)).toBe(19_500)
  })

  it.each([
    [999, 1_000],
    [1_000, 1_000],
    [1_001, 2_000],
  ])('%d is merged to %d: rounded up, so that no task rings early', (ms, merged) => {
    expect(ringMsAt({ kind: 'at', ms }, 0, 0, 1_000)).toBe(merged)
    expect(ringMsAt({ kind: 'at', ms }, 0, 0, 1)).toBe(ms)
  })

  it('stays in the range of instants', () => {
    expect(ringMsAt({ kind: 'shift', ms: -500 }, 0, 100, 0)).toBe(0)
    expect(ringMsAt({ kind: 'shift', ms: 500 }, 0, LAST_INSTANT_MS, 0)).toBe(LAST_INSTANT_MS)
    expect(ringMsAt({ kind: 'at', ms: LAST_INSTANT_MS }, 0, 0, 7_000)).toBe(LAST_INSTANT_MS)
  })

  it('of never is null in answers', () => {
    expect([finiteOrNull(5), finiteOrNull(0), finiteOrNull(Infinity), finiteOrNull(-Infinity)]).toEqual([
      5,
      0,
      null,
      null,
    ])
  })
})
