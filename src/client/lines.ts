/** Splits the bytes of an answer into lines while they arrive. */

/** The maximum length of a line. Tocsin sends far shorter lines, so a longer line is from another server. */
const LINE_LENGTH_MAX = 1_048_576

/** Yields each line. Text after the last line end is a line, too, unless it is empty. */
export async function* linesOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const bytes of body) {
    rest += decoder.decode(bytes, { stream: true })
    const lines = rest.split('\n')
    rest = lines.pop() ?? ''
    if (rest.length > LINE_LENGTH_MAX) throw new Error(`a line of more than ${LINE_LENGTH_MAX} characters`)
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
  }
  rest += decoder.decode()
  if (rest !== '') yield rest
}
