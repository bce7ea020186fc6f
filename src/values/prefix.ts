/** The prefix of a Tocsin: instances with different prefixes share servers, and no tasks, settings or access tokens. */
import { describeValue } from '../errors.ts'
import { badOption } from './options.ts'

export const DEFAULT_PREFIX = 'toc'

/** Braces are not allowed: Redis Cluster would take them for a hash tag, which decides the node of a key. */
const PREFIX = /^[A-Za-z0-9._-]{1,64}$/

export function checkPrefix(prefix: unknown = DEFAULT_PREFIX): string {
  if (typeof prefix === 'string' && PREFIX.test(prefix)) return prefix
  throw badOption('prefix', `expected 1 to 64 letters, digits, '.', '_' or '-', got ${describeValue(prefix)}`)
}
