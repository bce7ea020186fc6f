/** The schema of PostgreSQL in which a ledger has its tables and functions. */
import { describeValue } from '../../errors.ts'
import { badOption } from '../../values/options.ts'
import { DEFAULT_PREFIX } from '../../values/prefix.ts'

const DEFAULT_NAME = 'tocsin'

/**
 * The maximum length of a name. PostgreSQL shortens a longer name without an error, so two long names could be the same
 * schema.
 */
const NAME_LENGTH_MAX = 63
/** The name is put into SQL, in quotes, so it must not contain a quote. */
const NAME = /^[A-Za-z0-9._-]+$/
/** Schemas that PostgreSQL or all programs use. */
const TAKEN = /^(pg_.*|information_schema|public)$/

/**
 * Matches the name of the default schema in SQL: as a literal ('tocsin', the channel of NOTIFY) or as an identifier.
 * Does not match the dollar quotes of function bodies ($tocsin$).
 */
const WRITTEN_NAME = /'tocsin'|(?<!\$)\btocsin\b(?!\$)/g

/**
 * All SQL of the ledger is written for the schema 'tocsin'. A ledger in another schema sends the same SQL with the other
 * name. The name is part of each statement, and no search_path is set: a statement also runs in callers' transactions,
 * and behind poolers, where a setting of the connection would be wrong or lost.
 */
export class Schema {
  readonly name: string
  readonly isDefault: boolean
  /** The prefix that determines the name. Null if an option names the schema. */
  readonly prefix: string | null
  /** The texts for this schema, by the text for the default schema. */
  readonly #texts = new Map<string, string>()

  constructor(name: string, prefix: string | null = null) {
    this.name = name
    this.prefix = prefix
    this.isDefault = name === DEFAULT_NAME
  }

  /** The name as an identifier of SQL. */
  get quoted(): string {
    return `"${this.name}"`
  }

  /** Returns a text of SQL for this schema. The number of different texts is small, so they are cached. */
  sql(text: string): string {
    if (this.isDefault) return text
    let own = this.#texts.get(text)
    if (own === undefined) {
      own = text.replaceAll(WRITTEN_NAME, (found) => (found.startsWith("'") ? `'${this.name}'` : this.quoted))
      this.#texts.set(text, own)
    }
    return own
  }
}

/**
 * Returns the schema that the options ask for by name, or the schema of the prefix. A name and a prefix together are
 * refused: two programs with one schema and two prefixes would share all tasks.
 */
export function schemaOf(name: unknown, prefix: string): Schema {
  if (name === undefined) return schemaOfPrefix(prefix)
  if (prefix !== DEFAULT_PREFIX)
    throw badOption('schema', `the prefix '${prefix}' has a schema of its own; leave one of the two out`)
  if (typeof name !== 'string' || !NAME.test(name) || name.length > NAME_LENGTH_MAX)
    throw badOption(
      'schema',
      `expected 1 to ${NAME_LENGTH_MAX} letters, digits, '.', '_' or '-', got ${describeValue(name)}`,
    )
  // 'public' is refused, too: a URL made for Prisma ends with '?schema=public', and does not mean Tocsin's tables.
  if (TAKEN.test(name))
    throw badOption('schema', `'${name}' has other tables; leave it out, or name a schema for Tocsin alone`)
  return new Schema(name)
}

function schemaOfPrefix(prefix: string): Schema {
  if (prefix === DEFAULT_PREFIX) return new Schema(DEFAULT_NAME, prefix)
  const name = `${DEFAULT_NAME}_${prefix}`
  if (name.length <= NAME_LENGTH_MAX) return new Schema(name, prefix)
  throw badOption(
    'prefix',
    `with PostgreSQL, at most ${NAME_LENGTH_MAX - DEFAULT_NAME.length - 1} characters: it names the schema`,
  )
}
