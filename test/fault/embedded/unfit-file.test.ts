/** Files that cannot be used as they are: refused with a reason, and left alone. */
import { chmodSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { Tocsin } from 'tocsin'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { MIGRATIONS } from '../../../src/ledgers/sqlite/migrations.ts'
import { temporaryFolder, TOPIC } from './life.ts'
import { unprivilegedTmpdir } from '../../real-servers/unprivileged.ts'
import { failureOf } from '../helpers.ts'
import { type Entry, startProgram } from '../program.ts'

const NEWER = MIGRATIONS.length + 1

let folder: ReturnType<typeof temporaryFolder>
let path: string
beforeEach(() => {
  folder = temporaryFolder(unprivilegedTmpdir())
  path = join(folder.path, 't.db')
})
afterEach(() => folder[Symbol.dispose]())

const open = (file = path) => Tocsin.open({ ledger: `sqlite:${file}`, logger: false })

async function written(): Promise<void> {
  const toc = await open()
  await toc.topic<number>(TOPIC).schedule({ key: 'a', delay: '1h', payload: 1 })
  await toc.close()
}

describe('a file of a newer format', () => {
  test('is refused, and untouched', async () => {
    await written()
    const database = new Database(path)
    database.exec("UPDATE tocsin_meta SET value = 99 WHERE name = 'format'")
    database.close()
    const before = readFileSync(path)
    for (let i = 0; i < 2; i++) {
      const error = await failureOf(open())
      expect(error).toMatchObject({ code: 'ledger-too-new', retryable: false, details: { format: 99 } })
      expect((error as Error).message).toMatch(/newer version.*format 99/)
    }
    expect(readFileSync(path).equals(before)).toBe(true)
    expect(existsSync(`${path}-wal`)).toBe(false)
  })

  test('is refused before anything is checked or changed in it, whatever it looks like', async () => {
    const database = new Database(path)
    database.exec(`CREATE TABLE tocsin_meta (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
      INSERT INTO tocsin_meta VALUES ('format', ${NEWER}); CREATE TABLE tocsin_later (what TEXT)`)
    database.close()
    expect(await failureOf(open())).toMatchObject({ code: 'ledger-too-new' })
    const after = new Database(path, { readonly: true })
    const tables = after.prepare('SELECT name FROM sqlite_schema ORDER BY name').pluck().all()
    expect(tables).toEqual(['tocsin_later', 'tocsin_meta'])
    expect(after.prepare('SELECT name, value FROM tocsin_meta').raw().all()).toEqual([['format', NEWER]])
    after.close()
  })
})

describe('a file that is there already', () => {
  test('empty: it is used', async () => {
    writeFileSync(path, '')
    await written()
    await using toc = await open()
    expect(await toc.topic(TOPIC).get('a')).toMatchObject({ state: 'pending', payload: 1 })
  })

  test('a database with tables of an application: they stay as they are', async () => {
    const database = new Database(path)
    database.exec(
      "CREATE TABLE orders (id INTEGER PRIMARY KEY, what TEXT); INSERT INTO orders VALUES (1, 'tea')",
    )
    database.close()
    await written()
    const after = new Database(path, { readonly: true })
    expect(after.prepare('SELECT * FROM orders').all()).toEqual([{ id: 1, what: 'tea' }])
    after.close()
  })
})

describe('what may not be written', () => {
  /** Opens a file in a process without the rights of root: to root no file is read-only. */
  async function outcome(file = path): Promise<Entry> {
    const options = { open: {}, topic: TOPIC, path: file, withoutRoot: true }
    await using program = await startProgram('embedded/opener', options)
    await program.untilCount('outcome', 1)
    return program.of('outcome')[0]!
  }

  test('a folder that is read-only', async () => {
    chmodSync(folder.path, 0o555)
    const { code, retryable, message } = await outcome()
    expect({ code, retryable }).toEqual({ code: 'ledger-unavailable', retryable: true })
    expect(message).toContain(path)
    expect(message).toMatch(/cannot be opened.*folder.*writable/)
    expect(readdirSync(folder.path)).toEqual([])
  })

  test('a folder that is read-only, with a ledger in it', async () => {
    await written()
    const before = readFileSync(path)
    chmodSync(folder.path, 0o555)
    const { code, message } = await outcome()
    expect(code).toBe('ledger-unavailable')
    expect(message).toContain(path)
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('a file that is read-only', async () => {
    await written()
    const before = readFileSync(path)
    chmodSync(folder.path, 0o777)
    chmodSync(`${path}-lock`, 0o666)
    chmodSync(path, 0o444)
    const { code, message } = await outcome()
    expect(code).toBe('ledger-unavailable')
    expect(message).toContain(path)
    expect(message).toMatch(/readonly|read-only|writ/)
    expect(readFileSync(path).equals(before)).toBe(true)
  })

  test('a file that may not even be read', async () => {
    await written()
    chmodSync(folder.path, 0o777)
    chmodSync(`${path}-lock`, 0o666)
    chmodSync(path, 0)
    const { code, message } = await outcome()
    expect(code).toBe('ledger-unavailable')
    expect(message).toContain(path)
  })

  test('a folder that cannot be made', async () => {
    chmodSync(folder.path, 0o555)
    const { code, message } = await outcome(join(folder.path, 'a', 'b', 't.db'))
    expect(code).toBe('ledger-unavailable')
    expect(message).toMatch(/cannot be opened.*EACCES/)
  })

  // In a process of its own: `fs.mkdir` with `recursive` never returns there. Only Linux has /proc.
  test.skipIf(process.platform !== 'linux')('a folder that not even root can make', async () => {
    const { code, message } = await outcome('/proc/no/such/t.db')
    expect(code).toBe('ledger-unavailable')
    expect(message).toMatch(/cannot be opened.*ENOENT/)
  })

  test('a folder in the place of the file', async () => {
    mkdirSync(path)
    expect(await failureOf(open())).toMatchObject({
      code: 'ledger-unavailable',
      message: expect.stringContaining(path),
    })
  })

  test('a file in the place of the folder', async () => {
    writeFileSync(join(folder.path, 'file'), 'x')
    expect(await failureOf(open(join(folder.path, 'file', 't.db')))).toMatchObject({
      code: 'ledger-unavailable',
    })
  })
})
