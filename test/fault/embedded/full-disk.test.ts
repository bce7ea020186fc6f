/** A disk that is really full: a small file system in memory, which only root can mount. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { History } from './history.ts'
import { temporaryFolder, TOPIC } from './life.ts'
import { eventually, failureOf } from '../helpers.ts'
import { startProgram } from '../program.ts'

const MEGABYTE = 1_048_576
const DISK_MB = 64
/** Space taken by another program, until its file is removed. */
const TAKEN_MB = 58

function canMount(): boolean {
  const { path, [Symbol.dispose]: remove } = temporaryFolder()
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', path], { stdio: 'ignore' })
    execFileSync('umount', [path], { stdio: 'ignore' })
    return true
  } catch {
    return false
  } finally {
    remove()
  }
}

const isAble = process.platform === 'linux' && process.getuid?.() === 0 && canMount()
if (!isAble) console.log('embedded, full disk: skipped; it needs root, to mount a small tmpfs')

let folder: ReturnType<typeof temporaryFolder>
let disk: string
let path: string
let others: string
beforeEach(() => {
  if (!isAble) return
  folder = temporaryFolder()
  disk = join(folder.path, 'disk')
  path = join(disk, 't.db')
  others = join(disk, 'others')
  mkdirSync(disk)
  execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${DISK_MB}m`, 'tmpfs', disk])
})
afterEach(() => {
  if (!isAble) return
  execFileSync('umount', ['-l', disk])
  folder[Symbol.dispose]()
})

const open = () => Tocsin.open({ ledger: `sqlite:${path}`, logger: false })
const full = { code: 'ledger-full', retryable: true, message: expect.stringContaining('disk is full') }

/** Nothing at all is left. */
function fillUp(): void {
  const { bavail, bsize } = statfsSync(disk)
  writeFileSync(join(disk, 'rest'), Buffer.alloc(bavail * bsize))
}

describe.skipIf(!isAble)('a full disk', () => {
  test(
    'refuses new tasks, loses none, and goes on by itself when there is room',
    { timeout: 60_000 },
    async () => {
      writeFileSync(others, Buffer.alloc(TAKEN_MB * MEGABYTE))
      const options = { open: {}, topic: TOPIC, path, lanes: 4, delayMs: 1_500, payloadBytes: 20_000 }
      await using program = await startProgram('embedded/full', options)
      await program.untilCount('failure', 1)
      // Real time: tasks have to fall due while the disk is full.
      await sleep(3_000)
      const refused = program.of('failure')
      const startedWhileFull = program.of('start').length
      const answeredBefore = program.of('answer').length
      expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['ledger-full']))
      expect(refused.every(({ retryable }) => retryable)).toBe(true)

      rmSync(others)
      const freedMs = performance.now()
      await program.untilCount('answer', answeredBefore + 20)
      const wentOnMs = performance.now() - freedMs
      program.signal('SIGUSR2')
      await program.untilCount('finished', 1)
      const answered = new Set(program.of('answer').map(({ key }) => key))
      await eventually('all came', () => {
        const started = new Set(program.of('start').map(({ key }) => key))
        return [...answered].every((key) => started.has(key))
      }).catch(() => {})
      await program.close()

      const history = new History()
      history.add(program.entries())
      const lost = history.lost()
      console.log(
        'embedded, full disk:',
        JSON.stringify({
          ...history.counts,
          refused: refused.length,
          startedWhileFull,
          wentOnMs: Math.round(wentOnMs),
          lost: lost.length,
        }),
      )
      expect({ lost, problems: history.problems }).toEqual({ lost: [], problems: [] })
      expect(program.of('unhandled')).toEqual([])
      await using toc = await open()
      expect(await toc.audit()).toMatchObject([
        { balances: true, books: { done: answered.size, pending: 0 } },
      ])
    },
  )

  test('a call that was refused wrote nothing, and what was there can be read', async () => {
    await using toc = await open()
    const topic = toc.topic<string>(TOPIC)
    const payload = 'x'.repeat(60_000)
    await topic.schedule({ key: 'kept', delay: '1h', payload })
    fillUp()
    expect(await failureOf(topic.schedule({ key: 'new', delay: '1h', payload }))).toMatchObject(full)
    const many = Array.from({ length: 100 }, (_, i) => ({ key: `many-${i}`, delay: '1h', payload }))
    expect(await failureOf(topic.scheduleMany(many))).toMatchObject(full)
    expect(await failureOf(topic.schedule({ key: 'kept', delay: '2h', payload: 'other' }))).toMatchObject(
      full,
    )
    expect(await topic.get('new')).toBeNull()
    expect(await topic.get('many-0')).toBeNull()
    expect(await topic.get('kept')).toMatchObject({ state: 'pending', payload })
    expect(await toc.audit()).toMatchObject([{ balances: true }])
    rmSync(join(disk, 'rest'))
    expect(await topic.schedule({ key: 'new', delay: '1h', payload })).toMatchObject({ outcome: 'created' })
    expect(await toc.audit()).toMatchObject([{ balances: true, books: { pending: 2, scheduled: 2 } }])
  })

  test('a ledger that is opened on it says so', async () => {
    const first = await open()
    await first.topic<number>(TOPIC).schedule({ key: 'kept', delay: '1h', payload: 1 })
    await first.close()
    fillUp()
    const error = await failureOf(open())
    expect((error as { code: string }).code).toMatch(/^ledger-(full|unavailable)$/)
    expect(error).toMatchObject({ retryable: true, message: expect.stringContaining(path) })
    rmSync(join(disk, 'rest'))
    await using toc = await open()
    expect(await toc.topic(TOPIC).get('kept')).toMatchObject({ state: 'pending', payload: 1 })
  })

  test('a ledger that is opened on it calls it full', async () => {
    await (await open()).close()
    fillUp()
    expect(await failureOf(open())).toMatchObject(full)
  })

  test('closing on it loses nothing', async () => {
    const first = await open()
    const topic = first.topic<number>(TOPIC)
    for (let i = 0; i < 200; i++) await topic.schedule({ key: `k${i}`, delay: '1h', payload: i })
    fillUp()
    await first.close()
    rmSync(join(disk, 'rest'))
    await using toc = await open()
    expect(await toc.topic(TOPIC).counts()).toMatchObject({ pending: 200 })
    expect(await toc.audit()).toMatchObject([{ balances: true }])
  })
})
