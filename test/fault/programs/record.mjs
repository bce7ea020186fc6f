/** What every program here begins with: what it was asked for, and a file with a line for each thing that happens. */
import { openSync, writeSync } from 'node:fs'

export const options = JSON.parse(process.argv[2])

const file = openSync(options.records, 'a')
// Where the clock was shifted, the shifter keeps the machine's.
const machineNow = globalThis.machineNow ?? Date.now

/** In the system's hands when this returns: a kill in the next moment does not take it along. */
export function record(event, fields = {}) {
  writeSync(file, `${JSON.stringify({ event, nowMs: machineNow(), ...fields })}\n`)
}

export function recordError(event, error, fields = {}) {
  const { code, retryable, message } = error
  record(event, { ...fields, code: code ?? null, retryable: retryable ?? null, message: String(message) })
}

const log = (level) => (_, message) => record('log', { level, message })
export const logger = { debug: log('debug'), info: log('info'), warn: log('warn'), error: log('error') }

process.on('unhandledRejection', (error) => recordError('unhandled', error))
process.on('uncaughtException', (error) => {
  recordError('unhandled', error)
  process.exit(1)
})
