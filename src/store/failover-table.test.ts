import { describe, expect, it } from 'vitest'
import { TocsinError } from '../errors.ts'
import type { HintTable } from '../hint-table.ts'
import { VirtualClock } from '../testing/virtual-clock.ts'
import { ALL_CELLS } from '../values/cell.ts'
import { FailoverTable } from './failover-table.ts'

const AT = { topic: 't', cell: 0 }
const away = () => Promise.reject(new TocsinError('timetable-unavailable', 'it is away'))
const PROBE_MS = 500

function failing(shared: Partial<HintTable>, spare: Partial<HintTable> = {}) {
  const clock = new VirtualClock(0)
  const seen = { away: 0, over: 0, kept: [] as (readonly number[])[] }
  const filling = { done: Promise.resolve() }
  const sound = { lookMs: 1, watch: () => () => {}, close: async () => {}, nowMs: async () => 0 }
  const table = new FailoverTable(
    { ...sound, ...shared } as HintTable,
    () =>
      ({
        ...sound,
        keepOnly: (_: string, cells: readonly number[]) => seen.kept.push(cells),
        ...spare,
      }) as unknown as HintTable,
    clock,
    {
      onAway: () => seen.away++,
      onRefused: () => {},
      onBack: () => filling.done,
      onOver: async () => void seen.over++,
    },
  )
  return { clock, seen, table, filling }
}

describe('a table with a spare', () => {
  it('gives the spare the cells that this process pulls: no deal tells it again', async () => {
    const { table, seen } = failing(
      { look: away },
      { look: async () => ({ ringInMs: 1, leaseEndInMs: null }) },
    )
    table.keepOnly('t', [3, 5])
    await table.look(AT)
    expect(seen.kept).toEqual([[3, 5]])
    await table.close()
  })

  it('takes a lost reply of the shared table for an outage', async () => {
    const lost = () => Promise.reject(new TocsinError('unknown-outcome', 'no answer came'))
    const { table, seen } = failing({ put: lost }, { put: async () => 0 })
    expect(await table.put('t', [], 'set')).toBe(0)
    expect(seen.away).toBe(1)
    await table.close()
  })

  it('takes a call that failed in part for an outage: one server of the shared table is away', async () => {
    const cause = new TocsinError('timetable-unavailable', 'one of three is away')
    const inPart = () => Promise.reject(new TocsinError('interrupted', '2 of 3 took effect', {}, cause))
    const { table, seen } = failing({ put: inPart }, { put: async () => 0 })
    expect(await table.put('t', [], 'set')).toBe(0)
    expect(seen.away).toBe(1)
    await table.close()
  })

  it('does not take another failure in part for an outage', async () => {
    const inPart = () => Promise.reject(new TocsinError('interrupted', '2 of 3', {}, new Error('a bug')))
    const { table, seen } = failing({ put: inPart }, { put: async () => 0 })
    await expect(table.put('t', [], 'set')).rejects.toMatchObject({ code: 'interrupted' })
    expect(seen.away).toBe(0)
    await table.close()
  })

  it('wakes every cell when it goes, and again when it is back: tasks may ring in the other table now', async () => {
    const { table, seen, clock } = failing(
      { look: away },
      { look: async () => ({ ringInMs: 1, leaseEndInMs: null }) },
    )
    let wakes = 0
    table.watch('t', { wake: () => wakes++, fence() {}, limit() {}, missed() {} })
    await table.look(AT)
    expect(wakes).toBe(ALL_CELLS.length)
    clock.moveTo(PROBE_MS)
    await expect.poll(() => seen.over).toBe(1)
    await expect.poll(() => wakes).toBe(2 * ALL_CELLS.length)
    await table.close()
  })

  it('extends a claim of the shared table while that table is filled again', async () => {
    const { table, seen, clock, filling } = failing(
      { look: away, extend: async () => 'extended' },
      { look: async () => ({ ringInMs: 1, leaseEndInMs: null }), extend: async () => 'stale' },
    )
    await table.look(AT)
    expect(await table.extend(AT, 'r', 1)).toBe('stale')
    let end = () => {}
    filling.done = new Promise((resolve) => {
      end = resolve
    })
    clock.moveTo(PROBE_MS)
    await expect.poll(() => table.extend(AT, 'r', 1)).toBe('extended')
    end()
    await expect.poll(() => seen.over).toBe(1)
    await table.close()
  })
})
