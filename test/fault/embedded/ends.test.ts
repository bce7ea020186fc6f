/** A program that only schedules ends by itself: nothing that works in the background keeps it. */
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, expect, test } from 'vitest'
import { ROOT } from '../../docs/markdown.ts'

const run = promisify(execFile)
const folder = mkdtempSync(join(tmpdir(), 'tocsin-ends-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const from = (path: string) => JSON.stringify(pathToFileURL(join(ROOT, path)).href)

async function runProgram(name: string, source: string): Promise<string> {
  const file = join(folder, `${name}.mjs`)
  writeFileSync(file, source)
  const { stdout } = await run(process.execPath, [file], { cwd: folder, timeout: 20_000 })
  return stdout.trim()
}

test.each(['', "{ timetable: 'memory:' }"])('Tocsin.open(%s)', { timeout: 30_000 }, async (options) => {
  const printed = await runProgram(
    `ends-${options.length}`,
    `import { Tocsin } from ${from('dist/index.js')}
     const toc = await Tocsin.open(${options})
     await toc.topic('order').schedule({ key: 'k', delay: '1h', payload: null })
     console.log('scheduled')`,
  )
  expect(printed).toBe('scheduled')
})

test('a database of another copy of better-sqlite3 is refused', { timeout: 30_000 }, async () => {
  // Two copies of SQLite in one process do not see each other's locks.
  const copy = join(folder, 'node_modules', 'better-sqlite3')
  for (const name of ['better-sqlite3', 'bindings', 'file-uri-to-path'])
    cpSync(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name), {
      recursive: true,
      filter: (path) => !/better-sqlite3\/(deps|src|build\/Release\/(obj|\.deps))/.test(path),
    })
  const printed = await runProgram(
    'copies',
    `import { createRequire } from 'node:module'
     import { Tocsin } from ${from('dist/index.js')}
     import { sqlite } from ${from('dist/entry/sqlite.js')}
     const Database = createRequire(import.meta.url)(${JSON.stringify(copy)})
     const database = new Database('./copies.db')
     const opened = await Tocsin.open({ ledger: sqlite({ database }) }).catch((error) => error.code)
     console.log(opened)`,
  )
  expect(printed).toBe('bad-tx')
})
