import { basename } from 'node:path'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { held, newlyHeld } from '../setup/resources.ts'
import { describeOpen, passesThroughSrc, TimerLedger, type Timers } from '../setup/timer-ledger.ts'
import { plant, readOurs, run } from './planted.ts'

/** The real timers in an object of their own: what is planted here is not seen by the check of this very file. */
function watched(isOurs: (stack: string) => boolean = () => true) {
  const { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate } = globalThis
  const timers = { setTimeout, setInterval, setImmediate, clearTimeout, clearInterval, clearImmediate }
  const ledger = new TimerLedger(isOurs)
  const restore = ledger.watch(timers as unknown as Timers)
  return { timers, ledger, restore }
}

const nothing = (): void => {}
const HOUR_MS = 3_600_000

describe('the timer ledger', () => {
  test('reports an armed timer with the stack that armed it, until it is cleared', () => {
    const { timers, ledger } = watched()
    const handle = timers.setTimeout(nothing, HOUR_MS)
    expect(ledger.open()).toEqual([{ kind: 'setTimeout', stack: expect.stringContaining('leaks.test.ts') }])
    expect(describeOpen(ledger.open())).toMatch(/1 timer.*\n1\. setTimeout, armed here:\n.*leaks\.test\.ts/)
    timers.clearTimeout(handle)
    expect(ledger.open()).toEqual([])
  })

  test('an unref’d timer is a leak as well', () => {
    const { timers, ledger } = watched()
    const handle = timers.setTimeout(nothing, HOUR_MS).unref()
    expect(ledger.open()).toHaveLength(1)
    timers.clearTimeout(handle)
  })

  test('a timer that fired is closed, an interval is not', async () => {
    const { timers, ledger } = watched()
    const interval = timers.setInterval(nothing, 1)
    await new Promise<void>((resolve) => timers.setImmediate(resolve))
    await new Promise<void>((resolve) => timers.setTimeout(resolve, 5))
    expect(ledger.open().map(({ kind }) => kind)).toEqual(['setInterval'])
    timers.clearInterval(interval)
    expect(ledger.open()).toEqual([])
  })

  test('arguments reach the callback', async () => {
    const { timers } = watched()
    const got = await new Promise((resolve) =>
      timers.setTimeout((...args: unknown[]) => resolve(args), 0, 'a', 2),
    )
    expect(got).toEqual(['a', 2])
  })

  test.each<[string, (timers: ReturnType<typeof watched>['timers'], handle: NodeJS.Timeout) => void]>([
    ['its number', (timers, handle) => timers.clearTimeout(Number(handle))],
    ['its number as a string', (timers, handle) => timers.clearTimeout(String(Number(handle)))],
    ['the other clear', (timers, handle) => timers.clearInterval(handle)],
    ['close()', (_, handle) => void handle.close()],
    ['disposal', (_, handle) => handle[Symbol.dispose]()],
  ])('a timer can be cleared by %s', (_, clear) => {
    const { timers, ledger } = watched()
    const handle = timers.setTimeout(nothing, HOUR_MS)
    clear(timers, handle)
    expect(ledger.open()).toEqual([])
    timers.clearTimeout(handle)
  })

  test('a timer that fired and was refreshed is armed again', async () => {
    const { timers, ledger } = watched()
    const handle = await new Promise<NodeJS.Timeout>((resolve) => {
      const armed = timers.setTimeout(() => resolve(armed), 1)
    })
    expect(ledger.open()).toEqual([])
    handle.refresh()
    expect(ledger.open()).toHaveLength(1)
    timers.clearTimeout(handle)
  })

  test('the promised form still works', async () => {
    const { timers } = watched()
    expect(await promisify(timers.setTimeout)(1, 'value')).toBe('value')
  })

  test('timers of others are let through and not kept', () => {
    const { timers, ledger } = watched(() => false)
    timers.clearTimeout(timers.setTimeout(nothing, HOUR_MS))
    const handle = timers.setTimeout(nothing, HOUR_MS)
    expect(ledger.open()).toEqual([])
    timers.clearTimeout(handle)
  })

  test('restore puts the functions back', () => {
    const { timers, restore } = watched()
    restore()
    expect(timers.setTimeout).toBe(globalThis.setTimeout)
  })
})

