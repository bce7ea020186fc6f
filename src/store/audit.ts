/**
 * The audit of a topic. Checks whether the books balance. Checks whether the ledger and the hint table have the same
 * tasks, and repairs the hint table if they differ.
 */
import { BATCH_MAX } from '../lib/batch-max.ts'
import { ALL_CELLS } from '../values/cell.ts'
import type { Clock } from '../clock.ts'
import type { Ledger, Recount } from '../ledger.ts'
import type { Filler } from './loader.ts'
import type { TopicAudit } from '../store.ts'
import type { Books, Place } from '../timetable.ts'
import type { Frontier, Hint, HintTable } from '../hint-table.ts'

interface AuditParts {
  readonly ledger: Ledger
  readonly table: HintTable
  readonly clock: Clock
}

export async function auditTopic(
  parts: AuditParts,
  topic: string,
  filler: Filler | undefined,
  rescued: number,
): Promise<TopicAudit> {
  const { ledger } = parts
  const { books, counted } = await ledger.recount(topic)
  // Without a filler, this process does not consume the topic, and the table need not have the topic's hints.
  const missing = filler === undefined ? 0 : await mendMissing(parts, topic, filler)
  const orphaned = filler === undefined ? 0 : await mendOrphaned(parts, topic)
  return { topic, books, counted, balances: balance(books, counted), missing, orphaned, rescued }
}

function balance(books: Books, counted: Recount): boolean {
  const { scheduled, purged, ...rest } = books
  const sum = Object.values(rest).reduce((total, count) => total + count, purged)
  return (
    scheduled === sum &&
    Object.entries(counted).every(([name, count]) => rest[name as keyof Recount] === count)
  )
}

/** Adds the missing hint of every live task that rings soon. Returns the number of added hints. */
async function mendMissing(parts: AuditParts, topic: string, filler: Filler): Promise<number> {
  const { ledger, clock } = parts
  let missing = 0
  let after: Frontier | null = null
  do {
    const page = await ledger.load(topic, after, filler.loadedUntilMs, BATCH_MAX)
    const near = page.hints.filter((hint) => filler.includes(hint))
    missing += await putMissing(parts, topic, near)
    after = page.frontier
    await clock.turn()
  } while (after !== null)
  return missing
}

/** Removes every hint without a live task. Returns the number of removed hints. */
async function mendOrphaned(parts: AuditParts, topic: string): Promise<number> {
  const { table, clock } = parts
  let orphaned = 0
  for (const cell of ALL_CELLS) {
    let cursor: string | null = null
    do {
      const page = await table.find({ topic, cell }, 'live', { all: true }, cursor)
      for (let at = 0; at < page.keys.length; at += BATCH_MAX) {
        const places = page.keys.slice(at, at + BATCH_MAX).map((key) => ({ key, cell }))
        orphaned += await dropOrphans(parts, topic, places)
        await clock.turn()
      }
      cursor = page.cursor
    } while (cursor !== null)
  }
  return orphaned
}

/**
 * Waits for hints of earlier commits that are still being written, so that they do not count as missing or orphaned.
 * SQLite answers the empty write after all earlier writes. PostgreSQL answers it at once, so there the wait is only one
 * turn of the event loop.
 */
async function allTold({ ledger, clock }: AuditParts, topic: string): Promise<void> {
  await ledger.cancel(topic, [])
  await clock.turn()
}

async function putMissing(parts: AuditParts, topic: string, hints: readonly Hint[]): Promise<number> {
  const { ledger, table } = parts
  const known = await table.has(topic, hints)
  const suspects = hints.filter((_, i) => known[i] === false)
  if (suspects.length === 0) return 0
  await allTold(parts, topic)
  const live = await ledger.hints(topic, suspects)
  return table.put(
    topic,
    live.filter((hint) => hint !== null),
    'lower',
  )
}

async function dropOrphans(parts: AuditParts, topic: string, places: readonly Place[]): Promise<number> {
  const { ledger, table } = parts
  const before = await ledger.hints(topic, places)
  const suspects = places.filter((_, i) => before[i] === null)
  if (suspects.length === 0) return 0
  await allTold(parts, topic)
  const known = await table.has(topic, suspects)
  const orphans: Place[] = []
  for (const [i, place] of suspects.entries()) {
    const state = known[i] === true ? (await ledger.get(topic, place))?.state : 'claimed'
    // `ledger.hints` returns null for a claimed task that was cancelled. But the task is live until its claim is
    // settled or rescued, even if its process has died.
    if (state !== 'pending' && state !== 'claimed') orphans.push(place)
  }
  await table.cancel(topic, orphans)
  return orphans.length
}
