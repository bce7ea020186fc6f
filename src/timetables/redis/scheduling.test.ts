import { describe, expect, it } from 'vitest'
import type { NewEntry } from '../../timetable.ts'
import { ScheduleBatch, type ScheduleReply } from './scheduling.ts'

const NO_REPLY: ScheduleReply = [10_000, '', []]

function entry(fields: Partial<NewEntry>): NewEntry {
  return {
    key: 'a',
    cell: 3,
    body: '{}',
    priority: 'normal',
    tags: null,
    when: { kind: 'delay', ms: 500 },
    onConflict: 'replace',
    ...fields,
  } as NewEntry
}

async function sent(entries: readonly Partial<NewEntry>[], reply = NO_REPLY, mergeMs = 0) {
  let sentArgs: (string | Buffer)[] = []
  const batch = new ScheduleBatch('keep', mergeMs, '0000007', async (args) => {
    sentArgs = args
    return reply
  })
  for (const one of entries) batch.add(entry(one))
  const answers = await batch.send(0)
  return { args: sentArgs.map((arg) => (typeof arg === 'string' ? arg : arg.toString('hex'))), answers }
}

// lua/schedule.lua of another version may read them during a deployment.
describe('the arguments of the script', () => {
  it('have the time once if it is the same for all tasks', async () => {
    const { args } = await sent([{ key: 'é' }, { key: 'b' }])
    expect(args).toEqual([
      'keep',
      '0',
      '2',
      'n',
      '0',
      `dd00000004d902c3a9${'d909303030303030377b7d'}d90162${'d909303030303030377b7d'}` +
        'dd00000001d9042b353030',
    ])
  })

  it('have each time if they differ: instants as numbers, delays as text', async () => {
    const { args } = await sent([{ when: { kind: 'at', ms: 500 } }, { key: 'b' }], NO_REPLY, 1_000)
    expect(args.slice(0, 5)).toEqual(['keep', '1000', '2', 'n', '0'])
    expect(args[5]).toMatch(/dd00000002cb407f400000000000d9042b353030$/)
  })

  it('have a letter per lane as soon as one task is not of normal priority', async () => {
    const { args } = await sent([
      {},
      { key: 'b', priority: 'high' },
      { key: 'c' },
      { key: 'd', priority: 'low' },
    ])
    expect(args[3]).toBe('nhnl')
    expect((await sent([{ priority: 'low' }])).args[3]).toBe('l')
  })

  it('say whether any task has tags', async () => {
    const { args } = await sent([{}, { key: 'b', tags: ['é'] }])
    expect(args[4]).toBe('1')
    expect(Buffer.from(args[5] as string, 'hex').toString()).toContain('0000007#n\té\n{}')
  })
})

describe('the answers', () => {
  it('are computed if all tasks were created', async () => {
    const { answers } = await sent([{}, { key: 'b', when: { kind: 'at', ms: 77 } }])
    expect(answers).toEqual([
      { outcome: 'created', dueMs: 10_500, inFlight: false },
      { outcome: 'created', dueMs: 77, inFlight: false },
    ])
  })

  it('follow the letters of the reply, and take the due times of kept tasks from it', async () => {
    const keys = ['a', 'b', 'c', 'd', 'e'].map((key) => ({ key }))
    const { answers } = await sent(keys, [10_000, 'crfkK', [111, 222]], 1_000)
    expect(answers).toEqual([
      { outcome: 'created', dueMs: 11_000, inFlight: false },
      { outcome: 'replaced', dueMs: 11_000, inFlight: false },
      { outcome: 'replaced', dueMs: 11_000, inFlight: true },
      { outcome: 'kept', dueMs: 111, inFlight: false },
      { outcome: 'kept', dueMs: 222, inFlight: true },
    ])
  })
})
