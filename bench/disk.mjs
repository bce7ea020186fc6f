/** Measures the disk: how many times per second 4 KiB can be written and synced. */
import { closeSync, fdatasyncSync, openSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { inFolder } from './places.mjs'
import { figureText, median } from './report.mjs'

const BLOCK = Buffer.alloc(4_096, 'x')
const FOR_MS = 1_000
const HOW = 'append 4 KiB and fdatasync, one after the other, for a second'

/** A step of a plan that measures the disk once in each run, and a note with the result. */
export function turnOfDisk() {
  const syncs = []
  return {
    figure: { id: 'fdatasync', rows: [] },
    series: 'the disk',
    measure: async () => {
      syncs.push(await inFolder(syncsPerSecond))
      return {}
    },
    note: () => {
      const all = syncs.map(figureText).join(', ')
      return `The disk: ${figureText(median(syncs))} syncs/s (${HOW}; the single runs: ${all}).`
    },
  }
}

function syncsPerSecond(folder) {
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
