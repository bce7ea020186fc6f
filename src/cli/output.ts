/**
 * The output of commands. Answers go to standard output, as tables or as JSON. Text that is only for people goes to
 * standard error, so that a pipe receives only the answer.
 */
import { describeError, TocsinError } from '../errors.ts'

export interface Column<T> {
  readonly title: string
  readonly of: (row: T) => string | number
}

type Write = (text: string) => unknown

const GAP = '  '
const UNEXPECTED = { code: 'internal', details: {}, retryable: false } as const

export class Output {
  readonly #isJson: boolean
  readonly #answer: Write
  readonly #aside: Write

  constructor(
    isJson: boolean,
    answer: Write = (text) => process.stdout.write(text),
    aside: Write = (text) => process.stderr.write(text),
  ) {
    this.#isJson = isJson
    this.#answer = answer
    this.#aside = aside
  }

  /** Prints one line of JSON per row, or an aligned table. For an empty table, prints `none` on standard error. */
  list<T>(rows: readonly T[], columns: readonly Column<T>[], none: string): void {
    if (this.#isJson) for (const row of rows) this.#json(row)
    else if (rows.length === 0) this.hint(none)
    else this.#answer(table(rows, columns))
  }

  /** Prints the whole value as JSON, or `line` for people. */
  one(value: object, line: string): void {
    if (this.#isJson) this.#json(value)
    else this.#answer(`${line}\n`)
  }

  /** Prints a text for people on standard error. */
  hint(text: string): void {
    this.#aside(`${text}\n`)
  }

  /** Prints a text for people. Prints nothing if the answer is JSON, because the JSON contains the same information. */
  explain(text: string): void {
    if (!this.#isJson) this.hint(text)
  }

  /** Prints the state of a command that keeps running, as JSON on standard output or as text on standard error. */
  announce(value: object, text: string): void {
    if (this.#isJson) this.#json(value)
    else this.hint(text)
  }

  error(error: unknown): void {
    const { code, details, retryable } = TocsinError.is(error) ? error : UNEXPECTED
    const message = printable(error instanceof Error ? error.message : describeError(error))
    if (this.#isJson) this.#aside(`${JSON.stringify({ error: { code, message, retryable, ...details } })}\n`)
    else this.#aside(`tocsin: ${message} (${code})\n`)
  }

  #json(value: unknown): void {
    this.#answer(`${JSON.stringify(value)}\n`)
  }
}

function table<T>(rows: readonly T[], columns: readonly Column<T>[]): string {
  const cells = rows.map((row) => columns.map(({ of }) => of(row)))
  const texts = [
    columns.map(({ title }) => title),
    ...cells.map((line) => line.map((cell) => printable(String(cell)))),
  ]
  const widths = columns.map((_, i) => Math.max(...texts.map((line) => lengthOf(line[i] ?? ''))))
  // Columns of numbers are right-aligned.
  const isNumeric = columns.map((_, i) => cells.every((line) => typeof line[i] === 'number'))
  const pad = (text: string, i: number) => {
    const space = ' '.repeat((widths[i] ?? 0) - lengthOf(text))
    return isNumeric[i] === true ? space + text : text + space
  }
  return texts.map((line) => `${line.map(pad).join(GAP).trimEnd()}\n`).join('')
}

function lengthOf(text: string): number {
  return Array.from(text).length
}

/** Escapes control characters, because text from the server must not control the terminal. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}]/gu, (c) =>
    c === '\n' ? ' ' : `\\u{${c.codePointAt(0)?.toString(16)}}`,
  )
}
