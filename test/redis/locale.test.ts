/** Redis orders keys by bytes, but Lua in Redis compares strings by the locale of the server. A list must not mix them. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../real-servers/redis-server.ts'

const folder = mkdtempSync(join(tmpdir(), 'tocsin-locale-'))
const hasLocale = madeLocale()

/** Makes a locale in which 'a' comes before 'B'. Few machines have one installed, but most can make one. */
function madeLocale(): boolean {
  try {
    // -c: a warning about the definition is no reason not to write it.
    execFileSync('localedef', ['-c', '-i', 'en_US', '-f', 'UTF-8', join(folder, 'en_US.UTF-8')], {
      stdio: 'ignore',
    })
    return true
  } catch {
    return false
  }
}

let redis: RedisServer
beforeAll(async () => {
  redis = await startRedis({ env: { LOCPATH: folder, LC_ALL: 'en_US.UTF-8' } })
})
afterAll(async () => {
  await redis.stop()
  rmSync(folder, { recursive: true, force: true })
})

const at = new Date('2040-01-01T00:00:00Z')

test.skipIf(!hasLocale)('the locale of this server orders letters otherwise than bytes', async () => {
  expect(await redis.ask('EVAL', "return 'a' < 'B' and 1 or 0", '0')).toBe(1)
})

test('a page goes on after the last key by bytes, also if that key is gone', async () => {
  await using toc = await Tocsin.open({ timetable: redis.url, prefix: 'page', logger: false })
  // One cell, one time.
  const topic = toc.topic('t', { slotBy: 'prefix' })
  for (const key of ['u:B', 'u:a']) await topic.schedule({ key, at, payload: null })
  const first = await topic.list({ limit: 1 })
  expect(first.tasks).toMatchObject([{ key: 'u:B' }])
  await topic.cancel('u:B')
  expect((await topic.list({ limit: 1, cursor: first.cursor! })).tasks).toMatchObject([{ key: 'u:a' }])
})

test('tasks of several priorities are listed in the order of bytes', async () => {
  await using toc = await Tocsin.open({ timetable: redis.url, prefix: 'lanes', logger: false })
  const topic = toc.topic('t', { slotBy: 'prefix' })
  const tasks = { 'u:B': [], 'u:D': ['t'], 'u:a': ['t'], 'u:c': ['t'] }
  for (const [key, tags] of Object.entries(tasks))
    await topic.schedule({ key, at, payload: null, tags, priority: key < 'u:a' ? 'normal' : 'high' })
  const keys: string[] = []
  let cursor: string | undefined
  do {
    const page = await topic.list({ tag: 't', limit: 1, cursor })
    keys.push(...page.tasks.map(({ key }) => key))
    cursor = page.cursor ?? undefined
  } while (cursor !== undefined)
  expect(keys).toEqual(['u:D', 'u:a', 'u:c'])
})
