/** A file that is not what was written. Nothing of it that is wrong may be delivered, and what is right goes on. */
import { closeSync, openSync, readFileSync, readSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { Tocsin } from 'tocsin'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { temporaryFolder, TOPIC } from './life.ts'
import { eventually, failureOf } from '../helpers.ts'

const PAGE_BYTES = 4_096
const TASKS = 2_000
const damaged = { code: 'ledger-damaged', retryable: false, message: expect.stringContaining('damaged') }

interface Payload {
  readonly key: string
  readonly text: string
}

let folder: ReturnType<typeof temporaryFolder>
let path: string
beforeEach(() => {
  folder = temporaryFolder()
  path = join(folder.path, 't.db')
})
afterEach(() => folder[Symbol.dispose]())

const open = () => Tocsin.open({ ledger: `sqlite:${path}`, logger: false })
const textOf = (key: string) => `${key};`.repeat(60)

/** A ledger with tasks that are due, closed: all of it is in the one file. */
async function written(count = TASKS): Promise<string[]> {
  const toc = await open()
  const keys = Array.from({ length: count }, (_, i) => `task-${i}`)
  await toc
    .topic<Payload>(TOPIC)
    .scheduleMany(keys.map((key) => ({ key, delay: 0, payload: { key, text: textOf(key) } })))
  await toc.close()
  expect(statSync(`${path}-wal`, { throwIfNoEntry: false })).toBeUndefined()
  return keys
}

function overwrite(at: number, bytes: Uint8Array): void {
  const file = openSync(path, 'r+')
  writeSync(file, bytes, 0, bytes.length, at)
  closeSync(file)
}

function flipBit(at: number, bit: number): void {
  const file = openSync(path, 'r+')
  const byte = new Uint8Array(1)
  readSync(file, byte, 0, 1, at)
  byte[0]! ^= 1 << bit
  writeSync(file, byte, 0, 1, at)
  closeSync(file)
}

/** Consumes for a while. What came, and what of it is not what was written. */
async function consumed(
  toc: Tocsin,
  isEnough: (keys: ReadonlySet<string>) => boolean,
  withinMs: number,
  lease = '30s',
): Promise<{ keys: Set<string>; wrong: string[] }> {
  const keys = new Set<string>()
  const wrong: string[] = []
  toc.topic<Payload>(TOPIC, { lease }).consume(async ({ key, payload }) => {
    keys.add(key)
    if (payload.key !== key || payload.text !== textOf(key)) wrong.push(key)
  })
  await eventually('enough', () => isEnough(keys), withinMs).catch(() => {})
  return { keys, wrong }
}

describe('a damaged header', () => {
  test.each([
    ['garbage', 100, 0xa5],
    ['zeros', 100, 0],
    ['a whole page of garbage', PAGE_BYTES, 0xa5],
  ])('%s: refused when it is opened, and left as it is', async (_, length, filling) => {
    await written(10)
    overwrite(0, new Uint8Array(length).fill(filling))
    const before = readFileSync(path)
    expect(await failureOf(open())).toMatchObject(damaged)
    expect(readFileSync(path).equals(before)).toBe(true)
    // A refused file is not kept open: once repaired, it can be opened.
    writeFileSync(path, '')
    await (await open()).close()
  })

  test('a file of something else', async () => {
    writeFileSync(path, 'To whom it may concern: this is a letter, and not a ledger.\n'.repeat(100))
    const message = expect.stringContaining('is not a SQLite file')
    expect(await failureOf(open())).toMatchObject({ ...damaged, message })
  })
})

describe('a page in the middle', () => {
  test.each([0.1, 0.3, 0.5, 0.7, 0.9])(
    'overwritten, at %d of the file: seen when it is opened or read, and nothing wrong is delivered',
    { timeout: 30_000 },
    async (share) => {
      await written()
      const page = Math.floor((statSync(path).size / PAGE_BYTES) * share)
      overwrite(page * PAGE_BYTES, new Uint8Array(PAGE_BYTES).fill(0x5a))
      const opened = await open().catch((error: unknown) => error)
      if (!(opened instanceof Tocsin)) return expect(opened).toMatchObject(damaged)
      const errors: unknown[] = []
      opened.on('error', ({ error }) => errors.push(error))
      const { keys, wrong } = await consumed(
        opened,
        (seen) => seen.size === TASKS || errors.length > 0,
        5_000,
      )
      await opened.close({ timeout: 0 })
      expect(wrong).toEqual([])
      if (keys.size < TASKS) expect(errors).toContainEqual(expect.objectContaining(damaged))
    },
  )

  test('cut off in the middle', async () => {
    await written()
    const bytes = readFileSync(path)
    writeFileSync(path, bytes.subarray(0, Math.floor(bytes.length / 2)))
    expect(await failureOf(open())).toMatchObject(damaged)
  })
})

describe('a flipped bit in a payload', () => {
  const VICTIM = 'task-77'

  /** In the text of the victim's payload. */
  function flipInVictim(): void {
    const at = readFileSync(path).indexOf(`"text":"${VICTIM};${VICTIM};`)
    expect(at).toBeGreaterThan(0)
    flipBit(at + 20, 2)
  }

  test('SQLite does not notice; the task is not delivered but dead, and the log says so', async () => {
    await written(100)
    flipInVictim()
    const said: { fields: object; message: string }[] = []
    const error = (fields: object, message: string) => void said.push({ fields, message })
    const logger = { debug() {}, info() {}, warn() {}, error }
    const toc = await Tocsin.open({ ledger: `sqlite:${path}`, logger })
    try {
      const { keys, wrong } = await consumed(toc, (seen) => seen.size === 99, 10_000)
      const topic = toc.topic(TOPIC)
      await eventually('all is settled', async () => {
        const { dead, claimed, pending } = await topic.counts()
        return dead === 1 && claimed + pending === 0
      })
      expect(wrong).toEqual([])
      expect(keys.has(VICTIM)).toBe(false)
      expect(said).toContainEqual({
        fields: expect.objectContaining({ topic: TOPIC, key: VICTIM }),
        message: expect.stringContaining('damaged'),
      })
      expect(await failureOf(topic.get(VICTIM))).toMatchObject({
        code: 'ledger-damaged',
        message: expect.stringContaining(VICTIM),
      })
      expect(await toc.audit()).toMatchObject([{ balances: true, books: { done: 99, dead: 1, pending: 0 } }])
      // Replayed, it is found out again; purged, it is gone.
      expect(await topic.dead.replay({ keys: [VICTIM] })).toEqual({ replayed: 1, superseded: 0 })
      await eventually('it is dead again', async () => (await topic.counts()).dead === 1)
      expect(keys.has(VICTIM)).toBe(false)
      expect(await topic.dead.purge({ keys: [VICTIM] })).toEqual({ purged: 1 })
      expect(await topic.get(VICTIM)).toBeNull()
    } finally {
      await toc.close({ timeout: 0 })
    }
  })

  /** Which tasks do not come within `withinMs`. */
  async function left(lease: string, withinMs: number): Promise<string[]> {
    const all = await written(1_000)
    flipInVictim()
    const toc = await open()
    try {
      const { keys, wrong } = await consumed(toc, (seen) => seen.size === all.length - 1, withinMs, lease)
      expect(wrong).toEqual([])
      return all.filter((key) => !keys.has(key))
    } finally {
      await toc.close({ timeout: 0 })
    }
  }

  test('all other tasks go on, without waiting for a lease', { timeout: 30_000 }, async () => {
    expect(await left('30s', 10_000)).toEqual([VICTIM])
  })

  test('the listing still shows the others', async () => {
    await written(100)
    flipInVictim()
    await using toc = await open()
    const { tasks } = await toc.topic(TOPIC).list({ limit: 1_000 })
    expect(tasks.length).toBeGreaterThanOrEqual(99)
  })

  test('it can be cancelled, and its key used again', async () => {
    await written(100)
    flipInVictim()
    await using toc = await open()
    const topic = toc.topic<Payload>(TOPIC)
    expect(await topic.cancel(VICTIM)).toMatchObject({ outcome: 'cancelled' })
    const payload = { key: VICTIM, text: textOf(VICTIM) }
    expect(await topic.schedule({ key: VICTIM, delay: '1h', payload })).toMatchObject({ outcome: 'created' })
    expect(await topic.get(VICTIM)).toMatchObject({ state: 'pending', payload })
  })
})
