/** How the benchmark reads CPU times. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { describe, expect, it, test } from 'vitest'

type Process = { name: string; pid: number; hasChildren?: boolean; hasEndedChildren?: boolean }
type Cpu = Record<string, number>

const { cpuWatch, statOf, whyNoCpu } = (await import(
  new URL('../../bench/cpu.mjs', import.meta.url).href
)) as {
  cpuWatch: (processes: Process[]) => { start: () => void; stop: (tasks: number) => Cpu | null }
  statOf: (line: string) => { parent: number; ownTicks: number; endedTicks: number }
  whyNoCpu: (path?: string) => string | undefined
}

test('the times of a process are read from its line, whatever its command is called', () => {
  const numbers = '20 4711 4711 0 -1 4194560 1 2 3 4 100 20 3000 400 20 0 1 0 99'
  expect(statOf(`7 (postgres) S ${numbers}`)).toEqual({ parent: 20, ownTicks: 120, endedTicks: 3_400 })
  expect(statOf(`7 (a) b (c) ) R ${numbers}`)).toEqual({ parent: 20, ownTicks: 120, endedTicks: 3_400 })
})

test('where there is no /proc, the reason is told', () => {
  expect(whyNoCpu('/no/such/file')).toMatch(/^no CPU times: \w+ has no \/no\/such\/file$/)
})

describe.runIf(existsSync('/proc/self/stat'))('the CPU time of', () => {
  it('this process, in µs per task', () => {
    const watch = cpuWatch([{ name: 'node', pid: process.pid }])
    watch.start()
    busy(100)
    const micros = watch.stop(100)?.['node'] ?? 0
    // 100 ms of work for 100 tasks. Less if other processes had the core meanwhile.
    expect(micros).toBeGreaterThan(50)
    expect(micros).toBeLessThan(10_000)
  })

  it('a child counts to its parent, alive or ended', async () => {
    const watch = cpuWatch([
      { name: 'alone', pid: process.pid },
      { name: 'family', pid: process.pid, hasChildren: true },
      { name: 'ended', pid: process.pid, hasEndedChildren: true },
    ])
    watch.start()
    const child = spawn(
      process.execPath,
      ['-e', `(${busy.toString()})(120); console.log(1); process.stdin.resume()`],
      { stdio: ['pipe', 'pipe', 'inherit'] },
    )
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    const alive = watch.stop(1)
    expect(alive?.['family']).toBeGreaterThan((alive?.['alone'] ?? 0) + 80_000)
    expect(alive?.['ended']).toBe(0)
    child.stdin.end()
    await ended
    const after = watch.stop(1)
    expect(after?.['family']).toBeGreaterThan((after?.['alone'] ?? 0) + 80_000)
    expect(after?.['ended']).toBeGreaterThan(80_000)
  })
})

/** Uses the CPU for so many milliseconds of CPU time. */
function busy(cpuMs: number): void {
  const used = (): number => process.cpuUsage().user / 1_000
  for (const startMs = used(); used() - startMs < cpuMs;);
}
