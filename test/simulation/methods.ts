import type { Methods } from './remote.ts'

/** Of a timetable, as the Redis adapter sends them. */
export const TIMETABLE_METHODS: Methods = {
  schedule: 'once',
  cancel: 'once',
  reschedule: 'once',
  replay: 'once',
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
export const HINT_METHODS: Methods = {
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

export const TRANSACTION_METHODS: Methods = {
  schedule: 'once',
  cancel: 'once',
  reschedule: 'once',
  cancelBy: 'once',
  rescheduleBy: 'once',
}

/** Of a board, wherever it lies. A change is recognised by its id. */
export const BOARD_METHODS: Methods = {
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
export const LEDGER_METHODS: Methods = {
  schedule: 'once',
  cancel: 'once',
  reschedule: 'once',
  replay: 'once',
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
