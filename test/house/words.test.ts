import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readOurs, root } from './planted.ts'
import { vagueLines } from './words.ts'

async function texts(): Promise<Map<string, string>> {
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  const files = { ...(await readOurs('src')), ...(await readOurs('docs')), 'README.md': readme }
  return new Map(Object.entries(files))
}

test('the actor is named: no somebody, nobody, whoever or anybody in src, docs and README.md', async () => {
  const files = await texts()
  expect(files.size).toBeGreaterThan(100)
  expect(vagueLines(files)).toEqual([])
})

describe('such a word is seen', () => {
  test.each([
    '// Somebody else holds it.',
    'const x = 1 // whoever asks',
    'const NOBODY = 1',
    "-- somebody's lock",
    'for anybody:',
    '#isNobody()',
  ])('%s', (line) => {
    expect(vagueLines(new Map([['src/a.ts', `\n${line}\n`]]))).toEqual([`src/a.ts:2: ${line}`])
  })

  test.each(['a body', 'who holds the lease', 'everybody'])('and not: %s', (line) => {
    expect(vagueLines(new Map([['src/a.ts', line]]))).toEqual([])
  })
})
