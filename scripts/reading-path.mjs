// Writes the reading path, with true line counts, into README.md: `npm run docs`. A test holds them equal.
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The heart of the engine, in the order in which it is best read. */
const PATH = [
  ['src/task.ts', 'the vocabulary, and the life of a task drawn'],
  ['src/timetable.ts', 'the port: what a timetable promises'],
  ['src/values/cell.ts', 'where a task lives'],
  ['src/timetables/memory/cell.ts', 'every transition, in process'],
  ['src/timetables/memory/lanes.ts', 'what waits, in order'],
  ['src/timetables/memory/claims.ts', 'what is held, and until when'],
  ['src/consume/puller.ts', 'sleeps until the next ring, claims, hands over'],
  ['src/consume/consumer.ts', 'the path from due to settled, drawn'],
  ['src/consume/capacity.ts', 'how much to claim'],
  ['src/consume/gatherer.ts', 'collects the tasks of many claims into batches'],
  ['src/consume/worker.ts', 'from a claimed task to its verdict'],
  ['src/consume/held-tasks.ts', 'keeps leases, decides outcomes'],
  ['src/consume/settler.ts', 'records outcomes in batches'],
  ['src/consume/renewer.ts', 'extends leases'],
  ['src/ledger.ts', 'the port: what a ledger promises'],
  ['src/store/ledger-store.ts', 'the timetable rings, the ledger decides'],
  ['src/api/topic-handle.ts', 'what `toc.topic(…)` returns'],
  ['src/api/tocsin.ts', 'the front door'],
]

const root = new URL('../', import.meta.url)
const SECTION = /(<!-- reading path -->\n)[\s\S]*?(<!-- \/reading path -->)/

export function withReadingPath(readme) {
  const rows = PATH.map(([file, what]) => {
    const lines = readFileSync(new URL(file, root), 'utf8').split('\n').length - 1
    return { lines, text: `| [${file}](${file}) | ${lines} | ${what} |` }
  })
  const total = rows.reduce((sum, { lines }) => sum + lines, 0).toLocaleString('en')
  const table = [
    '| file | lines | what it is |',
    '|---|---|---|',
    ...rows.map(({ text }) => text),
    `| | **${total}** | |`,
  ]
  return readme.replace(SECTION, `$1${table.join('\n')}\n$2`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const readme = new URL('README.md', root)
  writeFileSync(readme, withReadingPath(readFileSync(readme, 'utf8')))
}
