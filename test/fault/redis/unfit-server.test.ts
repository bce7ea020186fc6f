import { Tocsin, TocsinError } from 'tocsin'
import { redis as redisTimetable } from 'tocsin/redis'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../real-servers/redis-server.ts'
import { openAlone } from '../alone.ts'
import { eventually, failureOf } from '../helpers.ts'

const CANARY = 'canary-secret'

describe('an eviction policy that drops timers', () => {
  test.each(['allkeys-lru', 'allkeys-random', 'volatile-lru', 'volatile-ttl'])(
    '%s is refused',
    async (policy) => {
      await using redis = await startRedis({ config: { 'maxmemory-policy': policy } })
      const error = await failureOf(Tocsin.open({ timetable: redis.url, logger: false }))
      expect(error).toMatchObject({ code: 'timetable-refused', retryable: false })
      const { message } = error as Error
      expect(message).toContain(`maxmemory-policy '${policy}'`)
      expect(message).toContain('CONFIG SET maxmemory-policy noeviction')
      // To have looked away is no reason where it can be seen.
      const assumed = redisTimetable({ url: redis.url, assumeNoEviction: true })
      expect(await failureOf(Tocsin.open({ timetable: assumed, logger: false }))).toMatchObject({ message })
      await redis.cli('CONFIG', 'SET', 'maxmemory-policy', 'noeviction')
      await (await Tocsin.open({ timetable: redis.url, logger: false })).close()
    },
  )
})

describe('a user that may not see what Redis is', () => {
  let redis: RedisServer
  beforeAll(async () => {
    redis = await startRedis()
    const user = async (name: string, ...rules: string[]) =>
      redis.cli('ACL', 'SETUSER', name, 'on', `>${CANARY}`, '~*', '&*', '+@all', ...rules)
    await user('neither', '-info', '-config')
    await user('no-config', '-config')
    await user('no-info', '-info')
    await user('no-scripts', '-@scripting')
  })
  afterAll(() => redis.stop())

  const urlOf = (user: string) => redis.url.replace('//', `//${user}:${CANARY}@`)
  const works = async (timetable: Parameters<typeof Tocsin.open>[0] & object) => {
    await using toc = await Tocsin.open({ logger: false, ...timetable })
    await toc.topic<null>('t').schedule({ key: 'a', delay: '1h', payload: null })
    expect(await toc.topic('t').get('a')).toMatchObject({ key: 'a' })
  }

  test('without CONFIG it works: INFO tells the policy, too', () => works({ timetable: urlOf('no-config') }))

  test('without INFO it works: CONFIG tells it', () => works({ timetable: urlOf('no-info') }))

  test('without INFO and CONFIG it is refused, and told what to do', async () => {
    const error = await failureOf(Tocsin.open({ timetable: urlOf('neither'), logger: false }))
    expect(error).toMatchObject({ code: 'timetable-refused', retryable: false })
    expect((error as Error).message).toMatch(/noeviction.*Allow INFO.*assumeNoEviction: true/)
  })

  test.each(['neither', 'no-info'])('%s: with assumeNoEviction it works', (user) =>
    works({ timetable: redisTimetable({ url: urlOf(user), assumeNoEviction: true }) }),
  )

  test('without scripts, opening says what is missing', async () => {
    const error = await failureOf(Tocsin.open({ timetable: urlOf('no-scripts'), logger: false }))
    expect(error).toMatchObject({ code: 'timetable-refused', message: expect.stringContaining('evalsha') })
  })
})

describe('a user that may use no channels', () => {
  let redis: RedisServer
  let url: string
  beforeAll(async () => {
    redis = await startRedis()
    await redis.cli('ACL', 'SETUSER', 'tocsin', 'on', `>${CANARY}`, '~toc:*', '+@all')
    url = redis.url.replace('//', `//tocsin:${CANARY}@`)
  })
  afterAll(() => redis.stop())

  test('is refused, and told which are missing', async () => {
    const error = await failureOf(Tocsin.open({ timetable: url, logger: false }))
    expect(error).toMatchObject({ code: 'timetable-refused', message: expect.stringContaining('&toc:*') })
  })

  test('a call that failed as without effect had none', async () => {
    const toc = await Tocsin.open({ timetable: url, logger: false }).catch(() => null)
    if (toc === null) return
    try {
      const topic = toc.topic<null>('t')
      const error = await failureOf(topic.schedule({ key: 'a', delay: '1h', payload: null }))
      if (TocsinError.is(error, 'timetable-unavailable')) expect(await topic.get('a')).toBeNull()
    } finally {
      await toc.close()
    }
  })
})

test('a primary that becomes a replica: calls may be retried, and work when it is a primary again', async () => {
  await using primary = await startRedis()
  await using redis = await startRedis()
  await using toc = await openAlone({ timetable: redis.url })
  const topic = toc.topic<null>('t')
  const schedule = () => topic.schedule({ key: 'a', delay: '1h', payload: null })
  await schedule()
  await redis.cli('REPLICAOF', primary.host, String(primary.port))
  const error = await failureOf(schedule())
  expect(error).toMatchObject({ code: 'timetable-unavailable', retryable: true })
  expect((error as Error).message).toContain('connect to the primary')
  await redis.cli('REPLICAOF', 'NO', 'ONE')
  // The connection was made anew, in case the primary is elsewhere by now: that takes a moment.
  await eventually('scheduling works again', async () => (await schedule()).key === 'a')
})
