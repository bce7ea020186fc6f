import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Tocsin } from 'tocsin'
import { expect, test } from 'vitest'
import { startLife, temporaryFolder, TOPIC } from './life.ts'
import { failureOf } from '../helpers.ts'
import { startProgram } from '../program.ts'

const inUse = { code: 'ledger-in-use', retryable: true, message: expect.stringContaining('in use') }
const open = (path: string) => Tocsin.open({ ledger: `sqlite:${path}`, logger: false })
/** Opening takes some milliseconds; waiting for anything would take longer than this. */
const AT_ONCE_MS = 1_000

test('processes that open one file at once: exactly one gets it', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  for (let round = 0; round < 5; round++) {
    const path = join(folder.path, `${round}.db`)
    // Each waits for this file to come: then all of them are ready to open, and do.
    const gate = join(folder.path, `gate-${round}`)
    const start = () => startProgram('embedded/opener', { open: {}, topic: TOPIC, path, gate })
    await using first = await start()
    await using second = await start()
    await using third = await start()
    const all = [first, second, third]
    await Promise.all(all.map((program) => program.untilCount('ready', 1)))
    writeFileSync(gate, '')
    await Promise.all(all.map((program) => program.untilCount('outcome', 1)))
    const codes = all.flatMap((program) => program.of('outcome')).map(({ code }) => String(code))
    expect(codes.toSorted()).toEqual(['ledger-in-use', 'ledger-in-use', 'opened'])
  }
})

test('a process that is refused changes nothing for the one that has the file open', async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  await using toc = await open(path)
  const topic = toc.topic<number>(TOPIC)
  await topic.schedule({ key: 'before', delay: '1h', payload: 1 })
  for (let i = 0; i < 3; i++) expect(await failureOf(open(path))).toMatchObject(inUse)
  await topic.schedule({ key: 'after', delay: '1h', payload: 2 })
  expect(await topic.counts()).toMatchObject({ pending: 2 })
  // Still, after others have opened and closed files of theirs beside it.
  expect(await failureOf(open(path))).toMatchObject(inUse)
})

test('two Tocsins of one process: the second is refused until the first is closed', async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  const first = await open(path)
  expect(await failureOf(open(path))).toMatchObject(inUse)
  await first.close()
  await (await open(path)).close()
})

test('the same file by another way through the folders', async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  await using toc = await open(path)
  symlinkSync(folder.path, join(folder.path, 'beside'))
  expect(await failureOf(open(join(folder.path, 'beside', 't.db')))).toMatchObject(inUse)
  expect(await toc.topic(TOPIC).counts()).toMatchObject({ pending: 0 })
})

test('the same file by a symbolic link to it', async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  await using _toc = await open(path)
  const link = join(folder.path, 'link.db')
  symlinkSync(path, link)
  const opened = await open(link).catch((error: unknown) => error)
  if (opened instanceof Tocsin) await opened.close()
  expect(opened).toMatchObject(inUse)
})

test('after the holder is killed it opens at once', { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  for (let round = 0; round < 3; round++) {
    await using holder = await startLife({ path, round, lanes: 4 })
    await holder.untilCount('answer', 20)
    expect(await failureOf(open(path))).toMatchObject(inUse)
    await holder.kill()
    const began = performance.now()
    const toc = await open(path)
    expect(performance.now() - began).toBeLessThan(AT_ONCE_MS)
    await toc.close()
  }
})
