/**
 * Power loss, as far as a running machine can show it: of the write-ahead log, only what was there when a call was
 * acknowledged is left; what follows is gone, torn, or garbage. The index of the log (-shm) is memory, and gone.
 */
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { copyFileSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Tocsin } from 'tocsin'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../../src/ledgers/sqlite/connect.ts'
import { spawnGuarded } from '../../real-servers/guarded-child.ts'
import type { LifeEntry } from './history.ts'
import { startLife, temporaryFolder, TOPIC } from './life.ts'
import { eventually } from '../helpers.ts'
import { Program } from '../program.ts'

const HOUR_MS = 3_600_000
const ANSWERS = 300
/** A frame of the log: its header and a page. */
const FRAME_HEADER_BYTES = 24
const PAGE_BYTES = 4_096
/** By then it would have been moved into the file, and cutting it would show nothing. */
const WAL_BYTES_MAX = 3_500 * (FRAME_HEADER_BYTES + PAGE_BYTES)
/** Moments at which the power goes. */
const MOMENTS = [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 1]

type Wanted = ReadonlyMap<string, ReadonlySet<string>>

const folder = temporaryFolder()
const path = join(folder.path, 't.db')
let entries: LifeEntry[]
let wal: Buffer
let acknowledged: LifeEntry[]

beforeAll(async () => {
  await using program = await startLife({ path, farMs: HOUR_MS, lanes: 4 })
  await program.untilCount('answer', ANSWERS)
  await program.kill()
  entries = program.entries() as LifeEntry[]
  acknowledged = entries.filter(({ event }) => event === 'answer')
  wal = readFileSync(`${path}-wal`)
})
afterAll(() => folder[Symbol.dispose]())

/** What each key may be, when everything up to an acknowledgement is there for sure, and what follows perhaps. */
function wantedAt(last: LifeEntry): Wanted {
  const wanted = new Map<string, Set<string>>()
  let isSure = true
  for (const entry of entries) {
    const { event, key, name, v } = entry
    const state = name === 'cancel' ? 'cancelled' : `pending ${v}`
    if (event === 'answer' && isSure) wanted.set(key, new Set([state]))
    // Called, and perhaps carried out, although the call was not answered before the power failed.
    if (event === 'call') wanted.set(key, (wanted.get(key) ?? new Set(['none'])).add(state))
    if (entry === last) isSure = false
  }
  return wanted
}

async function stateOf(toc: Tocsin, key: string): Promise<string> {
  const info = await toc.topic<{ v: number }>(TOPIC).get(key)
  if (info === null) return 'none'
  return info.state === 'pending' ? `pending ${info.payload.v}` : info.state
}

/** Opens what is left after the power went, and answers what is missing of what was acknowledged. */
async function missing(name: string, left: Buffer, wanted: Wanted): Promise<string[]> {
  const copy = join(folder.path, `${name}.db`)
  copyFileSync(path, copy)
  writeFileSync(`${copy}-wal`, left)
  const toc = await Tocsin.open({ ledger: `sqlite:${copy}`, logger: false })
  try {
    const wrong: string[] = []
    for (const [key, states] of wanted) {
      const state = await stateOf(toc, key)
      if (!states.has(state)) wrong.push(`${key}: ${state}, not ${[...states].join(' or ')}`)
    }
    await toc.topic(TOPIC).schedule({ key: 'afterwards', delay: '1h', payload: null })
    expect(await toc.topic(TOPIC).get('afterwards')).toMatchObject({ state: 'pending' })
    expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true }])
    return wrong
  } finally {
    await toc.close()
  }
}

