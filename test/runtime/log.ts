import type { Logger } from '../../src/telemetry/logger.ts'

/** Records what the default logger prints: warnings and errors. */
export class Log implements Logger {
  readonly lines: string[] = []

  debug(): void {}

  info(): void {}

  warn(_: object, message: string): void {
    this.lines.push(message)
  }

  error(_: object, message: string): void {
    this.lines.push(message)
  }

  /** The first word of each line: 'degraded', 'recovered'. */
  words(): string[] {
    return this.lines.map((line) => line.split(':', 1)[0] as string)
  }
}
