import { describeError } from '../errors.ts'

/** A logger like pino or bunyan. Its methods take the fields first, then the message. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

const noop = () => {}

export const silentLogger: Logger = { debug: noop, info: noop, warn: noop, error: noop }

/** The default logger. Prints warnings and errors on standard error, one line each. */
export const plainLogger: Logger = {
  debug: noop,
  info: noop,
  warn: (fields, message) => print('warn', fields, message),
  error: (fields, message) => print('error', fields, message),
}

function print(level: string, fields: object, message: string): void {
  const { stack, ...others } = fields as { stack?: string }
  const plain = Object.entries(others).map(([name, value]) => [
    name,
    isPlain(value) ? value : describeError(value),
  ])
  const trace = stack === undefined ? '' : `\n${stack}`
  process.stderr.write(`tocsin ${level}: ${message} ${JSON.stringify(Object.fromEntries(plain))}${trace}\n`)
}

function isPlain(value: unknown): boolean {
  return value === null || ['string', 'number', 'boolean', 'undefined'].includes(typeof value)
}
