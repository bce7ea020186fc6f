/** All statements that the ledger sends, by group. scripts/postgres-statements.mjs writes them to statements.sql. */
import { ENDED_STATES } from '../../rows.ts'
import type { ListQuery } from '../../../timetable.ts'
import { BOARD } from './board.ts'
import { listBatches, listEnded, listLive } from './lists.ts'
import { READS } from './reads.ts'
import { LIMIT, param, type Statement, TOPIC } from './statement.ts'
import { TOPICS } from './topics.ts'
import { TRANSACTIONS } from './transactions.ts'
import { UPKEEP } from './upkeep.ts'
import { WRITES } from './writes.ts'

/** A list query that has all possible conditions. */
const FULL_QUERY: ListQuery = {
  state: 'pending',
  tag: 'tag',
  prefix: 'prefix',
  dueFromMs: 1,
  dueToMs: 2,
  limit: 100,
  after: { ringMs: 1, failures: 0, key: 'key' },
}

const LIST_FILTERS: Statement['takes'] = [
  TOPIC,
  param('due_from_ms', 'bigint'),
  param('due_to_ms', 'bigint'),
  param('prefix', 'text', 'the prefix, for a key that equals the prefix'),
  param('prefix_from', 'text', "the prefix and ':'"),
  param('prefix_to', 'text', "the prefix and ';', the character after ':'"),
]

const LISTS = {
  listLive: {
    does: 'Lists live tasks in the order in which they ring. Shown with every condition; a query has some of them.',
    sentBy: 'Readings.list',
    takes: [
      ...LIST_FILTERS,
      param('ring_ms', 'bigint', 'of the last task of the page before'),
      param('failures', 'integer', 'of the last task of the page before'),
      param('key', 'text', 'of the last task of the page before'),
      LIMIT,
      param('tag', 'text'),
    ],
    returns: 'A row for each task, as JSON.',
    text: listLive(1, FULL_QUERY).text,
  },
  listEnded: {
    does:
      'Lists tasks that ended in one state, in the order in which they ended. Shown with all conditions; ' +
      'a query has only some of them.',
    sentBy: 'Readings.list',
    takes: [
      ...LIST_FILTERS,
      param('ended_ms', 'bigint', 'of the last task of the page before'),
      param('key', 'text', 'of the last task of the page before'),
      param('generation', 'bigint', 'of the last task of the page before'),
      LIMIT,
      param('tag', 'text'),
    ],
    returns: 'A row at least: now_ms; a task as JSON, or null; whether it is superseded.',
    text: listEnded(1, ENDED_STATES.indexOf('done'), FULL_QUERY).text,
  },
  listBatches: {
    does:
      'Lists tasks in batches that ended in one state, in the order in which they ended. Shown with all conditions; a query has ' +
      'only some of them.',
    sentBy: 'Readings.list',
    takes: [
      TOPIC,
      param('from_ms', 'bigint', 'time of the first batches to read'),
      param('to_ms', 'bigint', 'time of the last batches to read'),
      ...LIST_FILTERS.slice(1),
      param('ended_ms', 'bigint', 'of the last task of the page before'),
      param('key', 'text', 'of the last task of the page before'),
      param('generation', 'bigint', 'of the last task of the page before'),
      LIMIT,
    ],
    returns:
      'A row at least: the time up to which batches were read, null if there are no more; a task as JSON, or null.',
    text: listBatches(1, ENDED_STATES.indexOf('done'), FULL_QUERY, { fromMs: 0, toMs: 1 }).text,
  },
} as const satisfies Record<string, Statement>

export const STATEMENTS: Readonly<Record<string, Readonly<Record<string, Statement>>>> = {
  write: WRITES,
  read: { ...READS, ...LISTS },
  topic: TOPICS,
  transaction: TRANSACTIONS,
  board: BOARD,
  upkeep: UPKEEP,
}
