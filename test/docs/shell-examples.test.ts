/** What the documents show of `curl` is done as it stands, against a real server, and prints what they say. */
import { execFile, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Served, serve } from 'tocsin/server'
import { TocsinClient } from 'tocsin/client'
import { read, ROOT } from './markdown.ts'

const run = promisify(execFile)
const USUAL = 'http://127.0.0.1:7420'

/** Shell blocks that speak to the server, each with what it prints, where the document says so. */
function blocksOf(file: string): { line: number; code: string; prints: string | null }[] {
  const text = read(file)
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```\n(?:```json\n([\s\S]*?)^```\n)?/gm)]
    .map((found) => ({
      line: text.slice(0, found.index).split('\n').length,
      code: found[1] as string,
      prints: found[2] ?? null,
    }))
    .filter(({ code }) => code.includes(USUAL))
}

let served: Served
const folder = mkdtempSync(join(tmpdir(), 'tocsin-shell-'))
beforeAll(async () => {
  served = await serve({ port: 0, timetable: 'memory:', logLevel: 'silent' })
})
afterAll(async () => {
  await served.close()
  rmSync(folder, { recursive: true, force: true })
})

describe.each(['docs/server.md', 'README.md'])('%s', (file) => {
  it('has examples', () => expect(blocksOf(file).length).toBeGreaterThan(0))

  it.each(blocksOf(file))('line $line', async ({ code, prints }) => {
    const script = code.replaceAll(USUAL, served.url)
    const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { cwd: folder, timeout: 18_000 })
    if (prints === null) expect(stdout).not.toContain('"error"')
    else expect(stdout).toBe(prints)
  })
})

it('docs/server.md shows the worker as it lies in examples, in 30 lines or little more', () => {
  const [, shown] = /^```python\n([\s\S]*?)^```$/m.exec(read('docs/server.md')) ?? []
  const code = read('examples/any-language/consumer.py')
  expect(shown).toBe(code)
  expect(code.split('\n').filter((line) => line.trim() !== '').length).toBeLessThanOrEqual(30)
})

it('the worker handles tasks, tries again what failed, and outlives a server', async () => {
  const database = `sqlite:${join(folder, 'worker.db')}`
  let server = await serve({ port: 0, ledger: database, logLevel: 'silent' })
  const { url } = server
  await new TocsinClient({ url }).declare('order.unpaid')
  const schedule = (key: string) =>
    server.toc.topic('order.unpaid').schedule({ key, delay: '0s', payload: { key } })
  const child = spawn('python3', [`${ROOT}/examples/any-language/consumer.py`, 'order.unpaid'], {
    env: { ...process.env, TOCSIN_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let printed = ''
  const waiting = new Set<() => void>()
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    printed += text
    for (const look of waiting) look()
  })
  const isPrinted = (text: string) =>
    new Promise<void>((resolve) => {
      const look = () => {
        if (!printed.includes(text)) return
        waiting.delete(look)
        resolve()
      }
      waiting.add(look)
      look()
    })
  try {
    await schedule('order-1')
    await isPrinted("order-1 was not paid in time: {'key': 'order-1'}")
    await server.close()
    server = await serve({ port: Number(new URL(url).port), ledger: database, logLevel: 'silent' })
    await schedule('order-2')
    await isPrinted('order-2 was not paid in time')
  } finally {
    const ended = new Promise((resolve) => child.once('close', resolve))
    child.kill()
    await ended
    await server.close()
  }
})
