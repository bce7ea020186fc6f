/** Whether the books of a topic are true, and whether ledger and timetable know the same tasks. What is off is mended. */
import { ALL_CELLS } from '../cell.ts'
import type { Clock } from '../clock.ts'
import type { Frontier, Ledger, Recount } from '../ledger.ts'
import type { Loader } from '../runtime/loader.ts'
import type { TopicAudit } from '../store.ts'
import type { Books, HintTable } from '../timetable.ts'

const PAGE = 1_000

interface AuditParts {
  readonly ledger: Ledger
  readonly table: HintTable
  readonly clock: Clock
}

export async function auditTopic(
  parts: AuditParts,
  topic: string,
  loader: Loader | undefined,
  rescued: number,
): Promise<TopicAudit> {
  const { ledger } = parts
  const [books, counted] = await Promise.all([ledger.books(topic), ledger.recount(topic)])
  // Not consumed here: the timetable of this process has nothing of it, and need not.
  const missing = loader === undefined ? 0 : await mendMissing(parts, topic, loader)
  const orphaned = loader === undefined ? 0 : await mendOrphaned(parts, topic)
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

/** Every live task that rings soon must be in the timetable. */
async function mendMissing(
  { ledger, table, clock }: AuditParts,
  topic: string,
  loader: Loader,
): Promise<number> {
  let missing = 0
  let after: Frontier | null = null
  do {
    const page = await ledger.load(topic, after, loader.loadedUntilMs, PAGE)
    const near = page.hints.filter((hint) => loader.includes(hint))
    const known = await table.has(topic, near)
    missing += await table.put(
      topic,
      near.filter((_, i) => known[i] === false),
      'lower',
    )
    after = page.frontier
    await clock.turn()
  } while (after !== null)
  return missing
}

/** Every entry of the timetable must have a live task. */
async function mendOrphaned({ ledger, table, clock }: AuditParts, topic: string): Promise<number> {
  let orphaned = 0
  for (const cell of ALL_CELLS) {
    let cursor: string | null = null
    do {
      const page = await table.find({ topic, cell }, 'live', { all: true }, cursor)
      for (let at = 0; at < page.keys.length; at += PAGE) {
        const places = page.keys.slice(at, at + PAGE).map((key) => ({ key, cell }))
        const hints = await ledger.hints(topic, places)
        const gone = places.filter((_, i) => hints[i] === null)
        orphaned += gone.length
        await table.cancel(topic, gone)
        await clock.turn()
      }
      cursor = page.cursor
    } while (cursor !== null)
  }
  return orphaned
}
