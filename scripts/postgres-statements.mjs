/**
 * `npm run docs` writes the SQL of the PostgreSQL ledger, as it is sent, into src/ledgers/postgres/statements.sql. A test
 * holds them equal.
 */
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { bootstrap, root } from './bootstrap.mjs'

export const STATEMENTS_FILE = 'src/ledgers/postgres/statements.sql'

const WIDTH = 118

/** The file's text. `groups`: the STATEMENTS of src/ledgers/postgres/statements/all.ts. */
export function renderStatements(groups) {
  const all = Object.entries(groups).flatMap(([group, statements]) =>
    Object.entries(statements).map(([name, statement]) => ({
      name: `${group}_${snakeCase(name)}`,
      ...statement,
    })),
  )
  return `${[headerOf(all), ...all.map(preparedFrom)].join('\n\n')}\n`
}

function headerOf(all) {
  const widest = Math.max(...all.map(({ name }) => name.length))
  return [
    ...commented('Every statement that the PostgreSQL ledger sends, as it is sent. Generated: npm run docs.'),
    '--',
    ...commented(
      'Each is a PREPARE, to be pasted into psql on a database that has a ledger: then EXECUTE it, or EXPLAIN EXECUTE it. Begin with BEGIN, and end with ROLLBACK, to change nothing. Arrays have one element per task. Instants are Unix milliseconds.',
    ),
    '--',
    ...commented(
      'Where the role may create functions, write_schedule, write_claim and write_finish are sent as calls of functions with this text (prepared-steps.ts). Not here: BEGIN, COMMIT, ROLLBACK, LISTEN, and what creates the tables (migrations.ts) and the SQL functions (sql-functions.ts).',
    ),
    '--',
    ...all.map(({ name, sentBy }) => `-- ${name.padEnd(widest)}  ${sentBy}`),
  ].join('\n')
}

function preparedFrom({ name, does, sentBy, takes, returns, text }) {
  const width = (column) => Math.max(0, ...takes.map((parameter) => parameter[column].length))
  const types = takes.length === 0 ? '' : ` (${takes.map(({ type }) => type).join(', ')})`
  return [
    `-- ${name}`,
    ...commented(does),
    ...commented(`Sent by: ${sentBy}`),
    ...takes.map(({ name: parameter, type, means }, i) =>
      `--   ${`$${i + 1}`.padEnd(3)} ${parameter.padEnd(width('name'))}  ${type.padEnd(width('type'))}  ${means}`.trimEnd(),
    ),
    ...commented(`Returns: ${returns}`),
    `PREPARE ${name}${types} AS`,
    `${text
      .split('\n')
      .map((line) => line.trimEnd())
      .filter((line) => line !== '')
      .join('\n')};`,
  ].join('\n')
}

/** Lines of a comment, wrapped. */
function commented(text) {
  const lines = ['--']
  for (const word of text.split(' ')) {
    if (lines.at(-1).length + 1 + word.length > WIDTH) lines.push('--')
    lines.push(`${lines.pop()} ${word}`)
  }
  return lines
}

function snakeCase(name) {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url) && (await bootstrap({ build: true }))) {
  const { STATEMENTS } = await import('../dist/ledgers/postgres/statements/all.js')
  await writeFile(join(root, STATEMENTS_FILE), renderStatements(STATEMENTS))
}
