import { describe, expect, it } from 'vitest'
import { read } from './markdown.ts'

/** The heart of the engine, in the order in which it is best read. */
const PATH: [file: string, what: string][] = [
  ['src/task.ts', 'the vocabulary, and the life of a task drawn'],
  ['src/timetable.ts', 'the port: what a timetable promises'],
  ['src/cell.ts', 'where a task lives'],
  ['src/timetables/memory/cell.ts', 'every transition, in process'],
  ['src/timetables/memory/lanes.ts', 'what waits, in order'],
  ['src/timetables/memory/claims.ts', 'what is held, and until when'],
  ['src/runtime/puller.ts', 'sleeps until the next ring, claims, hands over'],
  ['src/runtime/consumer.ts', 'what a handler is wrapped in'],
  ['src/runtime/room.ts', 'how much to claim'],
  ['src/runtime/worker.ts', 'from a claimed task to its outcome'],
  ['src/runtime/settler.ts', 'records outcomes, many at a time'],
  ['src/runtime/renewer.ts', 'keeps leases'],
  ['src/topic-handle.ts', 'what `toc.topic(…)` returns'],
  ['src/tocsin.ts', 'the front door'],
]

const linesOf = (file: string) => read(file).split('\n').length - 1

describe('the reading path in the README', () => {
  it('names the files with their true line counts', () => {
    const rows = PATH.map(([file, what]) => `| [${file}](${file}) | ${linesOf(file)} | ${what} |`)
    const total = PATH.reduce((sum, [file]) => sum + linesOf(file), 0)
    const table = ['| file | lines | what it is |', '|---|---|---|', ...rows, `| | **${total}** | |`].join(
      '\n',
    )
    const shown = /<!-- reading path -->\n([\s\S]*?)\n?<!-- \/reading path -->/.exec(read('README.md'))?.[1]
    // When this is red, paste the expected table.
    expect(shown).toBe(table)
  })
})
