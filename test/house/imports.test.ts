import { expect, test } from 'vitest'
import { importsOf, violations } from './layers.ts'
import { readOurs } from './planted.ts'

test('the imports of src point one way', async () => {
  const files = Object.entries(await readOurs('src')).filter(([path]) => path.endsWith('.ts'))
  expect(files.length).toBeGreaterThan(0)
  expect(violations(new Map(files))).toEqual([])
})

const planted = (path: string, source: string): string[] => violations(new Map([[path, source]]))

test.each([
  [
    'src/task.ts',
    "import { Timetable } from './timetable.ts'",
    'src/task.ts (pure) imports src/timetable.ts (ports)',
  ],
  ['src/task.ts', "import type { Timetable } from './timetable.ts'", 'src/timetable.ts (ports)'],
  ['src/task.ts', "import {\n  a,\n  b,\n} from './runtime/puller.ts'", 'src/runtime/puller.ts (runtime)'],
  ['src/task.ts', "export * from './tocsin.ts'", 'src/tocsin.ts (face)'],
  ['src/task.ts', "import './tocsin.ts'", 'src/tocsin.ts (face)'],
  ['src/task.ts', "const x = await import('./tocsin.ts')", 'src/tocsin.ts (face)'],
  ['src/task.ts', "type X = import('./tocsin.ts').Tocsin", 'src/tocsin.ts (face)'],
  ['src/timetable.ts', "import { x } from './timetables/memory/index.ts'", '(adapters)'],
  ['src/timetables/memory/index.ts', "import { x } from '../../runtime/puller.ts'", '(runtime)'],
  ['src/runtime/puller.ts', "import { x } from '../timetables/memory/index.ts'", '(adapters)'],
  ['src/runtime/puller.ts', "import { x } from '../tocsin.ts'", '(face)'],
  ['src/tocsin.ts', "import { x } from './testing/index.ts'", '(testing)'],
  ['src/index.ts', "export { x } from './testing/virtual-clock.ts'", '(testing)'],
  ['src/testing/index.ts', "import { test } from 'vitest'", "imports 'vitest'"],
  ['src/task.ts', "import { x } from 'tocsin'", 'name the file'],
  ['src/task.ts', "import { x } from './topic.test.ts'", 'nothing imports a test'],
  ['src/task.ts', "import { x } from '../bench/run.mjs'", 'in no layer'],
  ['src/elsewhere/file.ts', '', 'in no layer'],
])('%s: %s', (path, source, message) => {
  expect(planted(path, source)).toEqual([expect.stringContaining(message)])
})

test.each([
  ['src/topic.ts', "import { x } from './task.ts'\nimport { createHash } from 'node:crypto'"],
  ['src/timetable.ts', "import type { Task } from './task.ts'"],
  [
    'src/timetables/memory/index.ts',
    "import { x } from './heap.ts'\nimport type { T } from '../../timetable.ts'",
  ],
  ['src/runtime/puller.ts', "import type { T } from '../timetable.ts'"],
  [
    'src/tocsin.ts',
    "import { x } from './runtime/puller.ts'\nimport { y } from './timetables/memory/index.ts'",
  ],
  ['src/index.ts', "export { Tocsin } from './tocsin.ts'"],
  ['src/testing/index.ts', "export { x } from '../index.ts'\nimport { y } from '../clock.ts'"],
  ['src/task.test.ts', "import { test } from 'vitest'\nimport { x } from './testing/index.ts'"],
  ['src/task.ts', "// import { x } from './tocsin.ts'\n/*\nimport { x } from './tocsin.ts'\n*/"],
  ['src/task.ts', "const message = 'to import it, write from ./tocsin.ts'"],
])('free: %s: %s', (path, source) => expect(planted(path, source)).toEqual([]))

test('every shape of an import is read', () => {
  const source = [
    "import a from './a.ts'",
    "import * as b from './b.ts'",
    "import type { C } from './c.ts'",
    "import {\n  d,\n  type E,\n} from './d.ts'",
    "export { f } from './f.ts'",
    "export * as g from './g.ts'",
    "import './h.ts'",
    "const i = await import('./i.ts')",
    "export const j = 'not from anywhere'",
  ].join('\n')
  expect(importsOf(source).toSorted()).toEqual('abcdfghi'.split('').map((name) => `./${name}.ts`))
})
