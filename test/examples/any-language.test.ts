/** What docs/transactions.md shows of other languages is what lies in examples/any-language, and it works. */
import { execFile, spawnSync } from 'node:child_process'
import { dirname, delimiter } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Tocsin } from 'tocsin'
import { read, ROOT } from '../docs/markdown.ts'
import { type PostgresServer, programPath, sql, startPostgres } from '../real-servers/postgres-server.ts'

const run = promisify(execFile)
const SECTION = read('docs/transactions.md').split('## From any language')[1] as string
const BLOCKS = [...SECTION.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language, code]) => ({
  language: language as string,
  code: code as string,
}))
const EXAMPLES = { sh: 'order.sh', python: 'order.py' }
const hasPython = spawnSync('python3', ['--version']).status === 0

let server: PostgresServer
let url: string
let env: NodeJS.ProcessEnv
beforeAll(async () => {
  server = await startPostgres()
}, 60_000)
afterAll(() => server.stop(), 60_000)
beforeEach(async () => {
  url = await server.createDatabase()
  // psql lies beside its server.
  const path = [dirname(await programPath('postgres')), process.env['PATH']].join(delimiter)
  env = { ...process.env, PATH: path, DATABASE_URL: url }
  await sql(url, 'CREATE TABLE orders (id integer PRIMARY KEY, state text NOT NULL)')
})

const example = async (program: string, language: keyof typeof EXAMPLES, id: string): Promise<string> =>
  (await run(program, [`${ROOT}/examples/any-language/${EXAMPLES[language]}`, id], { env, timeout: 15_000 }))
    .stdout

test('the document shows the files as they are', () => {
  for (const [language, file] of Object.entries(EXAMPLES))
    expect(BLOCKS.filter((block) => block.language === language)).toEqual([
      { language, code: read(`examples/any-language/${file}`) },
    ])
})

test('the statements of the document answer what it says', async () => {
  await using toc = await Tocsin.open({ ledger: url, logger: false })
  await toc.topic('order.unpaid').schedule({ key: 'first', delay: '1h', payload: null })
  const at = BLOCKS.findIndex(({ language }) => language === 'sql')
  const [statements, prints] = [BLOCKS[at], BLOCKS[at + 1]]
  expect(prints?.language).toBe('text')
  const options = ['--no-psqlrc', '--quiet', '--tuples-only', '--no-align', '--set', 'ON_ERROR_STOP=1']
  const { stdout } = await run('psql', [url, ...options, '--command', statements?.code as string], { env })
  expect(stdout).toBe(prints?.code)
})

describe('a shop', () => {
  test('opens an order from a shell', async () => {
    await using toc = await Tocsin.open({ ledger: url, logger: false })
    const unpaid = toc.topic<{ orderId: number }>('order.unpaid')
    const consumer = unpaid.consume(async () => {})
    const known = () =>
      sql(url, `SELECT FROM tocsin.topic WHERE slot_by IS NOT NULL`).then(({ length }) => length)
    await expect.poll(known, { timeout: 10_000 }).toBe(1)
    expect(await example('sh', 'sh', '42')).toBe('order-42|created\n')
    expect(await unpaid.get('order-42')).toMatchObject({ state: 'pending', payload: { orderId: 42 } })
    // The same order again: refused by the table, and its timer with it.
    await expect(example('sh', 'sh', '42')).rejects.toMatchObject({
      stderr: expect.stringContaining('orders_pkey'),
    })
    expect((await unpaid.counts()).pending).toBe(1)
    await consumer.stop()
  })

  test.skipIf(!hasPython)('has it paid from Python', async () => {
    const refused = (state: string) => ({ code: 1, stdout: `refused: ${state}\n` })
    await expect(example('python3', 'python', '42')).rejects.toMatchObject(refused('3F000'))
    await using toc = await Tocsin.open({ ledger: url, logger: false })
    const unpaid = toc.topic<{ orderId: number }>('order.unpaid')
    await expect(example('python3', 'python', '42')).rejects.toMatchObject(refused('TC002'))
    await unpaid.schedule({ key: 'order-42', delay: '30m', payload: { orderId: 42 } })
    await sql(url, `INSERT INTO orders VALUES (42, 'unpaid')`)
    expect(await example('python3', 'python', '42')).toBe('cancelled\n')
    expect(await sql(url, 'SELECT state FROM orders')).toEqual([{ state: 'paid' }])
    expect(await unpaid.get('order-42')).toMatchObject({ state: 'cancelled' })
    expect(await example('python3', 'python', '42')).toBe('not-found\n')
  })
})
