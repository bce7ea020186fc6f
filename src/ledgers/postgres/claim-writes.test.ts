import { describe, expect, it } from 'vitest'
import { type ClaimGroup, ClaimWrites } from './claim-writes.ts'
import { ClaimedRows } from './claimed-rows.ts'
import type { StatementRunner } from './statement-runner.ts'
import { TOO_LARGE } from './sql-states.ts'
import { WRITES } from './statements/writes.ts'

const TOPIC = { id: 1, name: 't' }
const OTHER_TOPIC = { id: 2, name: 'u' }
const SEPARATOR = '\x1e'

const group = (keys: readonly string[], more: Partial<ClaimGroup> = {}): ClaimGroup => ({
  key: '0/7',
  cell: 0,
  keys,
  stamp: 7,
  leaseMs: 30_000,
  nowMs: 1_000,
  alone: false,
  ...more,
})

const NAMES = new Map([
  [WRITES.claimGroups.text, 'groups'],
  [WRITES.claim.text, 'each'],
  [WRITES.claimAny.text, 'any'],
])

/** A server that answers the statement for whole calls as it is told, and all others as if no key existed. */
function serverWith(answer: () => unknown[][]): { runner: StatementRunner; sent: string[] } {
  const sent: string[] = []
  const runner: StatementRunner = {
    lockTimeoutMs: 100,
    transactionId: null,
    notAfterMs: null,
    notifyWithinMs: 0,
    async query(text, values) {
      const name = NAMES.get(text) ?? text
      sent.push(name)
      if (name === 'groups') return answer()
      if (name === 'each') return [Array<null>(10).fill(null)]
      const count = String(values[2]).split(',').length
      return Array.from({ length: count }, (_, n) => [n + 1, 'gone'])
    },
  }
  return { runner, sent }
}

const fails = (code: string) => (): never => {
  throw Object.assign(new Error(code), { code })
}

const row = (n: number, keys: readonly string[], bodies = keys.map(() => '1')) => [
  n,
  keys.join(SEPARATOR),
  keys.map((_, i) => 100 + i).join(','),
  keys.map(() => 900).join(','),
  null,
  bodies.join(SEPARATOR),
  keys.map((_, i) => `(0,${i + 1})`).join(';'),
]

describe('claims of whole calls', () => {
  it('gives each call its own tasks, in the order of its keys, whatever the order of the answer', async () => {
    const { runner, sent } = serverWith(() => [row(2, ['d']), row(1, ['b', 'a'])])
    const claims = new ClaimWrites(5, new ClaimedRows())
    const verdicts = await claims.claim(runner, TOPIC, [group(['a', 'b']), group(['d'])])
    const keys = verdicts.map((one) => one.map((verdict) => (verdict.kind === 'ours' ? verdict.task.id : '')))
    expect(keys).toEqual([['t/a/101', 't/b/100'], ['t/d/100']])
    expect(sent).toEqual(['groups'])
  })

  it('asks about the tasks that were not claimed, and only about these', async () => {
    const { runner, sent } = serverWith(() => [row(1, ['b'])])
    const [verdicts] = await new ClaimWrites(5, new ClaimedRows()).claim(runner, TOPIC, [
      group(['a', 'b', 'c']),
    ])
    expect(verdicts?.map(({ kind }) => kind)).toEqual(['gone', 'ours', 'gone'])
    expect(sent).toEqual(['groups', 'any'])
  })

  it('reads the columns that differ from those of most tasks', async () => {
    const unusual = ['a', 800, 2, 3, 0, 'x\ny'].join('\x1f')
    const { runner } = serverWith(() => [
      [...row(1, ['a', 'b']).slice(0, 4), unusual, `1${SEPARATOR}2`, '(0,1);(0,2)'],
    ])
    const [verdicts] = await new ClaimWrites(5, new ClaimedRows()).claim(runner, TOPIC, [group(['a', 'b'])])
    expect(verdicts).toMatchObject([
      {
        task: {
          key: 'a',
          dueMs: 900,
          ringMs: 800,
          failures: 2,
          deliveries: 3,
          priority: 'high',
          tags: ['x', 'y'],
        },
      },
      {
        task: { key: 'b', dueMs: 900, ringMs: 900, failures: 0, deliveries: 1, priority: 'normal', tags: [] },
      },
    ])
  })

  it('claims task by task if a row is locked, and whole calls the next time', async () => {
    const { runner, sent } = serverWith(fails('55P03'))
    const claims = new ClaimWrites(5, new ClaimedRows())
    await claims.claim(runner, TOPIC, [group(['a'])])
    await claims.claim(runner, TOPIC, [group(['a'])])
    expect(sent).toEqual(['groups', 'each', 'any', 'groups', 'each', 'any'])
  })

  it('claims a topic with large payloads task by task for a while, and other topics as before', async () => {
    const { runner, sent } = serverWith(fails(TOO_LARGE))
    const claims = new ClaimWrites(5, new ClaimedRows())
    for (let i = 0; i < 18; i++) await claims.claim(runner, TOPIC, [group(['a'])])
    expect(sent.flatMap((name, i) => (name === 'groups' ? [i] : []))).toEqual([0, 1 + 17 * 2])
    sent.length = 0
    await claims.claim(runner, OTHER_TOPIC, [group(['a'])])
    expect(sent[0]).toBe('groups')
  })

  it('passes on any other error', async () => {
    const { runner } = serverWith(fails('57014'))
    await expect(new ClaimWrites(5, new ClaimedRows()).claim(runner, TOPIC, [group(['a'])])).rejects.toThrow(
      '57014',
    )
  })

  it('claims a suspect by the statement that may', async () => {
    const { runner, sent } = serverWith(() => [])
    await new ClaimWrites(5, new ClaimedRows()).claim(runner, TOPIC, [group(['a'], { alone: true })])
    expect(sent).toEqual(['each', 'any'])
  })

  it('learns how large the payloads of a topic are', async () => {
    const large = 'x'.repeat(50_000)
    const { runner } = serverWith(() => [row(1, ['a'], [large])])
    const claims = new ClaimWrites(5, new ClaimedRows())
    const before = claims.bytesOf('t', group(['a', 'b']))
    await claims.claim(runner, TOPIC, [group(['a'])])
    expect(claims.bytesOf('t', group(['a', 'b']))).toBe(100_000)
    expect(claims.bytesOf('u', group(['a', 'b']))).toBe(before)
  })

  it('rejects a payload that contains the separator, because it would be the payload of another task', async () => {
    const { runner } = serverWith(() => [row(1, ['a'], [`1${SEPARATOR}2`])])
    const claiming = new ClaimWrites(5, new ClaimedRows()).claim(runner, TOPIC, [group(['a'])])
    await expect(claiming).rejects.toMatchObject({ code: 'ledger-damaged' })
  })
})
