/**
 * Opens the file when `gate` is there, says how that went, and keeps it until it is ended.
 *
 *   asNobody   without the rights of root, to whom no file is read-only
 */
import { existsSync } from 'node:fs'
import { openEmbedded } from './open.mjs'
import { options, record, recordError } from '../record.mjs'

const NOBODY = 65_534

// Loaded now: what opens the file is not held up by reading code, and needs no rights to read it.
await import('tocsin')
await import(new URL('../../../../dist/ledgers/sqlite/open.js', import.meta.url).href)
await import(new URL('../../../../dist/ledgers/sqlite/options.js', import.meta.url).href)
if (options.preopen) {
  const { default: Database } = await import('better-sqlite3')
  new Database(':memory:').close()
}
if (options.asNobody && process.getuid() === 0) {
  process.setegid(NOBODY)
  process.seteuid(NOBODY)
}
record('ready')
while (options.gate !== undefined && !existsSync(options.gate));
try {
  const toc = await openEmbedded()
  record('outcome', { code: 'opened' })
  process.once('SIGTERM', () => {
    void toc.close().then(() => record('closed'))
  })
  // Until then.
  setInterval(() => {}, 1_000)
} catch (error) {
  recordError('outcome', error)
  setInterval(() => {}, 1_000)
}
