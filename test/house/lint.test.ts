import { beforeAll, expect, test } from 'vitest'
import { plant, run } from './planted.ts'

/** What the planted classes import. A linter that guesses types instead of asking the compiler misses some of it. */
const OTHER_FILE = `
import { EventEmitter } from 'node:events'
export class Store { async put(): Promise<void> {}; ready = (): Promise<void> => Promise.resolve() }
export interface Port { settle(): Promise<void>; extend: () => Promise<void> }
export const make = () => ({ stop: () => Promise.resolve() })
export type Made = ReturnType<typeof make>
export type Thenable = PromiseLike<void>
export class Bus extends EventEmitter {}
`

const HEADER = `
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { Bus, Store, type Made, type Port, type Thenable } from './other.ts'
export const uses = [once, readFile, Bus, Store]
`

const method = (line: string): string => `${HEADER}
export class Actor<T extends Port> {
  readonly store = new Store()
  readonly ports: T[] = []
  readonly byKey = new Map<string, T>()
  constructor(readonly port: T, readonly made: Made, readonly run: () => Promise<void>, readonly later: () => Thenable) {}
  step(): void {
    ${line}
  }
}
`

/** A lost promise is a lost task. Each of these loses one. */
const FLOATING = [
  'new Store().put()',
  'this.store.put()',
  'this.store.ready()',
  'this.port.settle()',
  'this.port.extend()',
  'this.run()',
  'this.made.stop()',
  'this.later()',
  'this.ports[0]?.settle()',
  'this.ports.at(0)?.settle()',
  "this.byKey.get('k')!.settle()",
  'for (const port of this.byKey.values()) port.settle()',
  'this.ports.map((port) => port.settle())',
  "readFile('file')",
  "once(new Bus(), 'event')",
  'this.run().then(() => {})',
  'Promise.all(this.ports.map((port) => port.settle()))',
]

const OTHERS: [path: string, source: string, rule: string][] = [
  ['src/any.ts', 'export const x = (v: any) => v', 'typescript(no-explicit-any)'],
  ['src/unused.ts', "import { Store } from './other.ts'\nexport const x = 1", 'eslint(no-unused-vars)'],
  ['src/local.ts', 'export function f() {\n  const x = 1\n}', 'eslint(no-unused-vars)'],
  ['src/console.ts', "console.log('x')", 'eslint(no-console)'],
  [
    'src/type.ts',
    "import { Store } from './other.ts'\nexport type X = Store",
    'typescript(consistent-type-imports)',
  ],
  [
    'src/misused.ts',
    'export const x = [1].forEach(async () => { await Promise.resolve() })',
    'typescript(no-misused-promises)',
  ],
  ['src/throws.ts', "export function f() {\n  throw 'x'\n}", 'typescript(only-throw-error)'],
  [
    'src/states.ts',
    "export function f(x: 'a' | 'b') {\n  switch (x) {\n    case 'a':\n      return 1\n  }\n  return 2\n}",
    'typescript(switch-exhaustiveness-check)',
  ],
]

const FREE: [path: string, source: string][] = [
  ['src/meant.ts', method('void this.port.settle()')],
  ['scripts/console.mjs', "console.log('x')"],
  ['bench/console.mjs', "console.log('x')"],
  ['examples/console.mjs', "console.log('x')"],
]

let reported: Map<string, string[]>

beforeAll(async () => {
  await using planted = await plant({
    'src/other.ts': OTHER_FILE,
    ...Object.fromEntries(FLOATING.map((line, index) => [`src/floating-${index}.ts`, method(line)])),
    ...Object.fromEntries(OTHERS.map(([path, source]) => [path, source])),
    ...Object.fromEntries(FREE),
  })
  const { output } = await run('oxlint/bin/oxlint', ['--format=json'], planted.dir)
  const { diagnostics } = JSON.parse(output) as { diagnostics: { code: string; filename: string }[] }
  reported = new Map()
  for (const { code, filename } of diagnostics)
    reported.set(filename, [...(reported.get(filename) ?? []), code])
}, 60_000)

test.each(FLOATING.map((line, index) => ({ line, index })))('floating: $line', ({ index }) => {
  expect(reported.get(`src/floating-${index}.ts`)).toEqual(['typescript(no-floating-promises)'])
})

test.each(OTHERS)('%s', (path, _, rule) => expect(reported.get(path)).toContain(rule))

test.each(FREE)('free: %s', (path) => expect(reported.get(path)).toBeUndefined())
