/**
 * The statements that read. None of them writes. Each reading is a single statement, so that all its results are from
 * the same snapshot.
 */
import { BATCH_MAX } from '../../../lib/batch-max.ts'
import { DEAD } from '../../rows.ts'
import { BATCHED_COLUMNS, batchesWith, EXPANDED } from './batches.ts'
import { superseded } from './fragments.ts'
import { LIMIT, param, type Statement, TASKS, TOPIC } from './statement.ts'

/** The columns of a hint. The body is left out, because hints are read often and a body may be large. */
const HINT = 'l.key, l.cell, l.ring_ms, l.failures, l.priority, l.lost, l.lease_ms, tocsin.now_ms()'
const HINT_ROW = 'key, cell, ring_ms, failures, priority, lost, lease_ms (null if it is not claimed), now_ms.'

export const LIVE_COLUMNS = `key, generation, due_ms, ring_ms, priority, failures, deliveries, session IS NOT NULL AS is_claimed,
  created_ms, updated_ms, error, array_to_string(tags, E'\\n') AS tags, body`
export const ENDED_COLUMNS = `key, generation, state, ended_ms, due_ms, priority, failures, deliveries, created_ms, error, cause,
  array_to_string(tags, E'\\n') AS tags, body, topic, cell, outranked`
/** True if the ended task `e` is dead and superseded. It is computed only for the rows that a reading returns. */
export const IS_SUPERSEDED = `e.state = ${DEAD} AND ${superseded('e')}`

const BOOKS = ['scheduled', 'done', 'cancelled', 'obsolete', 'dead', 'claimed', 'purged']
  .map((name) => `coalesce(sum(${name}), 0)::bigint`)
  .join(', ')
const BOOKS_ROW = 'scheduled, done, cancelled, obsolete, dead, claimed, purged'

const ONE_TASK = [TOPIC, param('cell', 'smallint'), param('key', 'text')] as const
const PAGE = [
  TOPIC,
  param('cell', 'smallint'),
  param('after', 'text', 'last key of the page before'),
] as const
const TAG = param('tag', 'text')
const PREFIX = [
  param('prefix', 'text', 'the prefix, for a key that equals the prefix'),
  param('prefix_from', 'text', "the prefix and ':'"),
  param('prefix_to', 'text', "the prefix and ';', the character after ':'"),
] as const

/** The numbers of the indexes live_tag_1 to live_tag_4. Each indexes one position of the tags. */
export const TAG_NUMBERS = [1, 2, 3, 4] as const

const page = (text: string): string => `${text} ORDER BY key LIMIT ${BATCH_MAX}`
const LIVE_KEYS = 'SELECT key FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key > $3'
const DEAD_KEYS = `SELECT key FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key > $3 AND state = ${DEAD}`

/**
 * Returns a page of the keys that have a prefix. The prefix itself is a key of its own, and comes before all the
 * others. The two conditions are two queries, because with OR the planner reads the whole cell.
 */
const pageOfPrefix = (keys: string): string =>
  page(`(${keys} AND key = $4) UNION ALL (${page(`${keys} AND key >= $5 AND key < $6`)})`)

const find = (does: string, takes: Statement['takes'], text: string): Statement => ({
  does: `${does} A page of keys, in order.`,
  sentBy: 'Readings.find',
  takes,
  returns: 'A row for each task: key.',
  text,
})

