import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventually } from '../fault/helpers.ts'
import { type Entry, startProgram } from '../fault/program.ts'
import { type Composition, Servers } from './compositions.ts'
import { NODE_PROGRAM } from './crew.ts'

const TOPIC = 'skewed'
const HOUR_MS = 3_600_000
const COUNT = 300
const DELAY_MS = 1_500
/** What is measured over a busy machine's network, and far from an hour. */
const CLOSE_MS = 2_000
/** Far from an hour, too. */
const LATE_MS = 30_000

let servers: Servers
beforeAll(async () => {
  servers = await Servers.start()
}, 60_000)
afterAll(() => servers.stop())

const COMPOSITIONS: Composition[] = ['Redis', 'Redis + PostgreSQL', 'PostgreSQL']

test.concurrent.each(COMPOSITIONS)(
  '%s: nodes whose clocks are an hour off fire nothing early or late, and are told of',
  { timeout: 60_000 },
  async (composition) => {
    await using place = await servers.place(composition)
    const start = (node: string, shiftMs: number) =>
      startProgram(NODE_PROGRAM, { open: { ...place.open, node }, topic: TOPIC, shiftMs }, ['shift-clock'])
    await using ahead = await start('ahead', HOUR_MS)
    await using behind = await start('behind', -HOUR_MS)
    const programs = [ahead, behind]
    await Promise.all(programs.map((program) => program.untilCount('ready', 1)))
    for (const [i, { ms, nowMs }] of programs.flatMap((program) => program.of('ready')).entries())
      expect(Math.abs(ms - nowMs - [HOUR_MS, -HOUR_MS][i]!)).toBeLessThan(CLOSE_MS)

    const observer = await place.node('observer')
    const topic = observer.topic<null>(TOPIC)
    const skews = async () => {
      const nodes = await observer.nodes()
      return new Map(nodes.map(({ name, clockAheadMs }) => [name, clockAheadMs]))
    }
    await eventually('measured', async () => {
      const all = await skews()
      return all.size === 3 && [...all.values()].every((ms) => ms !== null)
    })
    const seen = await skews()
    console.log(`${composition}: clockAheadMs ${JSON.stringify(Object.fromEntries(seen))}`)
    expect(Math.abs(seen.get('ahead')! - HOUR_MS)).toBeLessThan(CLOSE_MS)
    expect(Math.abs(seen.get('behind')! + HOUR_MS)).toBeLessThan(CLOSE_MS)
    expect(Math.abs(seen.get('observer')!)).toBeLessThan(CLOSE_MS)

    // Some whose moment was computed by a right clock, some by the server's.
    const nowMs = Date.now()
    const tasks = Array.from({ length: COUNT }, (_, n) => ({
      key: `k${n}`,
      payload: null,
      ...(n % 2 === 0 ? { delay: DELAY_MS + n } : { at: new Date(nowMs + DELAY_MS + n) }),
    }))
    const dueOf = new Map((await topic.scheduleMany(tasks)).map(({ key, dueAt }) => [key, dueAt.getTime()]))
    const starts = () => programs.flatMap((program) => program.of('start'))
    await eventually('all handled', () => starts().length >= COUNT)
    // Both are members and both own slots: neither takes the other for dead because of its clock.
    for (const program of programs) expect(program.of('start').length).toBeGreaterThan(COUNT / 10)
    for (const { key, nowMs: startedMs, latenessMs } of starts()) {
      expect(startedMs).toBeGreaterThanOrEqual(dueOf.get(key)!)
      expect(startedMs).toBeLessThan(dueOf.get(key)! + LATE_MS)
      expect(Math.abs(latenessMs)).toBeLessThan(LATE_MS)
    }
    expect(starts().length).toBe(COUNT)

    const warnings = programs.map((program) =>
      (program.of('log') as (Entry & { aheadMs?: number })[]).filter(
        ({ level, message }) => level === 'warn' && message.includes("this machine's clock is"),
      ),
    )
    // Once: a clock that stays wrong does not fill the log.
    expect(warnings.map(({ length }) => length)).toEqual([1, 1])
    expect(warnings[0]![0]!.message).toMatch(/^this machine's clock is 3\d{6} ms ahead of the server's/)
    expect(warnings[1]![0]!.message).toMatch(/^this machine's clock is 3\d{6} ms behind the server's/)
    expect(
      programs.flatMap((program) => program.of('log')).filter(({ message }) => message.includes('is gone')),
    ).toEqual([])
    await Promise.all(programs.map((program) => program.close()))
  },
)
