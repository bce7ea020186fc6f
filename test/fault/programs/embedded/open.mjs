/**
 * Opens a Tocsin on the file `options.path`, as a user does. With `slowCommitMs` it is put together by hand, from the
 * same parts: that is no setting for users.
 */
import { Tocsin } from 'tocsin'
import { logger, options } from '../record.mjs'

const CALL_TIMEOUT_MS = 5_000

export async function openEmbedded() {
  const { path, slowCommitMs } = options
  if (slowCommitMs === undefined) return Tocsin.open({ ledger: `sqlite:${path}`, logger })
  const dist = (file) => import(new URL(`../../../../dist/${file}`, import.meta.url).href)
  const { openSqlite } = await dist('ledgers/sqlite/open.js')
  const { LedgerStore } = await dist('store/ledger-store.js')
  const { MemoryTimetable } = await dist('timetables/memory/timetable.js')
  const { systemClock: clock } = await dist('clock.js')
  const { systemRandom: random } = await dist('random.js')
  const ledger = openSqlite({ path, callTimeoutMs: CALL_TIMEOUT_MS, slowCommitMs }, clock, logger)
  const parts = { clock, random, logger }
  const store = new LedgerStore({ ...parts, ledger, table: new MemoryTimetable(clock, random) })
  return new Tocsin({ ...parts, store })
}
