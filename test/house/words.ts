/** Pronouns that hide the actor, also inside identifiers. Write caller, process, consumer, lease holder, server, client. */
const VAGUE = /somebody|nobody|whoever|anybody/i

/** Returns the lines with such a word, as `path:line: text`. */
export function vagueLines(files: ReadonlyMap<string, string>): string[] {
  return [...files].flatMap(([path, text]) =>
    text.split('\n').flatMap((line, n) => (VAGUE.test(line) ? [`${path}:${n + 1}: ${line.trim()}`] : [])),
  )
}

/** The folder that a line of `vagueLines` counts for: `docs`, `src` for its own files, `src/<room>`, or the file itself. */
export function folderOf(line: string): string {
  const [first = '', room = '', ...rest] = line.slice(0, line.indexOf(':')).split('/')
  return first === 'src' && rest.length > 0 ? `${first}/${room}` : first
}