export const READS = {
  get: {
    does:
      'Returns the live task of a key, and the task that ended last. Both are read in one statement, ' +
      'because a task that ends between two statements could be in neither result.',
    sentBy: 'Readings.get',
    takes: ONE_TASK,
    returns:
      'One row: the live task, the ended task that has a row, and the ended task that is in a batch, as JSON, or nulls; whether the second one is superseded.',
    text: `SELECT row_to_json(l), row_to_json(e), row_to_json(b), ${IS_SUPERSEDED} FROM (SELECT) AS one
       LEFT JOIN LATERAL (SELECT ${LIVE_COLUMNS} FROM tocsin.live WHERE topic = $1 AND cell = $2 AND key = $3) AS l ON true
       LEFT JOIN LATERAL (SELECT ${ENDED_COLUMNS} FROM tocsin.ended WHERE topic = $1 AND cell = $2 AND key = $3
         ORDER BY ended_ms DESC, generation DESC LIMIT 1) AS e ON true
       LEFT JOIN LATERAL (SELECT ${BATCHED_COLUMNS} ${batchesWith('$1', '$2', '$3', ' AND l.key IS NULL')}
         CROSS JOIN LATERAL ${EXPANDED} WHERE x.key = $3 ORDER BY b.ended_ms DESC, x.generation DESC LIMIT 1) AS b ON true`,
  },
  hints: {
    does: 'Returns the hints of live tasks, except for those that were cancelled in flight.',
    sentBy: 'Readings.hints',
    takes: TASKS,
    returns: `A row for each task: ${HINT_ROW}`,
    text: `SELECT ${HINT} FROM unnest($2::smallint[], $3::text[]) AS i (cell, key)
       JOIN tocsin.live l ON l.topic = $1 AND l.cell = i.cell AND l.key = i.key WHERE NOT l.marked`,
  },
  load: {
    does: 'Returns the hints of a topic after a frontier, in the order in which they ring.',
    sentBy: 'Readings.load',
    takes: [
      TOPIC,
      param('ring_ms', 'bigint', 'of the frontier'),
      param('cell', 'smallint', 'of the frontier'),
      param('key', 'text', 'of the frontier'),
      param('until_ms', 'bigint'),
      LIMIT,
    ],
    returns: `A row for each task: ${HINT_ROW}`,
    text: `SELECT ${HINT} FROM tocsin.live l
  WHERE l.topic = $1 AND (l.ring_ms, l.cell, l.key) > ($2::bigint, $3::smallint, $4::text COLLATE "C") AND l.ring_ms <= $5
  ORDER BY l.ring_ms, l.cell, l.key LIMIT $6`,
  },
  findLive: find('Finds the live tasks of a cell.', PAGE, page(LIVE_KEYS)),
  findLiveByTag: find(
    'Finds the live tasks of a cell that have a tag.',
    [...PAGE, TAG],
    page(TAG_NUMBERS.map((n) => `(${page(`${LIVE_KEYS} AND tags[${n}] = $4`)})`).join(' UNION ')),
  ),
  findLiveByPrefix: find(
    'Finds the live tasks of a cell that have a prefix.',
    [...PAGE, ...PREFIX],
    pageOfPrefix(LIVE_KEYS),
  ),
  findDead: find('Finds the dead tasks of a cell.', PAGE, page(DEAD_KEYS)),
  findDeadByTag: find(
    'Finds the dead tasks of a cell that have a tag.',
    [...PAGE, TAG],
    page(`${DEAD_KEYS} AND $4 = ANY (tags)`),
  ),
  findDeadByPrefix: find(
    'Finds the dead tasks of a cell that have a prefix.',
    [...PAGE, ...PREFIX],
    pageOfPrefix(DEAD_KEYS),
  ),
  counts: {
    does: 'Returns the sums of the books, and counts the tasks that are due.',
    sentBy: 'Readings.counts',
    takes: [TOPIC],
    returns: `One row: ${BOOKS_ROW}; due.`,
    text: `SELECT ${BOOKS}, (SELECT count(*) FROM tocsin.live
        WHERE topic = $1 AND ring_ms <= tocsin.now_ms() AND session IS NULL) FROM tocsin.tally WHERE topic = $1`,
  },
  books: {
    does: 'Returns the sums of the books.',
    sentBy: 'Readings.books',
    takes: [TOPIC],
    returns: `One row: ${BOOKS_ROW}.`,
    text: `SELECT ${BOOKS} FROM tocsin.tally WHERE topic = $1`,
  },
  forecast: {
    does: 'Counts the pending tasks per time step, by ring time. Overdue tasks count as ringing now.',
    sentBy: 'Readings.forecast',
    takes: [
      TOPIC,
      param('from_ms', 'bigint'),
      param('to_ms', 'bigint'),
      param('step_ms', 'bigint', 'length of a step'),
    ],
    returns: 'A row for each step that has tasks: its number from 0, how many.',
    // The bounds of ring_ms are bigint, as the column is: for other types PostgreSQL would convert the column, and read
    // the whole topic. Overdue tasks are in the forecast only if now is, so a bound may depend on now.
    text: `SELECT ((greatest(ring_ms, tocsin.now_ms()) - $2::bigint) / $4::bigint)::integer AS step, count(*)
       FROM tocsin.live
       WHERE topic = $1 AND session IS NULL
         AND ring_ms >= CASE WHEN tocsin.now_ms() < $2::bigint THEN $2::bigint ELSE 0 END
         AND ring_ms < CASE WHEN tocsin.now_ms() < $3::bigint THEN $3::bigint ELSE 0 END
       GROUP BY 1`,
  },
  recount: {
    does: 'Returns the sums of the counters and the numbers of rows, both from one snapshot.',
    sentBy: 'Readings.recount',
    takes: [TOPIC],
    returns: `One row: ${BOOKS_ROW}; done, cancelled and obsolete tasks that were deleted; live, claimed; JSON of state to number of ended tasks.`,
    text: `SELECT ${BOOKS}, coalesce(sum(done_swept), 0)::bigint, coalesce(sum(cancelled_swept), 0)::bigint,
         coalesce(sum(obsolete_swept), 0)::bigint,
         (SELECT count(*) FROM tocsin.live WHERE topic = $1),
         (SELECT count(*) FROM tocsin.live WHERE topic = $1 AND session IS NOT NULL),
         (SELECT json_object_agg(state, tasks) FROM (
           SELECT state, sum(tasks) AS tasks FROM (
             SELECT state, count(*) AS tasks FROM tocsin.ended WHERE topic = $1 GROUP BY state
             UNION ALL SELECT state, sum(count) FROM tocsin.ended_batch WHERE topic = $1 GROUP BY state
           ) AS s GROUP BY state) AS e)
       FROM tocsin.tally WHERE topic = $1`,
  },
} as const satisfies Record<string, Statement>
