/**
 * The exit codes: 0 done, 1 failed, 2 usage error, 3 not applied (not found, in flight, version conflict), 4
 * unreachable, or another error that a retry may solve.
 */
import { CommanderError } from 'commander'
import { type ErrorCode, TocsinError } from '../errors.ts'

export const EXIT = { ok: 0, failed: 1, usage: 2, notApplied: 3, unreachable: 4 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const NOT_APPLIED: ReadonlySet<ErrorCode> = new Set([
  'not-found',
  'in-flight',
  'unknown-topic',
  'version-conflict',
])

export function exitCodeOf(error: unknown): ExitCode {
  // --help and --version exit with 0. Any other error of the parser is a usage error.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  if (!TocsinError.is(error)) return EXIT.failed
  if (NOT_APPLIED.has(error.code)) return EXIT.notApplied
  if (error.retryable) return EXIT.unreachable
  return error.code.startsWith('bad-') || error.code === 'unsupported' ? EXIT.usage : EXIT.failed
}
