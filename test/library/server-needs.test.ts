/** What a server asks of a Tocsin besides its public surface. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tocsin } from 'tocsin'
import { testTocsin } from 'tocsin/testing'
import { expect, it } from 'vitest'
import type { ConfigView } from '../../src/values/config.ts'
import type { TopicHandle } from '../../src/api/topic-handle.ts'
import { token } from '../contract/board/helpers.ts'
import { recordFirings, refusal } from './helpers.ts'

function declareForAll(toc: Tocsin, topic: string, config: unknown): Promise<ConfigView> {
  return (toc.topic(topic) as TopicHandle<unknown, unknown>).declareForAll(config)
}

it('a topic that was declared by its name alone runs by that', async () => {
  await using toc = await testTocsin()
  await declareForAll(toc, 'push', { merge: '1m' })
  const topic = toc.topic<null>('push')
  const fired = recordFirings(topic, toc)
  await topic.schedule({ key: 'a', delay: '1s', payload: null })
  await toc.advance('1m')
  expect(fired).toEqual([['a', 60_000]])
  expect(await topic.config()).toMatchObject({ version: 1, code: { merge: '1m' } })
  expect(await topic.configHistory()).toMatchObject([{ patch: { declared: { merge: '1m' } } }])
})

it('topics are known once they were created', async () => {
  await using toc = await testTocsin()
  expect([toc.topicNames(), toc.knows('b')]).toEqual([[], false])
  toc.topic('only.named')
  await declareForAll(toc, 'b', {})
  await toc.topic('a').schedule({ delay: '1s', payload: null })
  await toc.refreshTopics()
  expect(toc.topicNames()).toEqual(['a', 'b'])
  expect(['a', 'b', 'only.named', 'c'].map((name) => toc.knows(name))).toEqual([true, true, false, false])
})

it('what was declared, and tokens, are there after a reopen', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-declared-'))
  const open = () => Tocsin.open({ ledger: `sqlite:${join(folder, 't.db')}`, logger: false })
  try {
    const before = await open()
    const view = await declareForAll(before, 'order.unpaid', { slots: 4, slotBy: 'prefix', timeout: '1m' })
    await before.accessTokenBoard.putToken(token('a'))
    await before.close()
    await using after = await open()
    expect(after.topicNames()).toEqual(['order.unpaid'])
    expect(await after.topic('order.unpaid').config()).toEqual(view)
    expect(await after.accessTokenBoard.tokens()).toEqual([token('a')])
    expect(await after.accessTokenBoard.dropToken('a')).toBe(true)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

it('nothing of it once it is closed', async () => {
  const toc = await testTocsin()
  const topic = toc.topic('t') as TopicHandle<unknown, unknown>
  await toc.close()
  for (const ask of [
    () => topic.declareForAll({}),
    () => toc.refreshTopics(),
    async () => toc.accessTokenBoard.tokens(),
  ])
    expect(await refusal(ask)).toMatchObject({ code: 'closed' })
})
