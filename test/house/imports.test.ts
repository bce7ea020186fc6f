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
    'src/errors.ts',
    "import { Timetable } from './timetable.ts'",
    'src/errors.ts (core) imports src/timetable.ts (ports)',
  ],
  ['src/values/key.ts', "import type { Timetable } from '../timetable.ts'", 'src/timetable.ts (ports)'],
  ['src/lib/heap.ts', "import { x } from '../values/key.ts'", 'src/values/key.ts (values)'],
  ['src/task.ts', "import {\n  a,\n  b,\n} from './consume/puller.ts'", 'src/consume/puller.ts (consume)'],
  ['src/task.ts', "export * from './api/tocsin.ts'", 'src/api/tocsin.ts (api)'],
  ['src/task.ts', "import './api/tocsin.ts'", 'src/api/tocsin.ts (api)'],
  ['src/task.ts', "const x = await import('./api/tocsin.ts')", 'src/api/tocsin.ts (api)'],
  ['src/task.ts', "type X = import('./api/tocsin.ts').Tocsin", 'src/api/tocsin.ts (api)'],
  ['src/timetable.ts', "import { x } from './timetables/memory/cell.ts'", '(timetables)'],
  ['src/telemetry/events.ts', "import { x } from '../consume/worker.ts'", '(consume)'],
  ['src/timetables/memory/cell.ts', "import { x } from '../../consume/puller.ts'", '(consume)'],
  ['src/timetables/redis/board.ts', "import { x } from '../../ledgers/sqlite/board.ts'", '(ledgers)'],
  ['src/ledgers/sqlite/ledger.ts', "import { x } from '../../store/loader.ts'", '(store)'],
  ['src/boards/node-list.ts', "import { x } from '../cluster/members.ts'", '(cluster)'],
  ['src/store/ledger-store.ts', "import { x } from '../ledgers/sqlite/open.ts'", '(ledgers)'],
  ['src/store/ledger-store.ts', "import { x } from '../consume/puller.ts'", '(consume)'],
  ['src/consume/puller.ts', "import { x } from '../timetables/memory/cell.ts'", '(timetables)'],
  ['src/consume/puller.ts', "import { x } from '../pull/http-pull.ts'", '(pull)'],
  ['src/consume/puller.ts', "import { x } from '../api/tocsin.ts'", '(api)'],
  ['src/cluster/members.ts', "import { x } from '../api/tocsin.ts'", '(api)'],
  ['src/api/tocsin.ts', "import { x } from '../testing/index.ts'", '(testing)'],
  ['src/api/tocsin.ts', "import { x } from '../server/serve.ts'", '(server)'],
  ['src/server/serve.ts', "import { x } from '../cli/main.ts'", '(cli)'],
  ['src/client/client.ts', "import { x } from '../server/serve.ts'", '(server)'],
  ['src/index.ts', "export { x } from './testing/virtual-clock.ts'", '(testing)'],
  ['src/testing/index.ts', "import { test } from 'vitest'", "imports 'vitest'"],
  ['src/task.ts', "import { x } from 'tocsin'", 'name the file'],
  ['src/task.ts', "import { x } from './task.test.ts'", 'nothing imports a test'],
  ['src/task.ts', "import { x } from '../bench/run.mjs'", 'in no layer'],
  ['src/elsewhere/file.ts', '', 'in no layer'],
  ['src/new-file-at-the-root.ts', '', 'in no layer'],
])('%s: %s', (path, source, message) => {
  expect(planted(path, source)).toEqual([expect.stringContaining(message)])
})

test.each([
  ['src/api/topic-definition.ts', "import { x } from '../task.ts'\nimport { createHash } from 'node:crypto'"],
  ['src/timetable.ts', "import type { Task } from './task.ts'"],
  [
    'src/timetables/memory/cell.ts',
    "import { x } from '../../lib/heap.ts'\nimport type { T } from '../../timetable.ts'",
  ],
  ['src/consume/puller.ts', "import type { T } from '../timetable.ts'"],
  [
    'src/api/tocsin.ts',
    "import { x } from '../consume/puller.ts'\nimport { y } from '../timetables/memory/cell.ts'",
  ],
  ['src/index.ts', "export { Tocsin } from './api/tocsin.ts'"],
  ['src/testing/index.ts', "export { x } from '../index.ts'\nimport { y } from '../clock.ts'"],
  ['src/task.test.ts', "import { test } from 'vitest'\nimport { x } from './testing/index.ts'"],
  ['src/task.ts', "// import { x } from './api/tocsin.ts'\n/*\nimport { x } from './api/tocsin.ts'\n*/"],
  ['src/task.ts', "const message = 'to import it, write from ./api/tocsin.ts'"],
])('free: %s: %s', (path, source) => expect(planted(path, source)).toEqual([]))

test('at most a dozen files are at the root of src', async () => {
  const root = Object.keys(await readOurs('src')).filter(
    (path) => /^src\/[^/]+$/.test(path) && !path.endsWith('.test.ts'),
  )
  expect(root.length).toBeLessThanOrEqual(12)
})

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
