import type { Board } from '../../src/board.ts'
import type { HintTable } from '../../src/hint-table.ts'
import type { Ledger, LedgerTransaction } from '../../src/ledger.ts'
import type { Timetable } from '../../src/timetable.ts'
import type { MethodsOf } from './remote.ts'

/** Of a timetable, as the Redis adapter sends them. */
export const TIMETABLE_METHODS: MethodsOf<Timetable, 'close'> = {
  schedule: 'expiring',
  cancel: 'expiring',
  reschedule: 'expiring',
  replay: 'expiring',
  purge: 'repeatable',
  claim: 'repeatable',
  look: 'repeatable',
  begin: 'repeatable',
  extend: 'repeatable',
  settle: 'repeatable',
  get: 'repeatable',
  list: 'repeatable',
  find: 'repeatable',
  counts: 'repeatable',
  forecast: 'repeatable',
  books: 'repeatable',
  nowMs: 'repeatable',
}

/** The same timetable where it only holds hints: what is put or dropped twice does no harm. */
export const HINT_METHODS: MethodsOf<HintTable, 'close'> = {
  claim: 'repeatable',
  look: 'repeatable',
  extend: 'repeatable',
  settle: 'repeatable',
  find: 'repeatable',
  nowMs: 'repeatable',
  put: 'repeatable',
  cancel: 'repeatable',
  drop: 'repeatable',
  extent: 'repeatable',
  has: 'repeatable',
  filling: 'repeatable',
  filledTo: 'repeatable',
}

export const TRANSACTION_METHODS: MethodsOf<LedgerTransaction> = {
  schedule: 'once',
  cancel: 'once',
  reschedule: 'once',
  cancelBy: 'once',
  rescheduleBy: 'once',
}

/** Of a board, wherever it lies. A change is recognised by its id. */
export const BOARD_METHODS: MethodsOf<Board, 'close'> = {
  beat: 'repeatable',
  cards: 'repeatable',
  leave: 'repeatable',
  bury: 'repeatable',
  records: 'repeatable',
  create: 'repeatable',
  change: 'repeatable',
  history: 'repeatable',
  tokens: 'repeatable',
  putToken: 'repeatable',
  dropToken: 'repeatable',
}

/** Of a ledger, as the PostgreSQL adapter sends them. */
export const LEDGER_METHODS: MethodsOf<Ledger, 'close'> = {
  schedule: 'expiring',
  cancel: 'expiring',
  reschedule: 'expiring',
  replay: 'expiring',
  purge: 'repeatable',
  claim: 'repeatable',
  begin: 'repeatable',
  extend: 'repeatable',
  settle: 'repeatable',
  load: 'repeatable',
  hints: 'repeatable',
  topics: 'repeatable',
  forget: 'repeatable',
  recount: 'repeatable',
  nowMs: 'repeatable',
  committedWrites: 'repeatable',
  get: 'repeatable',
  list: 'repeatable',
  find: 'repeatable',
  counts: 'repeatable',
  forecast: 'repeatable',
  books: 'repeatable',
}
