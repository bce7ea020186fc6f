/** From the bytes of an answer to its lines, as they come. */

/** No line of ours comes near it; whoever sends one is somebody else. */
const LINE_LENGTH_MAX = 1_048_576

/** What follows the last line end is a line too, if there is anything. */
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
