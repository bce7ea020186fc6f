/** Loaded before the command: writes down with which code it ended, which a guarded child cannot tell. */
import { writeFileSync } from 'node:fs'

process.on('exit', (code) => writeFileSync('exit-code', String(code)))
