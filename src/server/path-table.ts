import type { Scope } from '../values/access-token.ts'

/** A path of the API with all its methods. */
export interface KnownPath {
  /** The methods that the path accepts, as the header `Allow` lists them. */
  readonly allow: string
  /** True if no method of this path needs a token. */
  readonly isPublic: boolean
}

interface Entry {
  readonly segments: readonly string[]
  readonly methods: Set<string>
  isPublic: boolean
}

/** Distinguishes a path that does not exist (404) from a method that a path does not accept (405). */
export class PathTable {
  readonly #entries = new Map<string, Entry>()

  /** Adds a route. `url` is a template such as '/v1/topics/:topic'. */
  add(method: string, url: string, scope: Scope | null): void {
    const entry = this.#entries.get(url) ?? {
      segments: url.split('/'),
      methods: new Set<string>(),
      isPublic: true,
    }
    this.#entries.set(url, entry)
    entry.methods.add(method)
    entry.isPublic &&= scope === null
  }

  /** Finds the path of a URL. Returns null if no route has this path. */
  find(url: string): KnownPath | null {
    const segments = decoded(url)?.split('/') ?? []
    for (const entry of this.#entries.values())
      if (isMatch(entry.segments, segments))
        return { allow: [...[...entry.methods].toSorted(), 'OPTIONS'].join(', '), isPublic: entry.isPublic }
    return null
  }
}

function isMatch(template: readonly string[], segments: readonly string[]): boolean {
  return (
    template.length === segments.length &&
    template.every((part, i) => part.startsWith(':') || part === segments[i])
  )
}

/**
 * Decodes a path as the router does: `%2F` does not separate segments. Returns null if the path is not percent-encoded
 * UTF-8.
 */
function decoded(url: string): string | null {
  try {
    return decodeURI(url.split('?')[0] ?? '')
  } catch {
    return null
  }
}
