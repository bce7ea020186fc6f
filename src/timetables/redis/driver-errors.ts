/** Translates errors of Redis and of its driver into TocsinErrors. */
import { describeError, TocsinError } from '../../errors.ts'

/** Returns the TocsinError for an error reply: Redis did not run the command, or aborted the script of the call. */
export function replyError(reply: Error, operation = 'the call'): TocsinError {
  const [word = ''] = reply.message.split(' ', 1)
  // The script had started. Redis does not roll back the writes that the script made before the error.
  if (SCRIPT_ABORTED.test(reply.message) && !(word in REPLIES))
    return new TocsinError(
      'unknown-outcome',
      `${operation}: Redis aborted its script half-way (${textOf(reply)}). If its user lacks a permission, see docs/redis.md for the ACL`,
      { redis: word },
      reply,
    )
  const [code, advice] = REPLIES[word] ?? ['timetable-unavailable', 'Redis refused the call']
  return new TocsinError(code, `${advice} (Redis: ${textOf(reply)})`, { redis: word }, reply)
}

/** Matches the text with which Redis 7 marks an error inside a script. */
const SCRIPT_ABORTED = /script: [0-9a-f]{40}|user_script/

const REPLIES: Record<string, [code: ConstructorParameters<typeof TocsinError>[0], advice: string]> = {
  OOM: [
    'timetable-full',
    'Redis is at its maxmemory and takes no new tasks; running ones still finish. Give it more memory, or wait until some are done',
  ],
  NOAUTH: [
    'timetable-refused',
    'Redis requires a user name and a password, or a password alone; put them into the URL: redis://user:password@host, redis://:password@host',
  ],
  WRONGPASS: ['timetable-refused', 'Redis does not accept this user name or password'],
  NOPERM: [
    'timetable-refused',
    'this Redis user may not run a command that is needed; see docs/redis.md for its ACL',
  ],
  READONLY: ['timetable-unavailable', 'this Redis is a read-only replica; connect to the primary'],
  LOADING: ['timetable-unavailable', 'Redis is still loading its data'],
  MISCONF: [
    'timetable-unavailable',
    'Redis cannot save its data to disk and refuses writes; look at its disk and its log',
  ],
  BUSY: ['timetable-unavailable', 'Redis is busy with a long script'],
  CLUSTERDOWN: ['timetable-unavailable', 'the Redis Cluster is down; try again when it has recovered'],
  MASTERDOWN: ['timetable-unavailable', 'this replica has lost its primary; connect to the primary'],
  TRYAGAIN: ['timetable-unavailable', 'Redis Cluster is moving these keys; try again shortly'],
  MOVED: [
    'timetable-unavailable',
    'the nodes of the Redis Cluster disagree about which of them has these keys; try again shortly',
  ],
  ASK: ['timetable-unavailable', 'Redis Cluster is moving these keys; try again shortly'],
  TOCSINLATE: ['timetable-unavailable', 'the call reached Redis too late, so nothing was written; try again'],
  TOCSINFORMAT: [
    'timetable-refused',
    'this topic was written by a newer version of Tocsin; update this process',
  ],
}

/**
 * Returns the TocsinError for a call without a reply: 'unknown-outcome' if the call was sent and must not be repeated,
 * because it may have taken effect. Otherwise 'timetable-unavailable': the call was not sent, or may safely be
 * repeated. The connection itself never repeats a call.
 */
export function lostCallError(
  operation: string,
  wasSent: boolean,
  isRepeatable: boolean,
  cause: unknown,
): TocsinError {
  if (wasSent && !isRepeatable)
    return new TocsinError(
      'unknown-outcome',
      `${operation}: sent, but no answer came (${textOf(cause)}). It may have taken effect; look with get(), or schedule the same key again`,
      {},
      cause,
    )
  return new TocsinError(
    'timetable-unavailable',
    `${operation}: ${wasSent ? 'no answer from Redis' : 'no connection to Redis, so nothing was sent'} (${textOf(cause)})`,
    {},
    cause,
  )
}

/** Returns the TocsinError for a failed first connection. The message contains the reason and what to do. */
export function connectError(
  where: string,
  cause: unknown,
  server: 'Redis' | 'Sentinel' = 'Redis',
): TocsinError {
  const error = cause as { code?: unknown; message?: unknown } | null
  const code = typeof error?.code === 'string' ? error.code : ''
  const message = typeof error?.message === 'string' ? error.message : ''
  // Sentinel has no databases.
  if (message.startsWith("ERR unknown command 'SELECT'")) return sentinelError(where, cause)
  if (message.startsWith('ERR DB index is out of range'))
    return refusedError(
      `Redis at ${where} has no such database; use one of its numbers, usually 0 to 15`,
      cause,
    )
  if (/^ERR (AUTH|Client sent AUTH)/.test(message))
    return refusedError(`Redis at ${where} has no password set; leave it out of the URL`, cause)
  const [word = ''] = message.split(' ', 1)
  if (word in REPLIES) {
    const reply = replyError(cause as Error)
    return new TocsinError(reply.code, `at ${where}: ${reply.message}`, reply.details, cause)
  }
  if (/ALTNAME/.test(code))
    return refusedError(
      `the TLS certificate of ${server} at ${where} is for another name (${code}); connect by that name, or give it with redis({ url, tls: { servername } })`,
      cause,
    )
  if (/CERT|SELF_SIGNED|UNABLE_TO_|ERR_TLS|SSL|EPROTO/.test(code))
    return refusedError(
      `the TLS certificate of ${server} at ${where} cannot be trusted (${code}); give its authority with redis({ url, tls: { ca } })`,
      cause,
    )
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN')
    return unavailableError(`the host of ${where} has no address (${code}); check the URL`, cause)
  if (code === 'ECONNREFUSED')
    return unavailableError(`nothing listens at ${where} (ECONNREFUSED); is ${server} running there?`, cause)
  return unavailableError(
    `cannot connect to ${server} at ${where} (${textOf(cause)}). Is that a ${server}? A port with TLS needs rediss://, one without TLS needs redis://`,
    cause,
  )
}

export function refusedError(message: string, cause?: unknown): TocsinError {
  return new TocsinError('timetable-refused', message, { field: 'timetable' }, cause)
}

/** The error of a connection for Redis that reached a Sentinel. */
export function sentinelError(where: string, cause?: unknown): TocsinError {
  return refusedError(
    `what answers at ${where} is a Sentinel, not a Redis; write redis+sentinel://${where}/name, with the name of the primary in sentinel.conf`,
    cause,
  )
}

/** The error of a connection to a server that is not the primary any more. */
export function notPrimaryError(where: string): TocsinError {
  return unavailableError(
    `Redis at ${where} is not the primary: a failover is under way, or the Sentinels are not up to date. Try again; if this lasts, ask the Sentinels: SENTINEL MASTERS`,
  )
}

export function unavailableError(message: string, cause?: unknown): TocsinError {
  return new TocsinError('timetable-unavailable', message, { field: 'timetable' }, cause)
}

function textOf(cause: unknown): string {
  return describeError(cause).replace(/^\w*Error: /, '')
}
