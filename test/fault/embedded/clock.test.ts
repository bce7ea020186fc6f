/**
 * A process whose clock stands an hour ahead or behind when it starts. By the shifted Date of programs/shift-clock.mjs,
 * which is where the engine reads the time; and, where libfaketime is installed, by what the system says.
 */
import { existsSync, mkdtempSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { spawnGuarded } from '../../real-servers/guarded-child.ts'
import { TOPIC, temporaryFolder } from './life.ts'
import { Program, startProgram } from '../program.ts'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
/** Long enough for whatever would come too early. */
const LOOK_MS = 1_500

type Start = (path: string, shiftMs: number, tasks: readonly object[]) => Promise<Program>

const byDate: Start = (path, shiftMs, tasks) =>
  startProgram('embedded/clock', { open: {}, topic: TOPIC, path, tasks, shiftMs }, ['shift-clock'])

const library = [
  '/usr/lib/x86_64-linux-gnu',
  '/usr/lib/aarch64-linux-gnu',
  '/usr/lib',
  '/usr/lib64',
  '/usr/local/lib',
]
  .map((folder) => join(folder, 'faketime', 'libfaketime.so.1'))
  .find((file) => existsSync(file))
if (library === undefined)
  console.log('embedded, clock: libfaketime is not installed; only a shifted Date is tried')

const byLibrary: Start = async (path, shiftMs, tasks) => {
  const folder = mkdtempSync(join(tmpdir(), 'tocsin-fault-'))
  const output = await open(join(folder, 'output'), 'a')
  const program = fileURLToPath(new URL('../programs/embedded/clock.mjs', import.meta.url))
  const options = { topic: TOPIC, path, tasks, records: join(folder, 'records') }
  const settings = [
    `LD_PRELOAD=${library}`,
    `FAKETIME=${shiftMs < 0 ? '-' : '+'}${Math.abs(shiftMs) / 1_000}`,
    'FAKETIME_DONT_FAKE_MONOTONIC=1',
  ]
  try {
    const args = [...settings, process.execPath, program, JSON.stringify(options)]
    const stdio = ['ignore' as const, output.fd, output.fd]
    return new Program('embedded/clock', folder, await spawnGuarded('env', args, { folder, stdio }))
  } finally {
    await output.close()
  }
}

/** One life with such a clock: what it started, once it has surely started what `awaits`, and then a while. */
async function life(
  start: Start,
  path: string,
  shiftMs: number,
  tasks: readonly object[],
  awaits: number,
  ends: 'killed' | 'closed',
): Promise<{ starts: string[]; dueMs: Map<string, number> }> {
  await using program = await start(path, shiftMs, tasks)
  await program.untilCount('ready', 1)
  await program.untilCount('start', awaits)
  // Real time: no task that is not yet due may start.
  await sleep(LOOK_MS)
  if (ends === 'killed') await program.kill()
  else await program.close()
  const [clock] = program.of('clock')
  expect(Math.abs(clock!.ms - Date.now() - shiftMs)).toBeLessThan(MINUTE_MS)
  const starts = program.of('start')
  // By the clock of that very process.
  expect(starts.filter(({ ms, dueMs }) => ms < dueMs)).toEqual([])
  expect(program.of('unhandled')).toEqual([])
  const dueMs = new Map(program.of('scheduled').map((entry) => [entry.key, entry.dueMs]))
  return { starts: starts.map(({ key }) => key).toSorted(), dueMs }
}

describe.each([
  ['a shifted Date', byDate, true],
  ['libfaketime', byLibrary, library !== undefined],
] as const)('by %s', (_, start, isAble) => {
  test.skipIf(!isAble).each(['killed', 'closed'] as const)(
    'ahead, behind, and right again; each life %s: nothing early, nothing lost',
    { timeout: 60_000 },
    async (ends) => {
      using folder = temporaryFolder()
      const path = join(folder.path, 't.db')
      const nowMs = Date.now()
      const tasks = [
        { key: 'now', delay: 0 },
        { key: 'in-half-an-hour', at: nowMs + HOUR_MS / 2 },
        { key: 'in-two-hours', at: nowMs + 2 * HOUR_MS },
        { key: 'in-a-while', at: nowMs + 4_000 },
      ]
      const right = await life(start, path, 0, tasks, 1, ends)
      expect(right.starts.filter((key) => key !== 'in-a-while')).toEqual(['now'])
      expect(right.dueMs.get('in-two-hours')).toBe(nowMs + 2 * HOUR_MS)

      // Behind: what was to come by now is an hour away, and what it schedules itself comes by its own clock.
      const behind = await life(start, path, -HOUR_MS, [{ key: 'of-behind', delay: 300 }], 1, ends)
      expect(behind.starts).toEqual(['of-behind'])

      // Ahead: half an hour has passed, two have not.
      const ahead = await life(start, path, HOUR_MS, [{ key: 'of-ahead', delay: 300 }], 2, ends)
      const soFar = [...right.starts, ...behind.starts, ...ahead.starts].toSorted()
      expect([...new Set(soFar)]).toEqual(['in-a-while', 'in-half-an-hour', 'now', 'of-ahead', 'of-behind'])

      // Far ahead: nothing is left behind.
      const last = await life(start, path, 3 * HOUR_MS, [], 1, ends)
      expect(last.starts).toEqual(['in-two-hours'])
      const none = await life(start, path, 4 * HOUR_MS, [], 0, ends)
      expect(none.starts).toEqual([])
    },
  )

  test.skipIf(!isAble)('what was scheduled by a clock ahead waits for it', { timeout: 60_000 }, async () => {
    using folder = temporaryFolder()
    const path = join(folder.path, 't.db')
    const wrong = await life(start, path, HOUR_MS, [{ key: 'wrong', delay: 60_000 }], 0, 'killed')
    expect(wrong.dueMs.get('wrong')).toBeGreaterThan(Date.now() + HOUR_MS - MINUTE_MS)
    const right = await life(start, path, 0, [{ key: 'right', delay: 300 }], 1, 'killed')
    expect(right.starts).toEqual(['right'])
    expect((await life(start, path, 2 * HOUR_MS, [], 1, 'closed')).starts).toEqual(['wrong'])
  })
})
