/**
 * Opens the file once `gate` exists, records the outcome, and keeps the file open until the process is ended.
 *
 *   withoutRoot   gives up the rights of root first: to root no file is read-only
 */
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { Tocsin } from 'tocsin'
import { options, record, recordError } from '../record.mjs'
import { openEmbedded } from './open.mjs'

/** The uid and gid of `nobody` on Linux. They need no entry in /etc/passwd. */
const NO_RIGHTS_ID = 65_534

// Loads every module that opening a file imports, including those that are imported late. From here on the process does
// not read the repository, which may lie in a folder that only root can enter; and no opener wins the file only because
// its code was loaded sooner.
const warmUpFile = join(dirname(options.records), 'warm-up.db')
const warmUp = await Tocsin.open({ ledger: `sqlite:${warmUpFile}`, logger: false })
await warmUp.close()

if (options.withoutRoot && process.getuid() === 0) {
  process.setgroups([])
  process.setegid(NO_RIGHTS_ID)
  process.seteuid(NO_RIGHTS_ID)
}
record('ready')
while (options.gate !== undefined && !existsSync(options.gate));
try {
  const toc = await openEmbedded()
  record('outcome', { code: 'opened' })
  process.once('SIGTERM', () => {
    void toc.close().then(() => record('closed'))
  })
} catch (error) {
  recordError('outcome', error)
}
// Keeps the process alive until it is ended.
setInterval(() => {}, 1_000)
