/** Splits the chunks of a body into batches of lines, in constant memory. */
import { BATCH_MAX } from '../lib/batch-max.ts'
import { isUtf8 } from 'node:buffer'

export interface Line {
  /** The line number, starting at 1. Empty lines count. */
  readonly number: number
  /** The text without the line end; null if the line has a problem. */
  readonly text: string | null
  readonly problem: 'not-utf8' | 'too-long' | null
}

const NEWLINE = 0x0a
const RETURN = 0x0d

/** Yields batches of lines as they arrive. Empty lines are counted but not yielded. */
export async function* linesOf(
  body: AsyncIterable<Buffer>,
  lineBytesMax: number,
): AsyncGenerator<readonly Line[]> {
  const reader = new LineReader(lineBytesMax)
  for await (const chunk of body) yield* batchesOf(reader.take(chunk))
  yield* batchesOf(reader.end())
}

class LineReader {
  readonly #lineBytesMax: number
  #number = 0
  /**
   * The start of a line whose end has not arrived yet. If the line becomes too long, its bytes are dropped, but its
   * length is still counted.
   */
  #rest: Buffer[] = []
  #restBytes = 0

  constructor(lineBytesMax: number) {
    this.#lineBytesMax = lineBytesMax
  }

  /** Returns the lines that end in this chunk. */
  take(chunk: Buffer): Line[] {
    const last = chunk.lastIndexOf(NEWLINE)
    if (last === -1) {
      this.#keep(chunk)
      return []
    }
    const lines: Line[] = []
    let from = 0
    if (this.#restBytes > 0) {
      const end = chunk.indexOf(NEWLINE)
      this.#keep(chunk.subarray(0, end))
      this.#pushRest(lines)
      from = end + 1
    }
    if (from <= last) this.#pushAll(lines, chunk.subarray(from, last))
    this.#keep(chunk.subarray(last + 1))
    return lines
  }

  /** Returns the last line, if the body does not end with a line end. */
  end(): Line[] {
    const lines: Line[] = []
    if (this.#restBytes > 0) this.#pushRest(lines)
    return lines
  }

  #keep(bytes: Buffer): void {
    this.#restBytes += bytes.length
    if (this.#restBytes > this.#lineBytesMax) this.#rest = []
    else if (bytes.length > 0) this.#rest.push(bytes)
  }

  #pushRest(lines: Line[]): void {
    if (this.#restBytes > this.#lineBytesMax) this.#pushProblem(lines, 'too-long')
    else this.#push(lines, Buffer.concat(this.#rest))
    this.#rest = []
    this.#restBytes = 0
  }

  /**
   * Decodes the whole block at once if it is valid UTF-8 and too short to have a line over the limit. Otherwise decodes
   * line by line, to find the lines with a problem.
   */
  #pushAll(lines: Line[], block: Buffer): void {
    if (block.length <= this.#lineBytesMax && isUtf8(block)) {
      for (const text of block.toString('utf8').split('\n')) this.#pushText(lines, text)
      return
    }
    for (let at = 0; at <= block.length;) {
      const found = block.indexOf(NEWLINE, at)
      const end = found === -1 ? block.length : found
      this.#push(lines, block.subarray(at, end))
      at = end + 1
    }
  }

  #push(lines: Line[], line: Buffer): void {
    if (line.length > this.#lineBytesMax) this.#pushProblem(lines, 'too-long')
    else if (isUtf8(line)) this.#pushText(lines, line.toString('utf8'))
    else this.#pushProblem(lines, 'not-utf8')
  }

  #pushText(lines: Line[], text: string): void {
    this.#number++
    const isWindows = text.charCodeAt(text.length - 1) === RETURN
    if (text.length > (isWindows ? 1 : 0))
      lines.push({ number: this.#number, text: isWindows ? text.slice(0, -1) : text, problem: null })
  }

  #pushProblem(lines: Line[], problem: 'not-utf8' | 'too-long'): void {
    lines.push({ number: ++this.#number, text: null, problem })
  }
}

function* batchesOf(lines: readonly Line[]): Generator<readonly Line[]> {
  for (let at = 0; at < lines.length; at += BATCH_MAX) yield lines.slice(at, at + BATCH_MAX)
}
