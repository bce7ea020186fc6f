/** What the disk gives: how often in a second 4 KiB can be written and waited for. */
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'

const BLOCK = Buffer.alloc(4_096, 'x')
const FOR_MS = 1_000

export const how = 'append 4 KiB and fdatasync, one after the other, for a second'

export function syncsPerSecond(folder) {
  const file = openSync(join(folder, 'syncs'), 'w')
  const startedMs = performance.now()
  let syncs = 0
  for (; performance.now() - startedMs < FOR_MS; syncs++) {
    writeSync(file, BLOCK)
    fdatasyncSync(file)
  }
  const tookMs = performance.now() - startedMs
  closeSync(file)
  return (syncs * 1000) / tookMs
}