describe('the power goes', () => {
  test('there is a log, and it grew with each acknowledgement', () => {
    const sizes = acknowledged.map(({ walBytes }) => walBytes)
    expect(acknowledged.length).toBeGreaterThan(100)
    expect(sizes.toSorted((a, b) => a - b)).toEqual(sizes)
    expect(wal.length).toBeGreaterThanOrEqual(sizes.at(-1)!)
    expect(wal.length).toBeLessThan(WAL_BYTES_MAX)
    expect(new Set(sizes).size).toBeGreaterThan(acknowledged.length / 10)
    console.log(
      'embedded, power loss:',
      JSON.stringify({
        acknowledged: acknowledged.length,
        commits: new Set(sizes).size,
        walBytes: wal.length,
      }),
    )
  })

  test.each(MOMENTS)('after %d of its acknowledgements: none of them is lost', async (share) => {
    const last = acknowledged[Math.ceil(share * acknowledged.length) - 1]!
    const bytes = last.walBytes
    const wanted = wantedAt(last)
    const sure = wal.subarray(0, bytes)
    // The next commits, as they were; where there are none, something as long.
    const next = Buffer.concat([wal.subarray(bytes), randomBytes(2 * (FRAME_HEADER_BYTES + PAGE_BYTES))])
    const torn = next.subarray(0, FRAME_HEADER_BYTES + PAGE_BYTES / 2)
    const holed = Buffer.from(next)
    holed.fill(0, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + PAGE_BYTES / 2)
    const lefts = {
      cut: sure,
      garbage: Buffer.concat([sure, randomBytes(50_000)]),
      torn: Buffer.concat([sure, torn]),
      header: Buffer.concat([sure, next.subarray(0, FRAME_HEADER_BYTES / 2)]),
      // Blocks reach the disk in any order: a hole, and good frames behind it.
      holed: Buffer.concat([sure, holed]),
      // The file was made longer, and its content never came.
      zeros: Buffer.concat([sure, Buffer.alloc(50_000)]),
    }
    for (const [name, left] of Object.entries(lefts))
      expect(await missing(`${name}-${share}`, left, wanted), name).toEqual([])
  })

  test('the check itself sees a loss', async () => {
    const wanted = wantedAt(acknowledged.at(-1)!)
    const earlier = acknowledged[Math.floor(acknowledged.length / 2)]!
    expect(await missing('lossy', wal.subarray(0, earlier.walBytes), wanted)).not.toEqual([])
  })
})

test('each commit waits for the disk: synchronous = FULL, journal_mode = WAL', () => {
  const database = connect(join(folder.path, 'pragmas.db'))
  try {
    expect(database.pragma('synchronous', { simple: true })).toBe(2)
    expect(database.pragma('journal_mode', { simple: true })).toBe('wal')
  } finally {
    database.close()
  }
})

/** It traces system calls; containers and machines without it may not allow that. */
function canTrace(): boolean {
  try {
    execFileSync('strace', ['-o', '/dev/null', 'true'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

const isTraceable = process.platform === 'linux' && canTrace()
if (!isTraceable) console.log('embedded, power loss: strace cannot be used; that part is skipped')

test.skipIf(!isTraceable)(
  'at each acknowledgement, all of the log was on the disk',
  { timeout: 60_000 },
  async () => {
    const home = mkdtempSync(join(tmpdir(), 'tocsin-fault-'))
    const traced = join(home, 'trace')
    const records = join(home, 'records')
    const file = join(folder.path, 'traced.db')
    const life = fileURLToPath(new URL('../programs/embedded/life.mjs', import.meta.url))
    const options = { topic: TOPIC, path: file, records, farMs: HOUR_MS, lanes: 4, paceMs: 1 }
    const calls = '--trace=write,pwrite64,pwritev,fdatasync,fsync'
    // -D: the process that is started is the life itself; who traces it ends with it.
    const args = [
      '-D',
      '-f',
      '-y',
      '-s',
      '24',
      calls,
      '-o',
      traced,
      process.execPath,
      life,
      JSON.stringify(options),
    ]
    const child = await spawnGuarded('strace', args, { folder: home, stdio: 'ignore' })
    await using program = new Program('embedded/life', home, child)
    await program.untilCount('answer', 100)
    await program.close()
    await eventually('the trace is complete', () =>
      readFileSync(traced, 'utf8').includes('+++ exited with 0 +++'),
    )
    let main: string | undefined
    let unsynced = 0
    let syncs = 0
    const tooEarly: string[] = []
    let answers = 0
    for (const line of readFileSync(traced, 'utf8').split('\n')) {
      const isLog = line.includes('traced.db-wal>')
      // A slow disk has its writer moved to a thread of its own, which may be at the next commit when this one is answered.
      const thread = line.split(' ', 1)[0]
      main ??= thread
      const isSync = isLog && /f(data)?sync\(/.test(line)
      if (isSync) syncs++
      if (thread !== main) continue
      if (isLog && line.includes('pwrite')) unsynced++
      if (isSync) unsynced = 0
      if (!line.includes('event\\":\\"answer')) continue
      answers++
      if (unsynced > 0) tooEarly.push(line)
    }
    console.log(
      'embedded, power loss, traced:',
      JSON.stringify({ answers, syncs, tooEarly: tooEarly.length }),
    )
    expect(tooEarly).toEqual([])
    expect(answers).toBeGreaterThanOrEqual(100)
    expect(syncs).toBeGreaterThan(10)
  },
)
