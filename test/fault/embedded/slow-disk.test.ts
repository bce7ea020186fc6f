/** Where commits take long, writing moves to a thread of its own. Here every commit counts as slow. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { expect, test } from 'vitest'
import { History } from './history.ts'
import { drain, startLife, temporaryFolder, TOPIC } from './life.ts'
import { startProgram } from '../program.ts'

const ALWAYS_SLOW = -1
const KILLS = 10
const LIFE_MS = 400
const YOUNG_EVERY = 4

const moved = (entry: { event: string; message?: string }) =>
  entry.event === 'log' && entry.message?.includes('thread of its own') === true

test('writes go on in a thread, and close() ends the process', { timeout: 30_000 }, async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  const history = new History()
  await using program = await startLife({ path, slowCommitMs: ALWAYS_SLOW, lanes: 8, paceMs: 1 })
  await program.untilCount('answer', 500)
  expect(
    program
      .entries()
      .filter(moved)
      .map(({ level }) => level),
  ).toEqual(['info'])
  program.signal('SIGUSR2')
  await program.untilCount('finished', 1)
  await program.close()
  history.add(program.entries())
  await drain(history, { path, slowCommitMs: ALWAYS_SLOW })
  expect({ lost: history.lost(), problems: history.problems }).toEqual({ lost: [], problems: [] })
  await using toc = await Tocsin.open({ ledger: `sqlite:${path}`, logger: false })
  expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true, books: { pending: 0 } }])
})

test('calls without an await between them take effect in their order', { timeout: 30_000 }, async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  const options = { open: {}, topic: TOPIC, path, slowCommitMs: ALWAYS_SLOW, keys: 50, writes: 40 }
  await using program = await startProgram('embedded/order', options)
  await program.untilCount('finished', 1)
  expect(program.entries().filter(moved)).toHaveLength(1)
  const [outcome] = program.of('outcome')
  expect(outcome).toMatchObject({ wrong: [], answers: options.keys * options.writes })
  await program.close()
})

test(`killed ${KILLS} times, nothing is lost`, { timeout: 60_000 }, async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  const history = new History()
  let inThread = 0
  for (let round = 0; round < KILLS; round++) {
    const old = history.waiting().slice(0, 30)
    const options = { path, round, old, lanes: 12, paceMs: 1, slowCommitMs: ALWAYS_SLOW }
    await using program = await startLife(options)
    // Now and then it is killed while it moves.
    if (round % YOUNG_EVERY === 0) await program.untilCount('ready', 1)
    else await program.until('it has moved', (entries) => entries.some(moved))
    // Real time: killed at a random moment.
    await sleep(Math.random() * LIFE_MS)
    await program.kill()
    if (program.entries().some(moved)) inThread++
    history.add(program.entries())
  }
  await drain(history, { path, slowCommitMs: ALWAYS_SLOW })
  const lost = history.lost()
  console.log(
    `embedded, slow disk, ${KILLS} × SIGKILL:`,
    JSON.stringify({ ...history.counts, inThread, lost: lost.length }),
  )
  expect({ lost, problems: history.problems }).toEqual({ lost: [], problems: [] })
  expect(inThread).toBeGreaterThan(KILLS / 2)
  await using toc = await Tocsin.open({ ledger: `sqlite:${path}`, logger: false })
  expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true }])
})