test.each([
  ['    at arm (/home/me/tocsin/src/clock.ts:1:1)', true],
  ['    at arm (file:///home/me/tocsin/src/consume/puller.ts:1:1)', true],
  ['    at arm (C:\\me\\tocsin\\src\\clock.ts:1:1)', true],
  ['    at arm (/home/me/tocsin/node_modules/a/index.js:1:1)\n    at f (/home/me/tocsin/src/a.ts:1:1)', true],
  ['    at arm (/home/me/tocsin/node_modules/a/src/index.js:1:1)', false],
  ['    at arm (/home/me/tocsin/test/contract/a.ts:1:1)', false],
])('passes through src: %j is %j', (stack, expected) => expect(passesThroughSrc(stack)).toBe(expected))

test('what was held at the start is no leak, what came later is', () => {
  const then = held(['PipeWrap', 'Timeout', 'TCPSocketWrap'], 0)
  const now = held(['PipeWrap', 'Timeout', 'Timeout', 'FSReqPromise', 'TCPSocketWrap', 'TCPSocketWrap'], 1)
  expect(newlyHeld(then, then)).toEqual([])
  expect(newlyHeld(then, now)).toEqual(['1 × TCPSocketWrap', '1 × Worker'])
})

/** Files of tests that pass, but for what they leave behind. */
const LEAKING = {
  timer: "import { arm } from './arm.ts'\narm()",
  'unref-timer': "import { arm } from './arm.ts'\narm().unref()",
  server: "import { createServer } from 'node:net'\ncreateServer().listen(0)",
  'unix-server': "import { createServer } from 'node:net'\ncreateServer().listen('leak.sock')",
  socket: `import { connect, createServer } from 'node:net'
    const server = createServer().listen(0, () => connect(server.address().port).on('connect', () => server.close()))`,
  child:
    "import { spawn } from 'node:child_process'\nspawn(process.execPath, ['-e', 'setTimeout(() => {}, 5000)'])",
  worker:
    "import { Worker } from 'node:worker_threads'\nnew Worker('setInterval(() => {}, 9000)', { eval: true })",
}

const CLEAN = {
  timer: "import { arm } from './arm.ts'\nclearTimeout(arm())",
  server:
    "import { createServer } from 'node:net'\nconst server = createServer().listen(0, () => server.close())",
  print: "console.log('to stdout')\nconsole.error('to stderr')",
}

test('a file that leaks fails, one that cleans up does not', { timeout: 60_000 }, async () => {
  const files = [
    ...Object.entries(LEAKING).map(([name, body]) => [`leaks-${name}.test.ts`, body] as const),
    ...Object.entries(CLEAN).map(([name, body]) => [`clean-${name}.test.ts`, body] as const),
  ]
  const asTest = (body: string): string =>
    `import { test } from 'vitest'\n${body}\ntest('passes', () => {})\n`
  await using planted = await plant({
    ...(await readOurs('test/setup')),
    'src/arm.ts': `export const arm = () => setTimeout(() => {}, ${HOUR_MS})\n`,
    ...Object.fromEntries(files.map(([name, body]) => [`src/${name}`, asTest(body)])),
  })
  // All at once: a file that leaks mostly waits, in case that what it left open is closing.
  const args = ['run', '--reporter=json', `--maxWorkers=${files.length}`]
  const { code, output } = await run('vitest/vitest.mjs', args, planted.dir)
  expect(code).not.toBe(0)
  const report = JSON.parse(output.slice(output.indexOf('{'), output.lastIndexOf('}') + 1)) as {
    testResults: { name: string; status: string }[]
  }
  const status = report.testResults.map((file) => [basename(file.name), file.status])
  const expected = files.map(([name]) => [name, name.startsWith('leaks') ? 'failed' : 'passed'])
  expect(Object.fromEntries(status)).toEqual(Object.fromEntries(expected))
})
