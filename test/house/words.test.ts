import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { readOurs, root } from './planted.ts'
import { folderOf, vagueLines } from './words.ts'

/** Lines that still have such a word, by folder. A number may only fall; a folder without such a line is left out. */
const LEFT: Readonly<Record<string, number>> = { 'src/ledgers': 6 }

async function texts(): Promise<Map<string, string>> {
  const readme = await readFile(join(root, 'README.md'), 'utf8')
  const files = { ...(await readOurs('src')), ...(await readOurs('docs')), 'README.md': readme }
  return new Map(Object.entries(files))
}

test('the actor is named: no somebody, nobody, whoever or anybody in src, docs and README.md', async () => {
  const files = await texts()
  expect(files.size).toBeGreaterThan(100)
  const byFolder: Record<string, string[]> = {}
  for (const line of vagueLines(files)) (byFolder[folderOf(line)] ??= []).push(line)
  const tooMany = Object.entries(byFolder).filter(([folder, lines]) => lines.length > (LEFT[folder] ?? 0))
  expect(Object.fromEntries(tooMany)).toEqual({})
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

  test.each([
    ['src/clock.ts:1: x', 'src'],
    ['src/api/tocsin.ts:1: x', 'src/api'],
    ['src/ledgers/postgres/ledger.ts:1: x', 'src/ledgers'],
    ['docs/guide.md:1: x', 'docs'],
    ['README.md:1: x', 'README.md'],
  ])('%s counts for %s', (line, folder) => {
    expect(folderOf(line)).toBe(folder)
  })
})
