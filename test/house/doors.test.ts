import { beforeAll, describe, expect, test } from 'vitest'
import { plant, run } from './planted.ts'

/** Each way to reach a door, and the door that the message must name. */
const FORBIDDEN: [source: string, door: string][] = [
  ['export const x = Date.now()', 'Date.now'],
  ['export const x = new Date()', 'new Date()'],
  ['export const x = new globalThis.Date()', 'new Date()'],
  ['export const x = Date()', 'Date()'],
  ['export const x = performance.now()', 'performance.now'],
  ['export const x = process.hrtime()', 'process.hrtime'],
  ['export const x = process.hrtime.bigint()', 'process.hrtime'],
  ['export const x = setTimeout(() => {}, 1)', 'setTimeout'],
  ['export const x = setInterval(() => {}, 1)', 'setInterval'],
  ['export const x = setImmediate(() => {})', 'setImmediate'],
  ['export const x = AbortSignal.timeout(1)', 'AbortSignal.timeout'],
  ['export const x = Math.random()', 'Math.random'],
  ['export const x = crypto.randomUUID()', 'crypto.randomUUID'],
  ['export const x = crypto.getRandomValues(new Uint8Array(1))', 'crypto.getRandomValues'],
  // Roundabout ways.
  ['export const x = globalThis.setTimeout(() => {}, 1)', 'setTimeout'],
  ["export const x = globalThis['setTimeout'](() => {}, 1)", 'setTimeout'],
  ['export const x = global.setTimeout(() => {}, 1)', 'setTimeout'],
  ['export const x = globalThis.Date.now()', 'Date.now'],
  ['export const x = globalThis.crypto.randomUUID()', 'crypto.randomUUID'],
  ["export const x = Date['now']()", 'Date.now'],
  ['export const x = Date.now', 'Date.now'],
  ['export const x = (now = Date.now) => now()', 'Date.now'],
  ['export const x = { later: setTimeout }', 'setTimeout'],
  ['export const { now } = Date', 'Date.now'],
  ['export const { now: x } = performance', 'performance.now'],
  ['export const { random: x = () => 1 } = Math', 'Math.random'],
  ['export const { setTimeout: x } = globalThis', 'setTimeout'],
  ['const { Date: { now } } = globalThis\nexport const x = now()', 'Date.now'],
  ['const D = Date\nexport const x = D.now()', 'Date.now'],
  ['const D = Date\nexport const x = new D()', 'new Date()'],
  ['export const x = ({ now } = Date) => now()', 'Date.now'],
  // Through a module.
  ["import { setTimeout as later } from 'node:timers'\nexport const x = later", 'node:timers'],
  [
    "import { setTimeout as sleep } from 'node:timers/promises'\nexport const x = sleep(1)",
    'node:timers/promises',
  ],
  [
    "import { setTimeout as sleep } from 'timers/promises'\nexport const x = sleep(1)",
    'node:timers/promises',
  ],
  ["import { performance as p } from 'node:perf_hooks'\nexport const x = p.now()", 'node:perf_hooks'],
  ["export { setTimeout } from 'node:timers'", 'node:timers'],
  ["export * from 'node:timers'", 'node:timers'],
  ["export const x = await import('node:timers/promises')", 'node:timers/promises'],
  ["import { randomUUID } from 'node:crypto'\nexport const x = randomUUID()", 'crypto.randomUUID'],
  ["import { randomUUID as id } from 'node:crypto'\nexport const x = id()", 'crypto.randomUUID'],
  ["import { randomBytes } from 'crypto'\nexport const x = randomBytes(1)", 'crypto.randomBytes'],
  [
    "import { getRandomValues } from 'node:crypto'\nexport const x = getRandomValues",
    'crypto.getRandomValues',
  ],
  ["import * as c from 'node:crypto'\nexport const x = c.randomBytes(1)", 'crypto.randomBytes'],
  ["import c from 'node:crypto'\nexport const x = c.randomInt(1)", 'crypto.randomInt'],
  ["import { webcrypto } from 'node:crypto'\nexport const x = webcrypto.randomUUID()", 'crypto.randomUUID'],
  ["import { hrtime } from 'node:process'\nexport const x = hrtime()", 'process.hrtime'],
  ["export { randomUUID } from 'node:crypto'", 'crypto.randomUUID'],
  ["const { randomUUID } = await import('node:crypto')\nexport const x = randomUUID()", 'crypto.randomUUID'],
]

