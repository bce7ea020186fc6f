/**
 * Runs the demonstration as a reader does, with its output in a pipe. It is the one test here that waits for real
 * time: 20,000 real timers are what it shows. It is told to hurry, and nothing here depends on how late they are.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, test } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const dist = fileURLToPath(new URL('../../dist/index.js', import.meta.url))

/** A demonstration that is running: what it printed so far, and its exit code when it ends. */
function start(seconds: number, file: string, ...nodeOptions: string[]) {
  const { VITEST: _, ...env } = process.env
  const args = [...nodeOptions, 'examples/demonstration.mjs', '--seconds', String(seconds), '--file', file]
  const child = spawn(process.execPath, args, {
    cwd: root,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const printed = { text: '' }
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => (printed.text += text))
  const ended = once(child, 'close').then(([code]) => code as number)
  return { child, printed, ended }
}

const folder = mkdtempSync(join(tmpdir(), 'tocsin-demonstration-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let files = 0
function newFile(): string {
  return join(folder, `${++files}.db`)
}

/** Changes what the demonstration schedules, behind its back. */
function tampering(change: string): string {
  const source = `
    import { Tocsin } from ${JSON.stringify(pathToFileURL(dist).href)}
    const topicOf = Tocsin.prototype.topic
    Tocsin.prototype.topic = function (...args) {
      const topic = topicOf.apply(this, args)
      const scheduleMany = topic.scheduleMany.bind(topic)
      topic.scheduleMany = (tasks) => scheduleMany(${change})
      return topic
    }`
  return `--import=data:text/javascript,${encodeURIComponent(source)}`
}

beforeAll(async () => {
  // `npm test` builds before it comes here; vitest by itself does not.
  if (existsSync(dist)) return
  const build = spawn(process.execPath, ['scripts/bootstrap.mjs'], { cwd: root, stdio: 'ignore' })
  const [code] = await once(build, 'close')
  expect(code).toBe(0)
}, 120_000)

test('all fire once and none early, those who paid do not', { timeout: 60_000 }, async () => {
  const { printed, ended } = start(2, newFile())
  expect(await ended, printed.text).toBe(0)
  const { text } = printed
  expect(text).toContain('19,500 of 20,000 fired · 0 pending · 0 running')
  expect(text).toContain('19,500 closed, each once, 0 early. 500 cancelled, 0 of them fired.')
  expect(text).toContain('order-19999 failed 2 times and was closed at attempt 3')
  expect(text).toMatch(/^ +1 s +[\d,]+ fired +[\d,]+ pending/m)
  expect(text.match(/how late they fire/g)).toHaveLength(1)
  expect(text).not.toContain('\x1b')
  expect(Math.max(...text.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80)
})

test('an interrupt ends it at once, in order', { timeout: 60_000 }, async () => {
  const { child, printed, ended } = start(8, newFile())
  while (!printed.text.includes('timers set')) await once(child.stdout, 'data')
  child.kill('SIGINT')
  expect(await ended, printed.text).toBe(130)
  expect(printed.text).toContain('Stopped.')
  expect(printed.text).not.toContain('Your first timer')
})

test('killed and started again, the timers go on', { timeout: 60_000 }, async () => {
  const file = newFile()
  const first = start(4, file)
  while (!/^ +1 s +[\d,]+ fired/m.test(first.printed.text)) await once(first.child.stdout, 'data')
  first.child.kill('SIGKILL')
  await first.ended
  const second = start(4, file)
  expect(await second.ended, second.printed.text).toBe(0)
  expect(second.printed.text).toMatch(/[\d,]+ timers of the run before are still here/)
  expect(second.printed.text).toMatch(/([\d,]+) of \1 fired · 0 pending · 0 running/)
  expect(second.printed.text).toMatch(/closed after the restart, 0 early, 0 lost\./)
})

test('a timer that fires early is not passed over', { timeout: 60_000 }, async () => {
  // Order 0 belongs to the burst, some seconds ahead, so that it is early even where 20,000 take long to set.
  const early = tampering('tasks.map((task, order) => (order === 0 ? { ...task, at: Date.now() } : task))')
  const { printed, ended } = start(8, newFile(), early)
  expect(await ended, printed.text).toBe(1)
  expect(printed.text).toContain('This must not happen: 1 fired early.')
})

test('a timer that never fires is not passed over', { timeout: 60_000 }, async () => {
  const { printed, ended } = start(1, newFile(), tampering('tasks.slice(1)'))
  expect(await ended, printed.text).toBe(1)
  expect(printed.text).toMatch(/This must not happen: 1 of 19,\d+ never fired\./)
})
