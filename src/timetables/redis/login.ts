/** Checks of logins and certificates, which are the same for Redis and for Sentinels. */
import { badOption, checkOptions } from '../../values/options.ts'
import type { RedisTls } from './options.ts'

const TLS_FIELDS = ['ca', 'cert', 'key', 'servername']

/** Decodes a part of a URL. */
export function decoded(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    throw badOption(
      'url',
      'its user name or password is not percent-encoded; write % as %25, @ as %40, / as %2F',
    )
  }
}

/** Checks that a value is text. The error message does not contain the value, which may be a password. */
export function text(value: unknown, field: string): string | undefined {
  if (value === undefined || typeof value === 'string') return value
  throw badOption(field, 'expected text')
}

/** Returns the part of the client's options that logs in. */
export function loginOf(username: string, password: string): object {
  return { ...(username === '' ? {} : { username }), ...(password === '' ? {} : { password }) }
}

export function checkTls(tls: RedisTls, field: string): void {
  checkOptions(tls, TLS_FIELDS, field)
}

/** Returns the part of the client's socket options that encrypts. */
export function encrypted(tls: RedisTls = {}): object {
  return { tls: true, ...Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined)) }
}