/** Near misses that must stay free, so that nobody learns to switch the rule off. */
const ALLOWED = [
  'export const x = new Date(0)',
  'export const x = Date.parse("2026-01-01")',
  'export const x = (v: unknown) => v instanceof Date',
  'queueMicrotask(() => {})\nexport const x = 1',
  'export const x = AbortSignal.any([])',
  'export const x = Math.max(1, 2)',
  'export type X = ReturnType<typeof setTimeout>',
  'export interface X { setTimeout(f: () => void): void; now(): number }',
  'export const x = (clock: { now(): number; setTimeout(): void }) => [clock.now(), clock.setTimeout()]',
  'export const x = (setTimeout: () => void) => setTimeout()',
  'export const x = ({ now }: { now: () => number }) => now()',
  'class Date { static now() { return 1 } }\nexport const x = Date.now()',
  "import type { setTimeout } from 'node:timers/promises'\nexport type X = typeof setTimeout",
  "import { createHash } from 'node:crypto'\nexport const x = createHash('sha256')",
  'export const x = process.env',
]

/**
 * The forms in one file, to be free where they are at home. An import cannot stand inside a function and two forms
 * may use one name, so that only forms without an import take part, each in a function of its own.
 */
const TOGETHER = FORBIDDEN.map(([source]) => source)
  .filter((source) => !/^(import|export [{*])|await/.test(source))
  .map(
    (source, index) => `export function form${index}() {\n${source.replaceAll('export ', '')}\nreturn 0\n}`,
  )

const AT_HOME = ['src/clock.ts', 'src/random.ts', 'src/some.test.ts', 'test/some.ts']

let reported: Map<string, string[]>
let code: number

beforeAll(async () => {
  const files: Record<string, string> = {}
  FORBIDDEN.forEach(([source], index) => {
    files[`src/forbidden-${index}.ts`] = source
    files[`src/runtime/forbidden-${index}.ts`] = source
  })
  ALLOWED.forEach((source, index) => {
    files[`src/allowed-${index}.ts`] = source
  })
  for (const path of [...AT_HOME, 'src/elsewhere.ts']) files[path] = TOGETHER.join('\n')
  await using planted = await plant(files)
  const ran = await run('oxlint/bin/oxlint', ['--format=json'], planted.dir)
  code = ran.code
  reported = doorsByFile(ran.output)
}, 60_000)

/** The messages of the rule, by file: other rules may have their say about the planted code, and do not count. */
function doorsByFile(output: string): Map<string, string[]> {
  const { diagnostics } = JSON.parse(output) as {
    diagnostics: { code: string; message: string; filename: string }[]
  }
  const byFile = new Map<string, string[]>()
  for (const { code: rule, message, filename } of diagnostics) {
    if (rule !== 'tocsin(doors)') continue
    byFile.set(filename, [...(byFile.get(filename) ?? []), message])
  }
  return byFile
}

describe('in src, only clock.ts and random.ts open a door', () => {
  test('the linter is red', () => expect(code).toBe(1))

  test.each(FORBIDDEN.map(([source, door], index) => ({ source, door, index })))(
    '$source',
    ({ door, index }) => {
      for (const path of [`src/forbidden-${index}.ts`, `src/runtime/forbidden-${index}.ts`]) {
        expect(reported.get(path)).toEqual([expect.stringContaining(`\`${door}\` is a door to `)])
      }
    },
  )

  test.each(ALLOWED.map((source, index) => ({ source, index })))('free: $source', ({ index }) => {
    expect(reported.get(`src/allowed-${index}.ts`)).toBeUndefined()
  })

  test('all at once elsewhere', () => {
    expect(reported.get('src/elsewhere.ts')).toHaveLength(TOGETHER.length)
  })

  test.each(AT_HOME)('all are free in %s', (path) => {
    expect(reported.get(path)).toBeUndefined()
  })
})
