/** How a command ends, for scripts: 0 as asked · 1 failed · 2 usage · 3 answered, but not as asked · 4 not reachable, try again. */
import { CommanderError } from 'commander'
import { type ErrorCode, TocsinError } from '../errors.ts'

export const EXIT = { ok: 0, failed: 1, usage: 2, otherwise: 3, unreachable: 4 } as const
export type ExitCode = (typeof EXIT)[keyof typeof EXIT]

const ANSWERED_OTHERWISE: ReadonlySet<ErrorCode> = new Set([
  'not-found',
  'in-flight',
  'unknown-topic',
  'version-conflict',
])

export function exitCodeOf(error: unknown): ExitCode {
  // Help and version are asked for, and end so; whatever else the parser says is about how it was called.
  if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage
  if (!TocsinError.is(error)) return EXIT.failed
  if (ANSWERED_OTHERWISE.has(error.code)) return EXIT.otherwise
  if (error.retryable) return EXIT.unreachable
  return error.code.startsWith('bad-') || error.code === 'unsupported' ? EXIT.usage : EXIT.failed
}
