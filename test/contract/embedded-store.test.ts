/** A ledger with a timetable is a store like any other: the same cases hold. */
import { openEmbedded } from './embedded-harness.ts'
import { timetableContract } from './timetable.ts'

timetableContract('SQLite ledger with an in-process timetable', () => openEmbedded(), [
  // With a ledger the janitor does it, in its own time.
  'dead: the oldest are forgotten after 30 days, when the next one comes',
  // The ledger knows by itself that a lease is over: only a claim has to bring tasks back.
  'waking: what a rescue puts back wakes, whoever came by',
])
