/** A mistake as a change of one place in a text. */
export interface Replacement {
  readonly name: string
  /** The file, as the list that has the mistake names it. */
  readonly file: string
  /** There exactly once, or the mistake is out of date. */
  readonly find: string
  readonly replace: string
}

/** Returns the text with the mistake in it. Throws if it cannot be planted: otherwise it would count as caught, or as missed. */
export function replaced(text: string, { name, file, find, replace }: Replacement): string {
  if (text.split(find).length !== 2)
    throw new Error(`'${name}' is out of date: ${file} does not have exactly one\n${find}`)
  return text.replace(find, () => replace)
}
