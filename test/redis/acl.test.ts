import { readFileSync } from 'node:fs'
import { Tocsin } from 'tocsin'
import { expect, it } from 'vitest'
import { token } from '../contract/board/helpers.ts'
import { startRedis } from '../real-servers/redis-server.ts'

it('the user that docs/redis.md describes may do everything, and no more', async () => {
  const docs = readFileSync(new URL('../../docs/redis.md', import.meta.url), 'utf8')
  const [, line = ''] = /```redis\n(ACL SETUSER .*)\n```/.exec(docs) ?? []
  await using server = await startRedis()
  await server.cli(...line.split(' '))
  await server.cli('ACL', 'SETUSER', 'default', 'off')
  const timetable = server.url.replace('//', '//tocsin:password@')
  await using toc = await Tocsin.open({ timetable, logger: false })
  const topic = toc.topic<null>('t', { retry: { min: '1ms', max: '1ms' } })
  let left = 3
  const ended = new Promise<void>((resolve) => {
    topic.consume(async ({ key, attempt }) => {
      if (key === 'fails' && attempt === 1) throw new Error('once')
      if (--left === 0) setImmediate(resolve)
      return key === 'dies' ? { dead: 'by itself' } : undefined
    })
  })
  await topic.schedule({ key: 'far', delay: '1h', payload: null, tags: ['campaign'], priority: 'high' })
  await topic.reschedule('far', { delay: '2h' })
  expect(await topic.cancelBy({ tag: 'campaign' })).toEqual({ cancelled: 1, inFlight: 0 })
  for (const key of ['fails', 'dies', 'done']) await topic.schedule({ key, delay: 0, payload: null })
  await ended
  await expect.poll(() => topic.counts()).toEqual({ pending: 0, due: 0, claimed: 0, dead: 1 })
  expect((await topic.list({ state: 'dead' })).tasks.map(({ key }) => key)).toEqual(['dies'])
  expect(await topic.dead.purge({ all: true })).toEqual({ purged: 1 })
  await topic.configure({ batchSize: 7 })
  await toc.accessTokenBoard.putToken(token('a'))
  expect(await toc.accessTokenBoard.tokens()).toEqual([token('a')])
  expect(await toc.accessTokenBoard.dropToken('a')).toBe(true)
  await expect(
    Tocsin.open({ timetable, prefix: 'other', logger: false }).then((other) => other.topic('t').counts()),
  ).rejects.toMatchObject({ code: 'timetable-refused' })
})
