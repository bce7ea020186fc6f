/** Pronouns that hide the actor, also inside identifiers. Write caller, process, consumer, lease holder, server, client. */
const VAGUE = /somebody|nobody|whoever|anybody/i

/** Returns the lines with such a word, as `path:line: text`. */
export function vagueLines(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, text]) =>
    text.split('\n').flatMap((line, n) => (VAGUE.test(line) ? [`${path}:${n + 1}: ${line.trim()}`] : [])),
  )
}
