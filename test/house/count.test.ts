import { expect, test } from 'vitest'
import { plant, readOurs, run } from './planted.ts'

type Total = { passed: number; failed: number; skipped: number }
type Counting = { count: (exitCode: number, report: unknown) => Total; summary: (total: Total) => string }

const { count, summary } = (await import(
  new URL('../../scripts/count.mjs', import.meta.url).href
)) as Counting

/** What vitest reports and exits with, for a folder with these tests in it. */
async function ran(files: Record<string, string>): Promise<string> {
  const planted = await plant({ ...(await readOurs('test/setup')), ...files })
  await using _ = planted
  const { code, output } = await run('vitest/vitest.mjs', ['run', '--reporter=json'], planted.dir)
  const from = output.indexOf('{"')
  const report: unknown = from < 0 ? undefined : JSON.parse(output.slice(from, output.indexOf('\n', from)))
  return summary(count(code, report))
}

const HEAD = "import { test, expect } from 'vitest'\n"

test.concurrent.each<[string, Record<string, string>, string]>([
  ['green', { 'test/a.test.ts': `${HEAD}test('a', () => {})` }, '1 passed, 0 failed'],
  [
    'red, skipped and to do',
    {
      'test/a.test.ts': `${HEAD}test('a', () => expect(1).toBe(2))\ntest('b', () => {})\ntest.skip('c', () => {})\ntest.todo('d')`,
    },
    '1 passed, 1 failed, 2 skipped',
  ],
  [
    'a file that does not load',
    { 'test/a.test.ts': `${HEAD}test('a', () => {})`, 'test/b.test.ts': "throw new Error('broken')" },
    '1 passed, 1 failed',
  ],
  [
    'an unhandled rejection',
    { 'test/a.test.ts': `${HEAD}test('a', () => void Promise.reject(new Error('lost')))` },
    '1 passed, 1 failed',
  ],
  ['no test at all', {}, '0 passed, 1 failed'],
  [
    'only skipped tests',
    { 'test/a.test.ts': `${HEAD}test.skip('a', () => {})` },
    '0 passed, 1 failed, 1 skipped',
  ],
])('%s', { timeout: 60_000 }, async (_, files, expected) => expect(await ran(files)).toBe(expected))

test('a crash before the report', () => expect(summary(count(1, undefined))).toBe('0 passed, 1 failed'))
