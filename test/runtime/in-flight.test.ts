import { join } from 'node:path'
import { describe, expect, it, vi } from 'vitest'
import { SqliteLedger } from '../../src/ledgers/sqlite/ledger.ts'
import { Tocsin } from 'tocsin'
import { temporaryFolder } from '../fault/embedded/life.ts'
import { gate, quickTocsin } from './harness.ts'

/** A topic with one task whose handler waits at a gate. */
async function running() {
  const toc = quickTocsin()
  const topic = toc.topic<string>('t')
  const end = gate()
  const seen: { payload: string; attempt: number; aborted: string | null }[] = []
  const answers: (() => Promise<void>)[] = []
  topic.consume(async ({ payload, attempt }, { signal }) => {
    const record = { payload, attempt, aborted: null as string | null }
    signal.addEventListener('abort', () => (record.aborted = (signal.reason as { code: string }).code))
    seen.push(record)
    if (seen.length === 1) {
      await end.opened
      await answers[0]?.()
    }
  })
  await topic.schedule({ key: 'a', delay: '1s', payload: 'first' })
  await toc.advance('1s')
  expect(seen.length).toBe(1)
  return { toc, topic, end, seen, fails: () => answers.push(() => Promise.reject(new Error('failed'))) }
}

describe('cancel of a task in flight', () => {
  it('answers in-flight, aborts the signal, and no attempt follows a failure', async () => {
    const { toc, topic, end, seen, fails } = await running()
    fails()
    expect(await topic.cancel('a')).toEqual({ key: 'a', outcome: 'in-flight' })
    expect(seen[0]?.aborted).toBe('cancelled')
    const retries: unknown[] = []
    toc.on('retry', (event) => retries.push(event))
    end.open()
    await toc.advance('1h')
    expect(seen.length).toBe(1)
    expect(retries).toEqual([])
    expect(await topic.get('a')).toBeNull()
    await toc.close()
  })

  it('lets the attempt end as done', async () => {
    const { toc, topic, end, seen } = await running()
    await topic.cancel('a')
    end.open()
    await toc.advance('1h')
    expect(seen.length).toBe(1)
    expect(await topic.get('a')).toBeNull()
    await toc.close()
  })
})

describe('replace of a task in flight', () => {
  it('supersedes it: the outcome of the old task is stale, the new task fires at its time', async () => {
    const { toc, topic, end, seen, fails } = await running()
    fails()
    const answer = await topic.schedule({ key: 'a', delay: '10s', payload: 'second' })
    expect(answer).toMatchObject({ outcome: 'replaced', inFlight: true })
    expect(seen[0]?.aborted).toBe('lease-lost')
    end.open()
    await toc.advance('9s')
    expect(await topic.get('a')).toMatchObject({
      state: 'pending',
      attempt: 1,
      payload: 'second',
      lastError: null,
    })
    await toc.advance('1s')
    expect(seen.map(({ payload, attempt }) => [payload, attempt])).toEqual([
      ['first', 1],
      ['second', 1],
    ])
    await toc.close()
  })

  it('keep does not change it, and answers inFlight', async () => {
    const { toc, topic, end, seen } = await running()
    const answer = await topic.schedule({ key: 'a', delay: '10s', payload: 'second', onConflict: 'keep' })
    expect(answer).toMatchObject({ outcome: 'kept', inFlight: true })
    end.open()
    await toc.advance('1h')
    expect(seen.map(({ payload }) => payload)).toEqual(['first'])
    await toc.close()
  })
})

it('reschedule of a task in flight does not change it, and answers in-flight', async () => {
  const { toc, topic, end, seen, fails } = await running()
  fails()
  expect(await topic.reschedule('a', { delay: '1h' })).toEqual({
    key: 'a',
    outcome: 'in-flight',
    dueAt: null,
  })
  expect(seen[0]?.aborted).toBeNull()
  end.open()
  await toc.advance('10s')
  expect(seen.map(({ attempt }) => attempt)).toEqual([1, 2])
  await toc.close()
})

/** Both commit in one transaction of the file, the claim first: the fence arrives right after the claim's answer. */
describe('a write in the same group commit as the claim of its task', () => {
  it.each(['cancel', 'replace'] as const)(
    '%s: the task is fenced, and its handler never starts',
    async (kind) => {
      using folder = temporaryFolder()
      await using toc = await Tocsin.open({ ledger: `sqlite:${join(folder.path, 't.db')}`, logger: false })
      const topic = toc.topic<string>('t')
      const started: string[] = []
      const write = () =>
        kind === 'cancel'
          ? topic.cancel('a').then(({ outcome }) => outcome)
          : topic.schedule({ key: 'a', delay: '1h', payload: 'new' }).then(({ inFlight }) => inFlight)
      const written = new Promise<unknown>((resolve) => {
        // oxlint-disable-next-line typescript/unbound-method -- it is called with `apply` below
        const claim = SqliteLedger.prototype.claim
        const spy = vi.spyOn(SqliteLedger.prototype, 'claim')
        spy.mockImplementationOnce(function (this: SqliteLedger, ...args) {
          const claimed = claim.apply(this, args)
          resolve(write())
          return claimed
        })
      })
      topic.consumeBatch(async (tasks) => void started.push(...tasks.map(({ payload }) => payload)))
      await topic.schedule({ key: 'a', delay: 20, payload: 'old' })
      expect(await written).toBe(kind === 'cancel' ? 'in-flight' : true)
      // When a later task has started, a batch with the first one would have started before.
      await topic.schedule({ key: 'b', delay: 20, payload: 'later' })
      await expect.poll(() => started).toContain('later')
      expect(started).toEqual(['later'])
    },
  )
})
