import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Tocsin } from 'tocsin'
import { expect, test } from 'vitest'
import { isLong } from '../../generated.ts'
import { drain, startLife, temporaryFolder, TOPIC } from './life.ts'
import { History } from './history.ts'

const KILLS = isLong ? 50 : 25
const LIFE_MS = 400
/** Each so manyth is killed at any moment since its start: perhaps while it opens the file. */
const YOUNG_EVERY = 5
const OLD_KEYS = 30

test(`killed ${KILLS} times at random moments, nothing is lost`, { timeout: 90_000 }, async () => {
  using folder = temporaryFolder()
  const path = join(folder.path, 't.db')
  const history = new History()
  for (let round = 0; round < KILLS; round++) {
    const old = history.waiting().slice(0, OLD_KEYS)
    await using program = await startLife({ path, round, old, lanes: 12, paceMs: 1 })
    if (round % YOUNG_EVERY !== 0) await program.untilCount('ready', 1)
    // Real time: killed at a random moment.
    await sleep(Math.random() * LIFE_MS)
    await program.kill()
    history.add(program.entries())
  }
  await drain(history, { path })
  const lost = history.lost()
  const { counts, problems } = history
  console.log(`embedded, ${KILLS} × SIGKILL:`, JSON.stringify({ ...counts, lost: lost.length }))
  expect({ lost, problems }).toEqual({ lost: [], problems: [] })
  await using toc = await Tocsin.open({ ledger: `sqlite:${path}`, logger: false })
  expect(await toc.audit()).toMatchObject([{ topic: TOPIC, balances: true }])
  expect(counts.scheduled).toBeGreaterThan(KILLS * 4)
  expect(counts.cancelled).toBeGreaterThan(KILLS / 2)
  expect(counts.replaced).toBeGreaterThan(KILLS / 2)
})
