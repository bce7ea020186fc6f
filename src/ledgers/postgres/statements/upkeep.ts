/** The statements that open the ledger, and the statements of its periodic maintenance. */
import { BATCH_MAX } from '../../../lib/batch-max.ts'
import { COUNTERS } from '../../rows.ts'
import { param, type Statement, TOPIC } from './statement.ts'

/** The maximum number of rows of tocsin.tally that one statement merges. These rows are the counters of the topics. */
const MERGED_MAX = 10_000

const SUMS = COUNTERS.map((name) => `coalesce(sum(${name}), 0)`).join(', ')

export const UPKEEP = {
  server: {
    does: 'Returns the version of the server, and whether it is a standby.',
    sentBy: 'openPostgres',
    takes: [],
    returns: 'One row: server_version_num, a boolean.',
    text: "SELECT current_setting('server_version_num')::integer, pg_is_in_recovery()",
  },
  newSession: {
    does: 'Returns the number of a new session. Claims are held under the session of the process and the stamp of the claim.',
    sentBy: 'openPostgres',
    takes: [],
    returns: 'One row: the number.',
    text: "SELECT nextval('tocsin.session')",
  },
  now: {
    does: 'Returns the time of the clock of record, in Unix milliseconds.',
    sentBy: 'PostgresLedger.nowMs',
    takes: [],
    returns: 'One row: the time.',
    text: 'SELECT tocsin.now_ms()',
  },
  takeFeed: {
    does:
      'Takes tasks from the commit feed (tocsin.news). If the process dies before it updates the ' +
      'timetable, the sweeper finds the tasks when they are overdue.',
    sentBy: 'PostgresLedger.committedWrites',
    takes: [TOPIC],
    returns: 'A row for each task: cell, key.',
    text: `DELETE FROM tocsin.news WHERE ctid = ANY (ARRAY(
    SELECT ctid FROM tocsin.news WHERE topic = $1 LIMIT ${BATCH_MAX} FOR UPDATE SKIP LOCKED
  )) RETURNING cell, key`,
  },
  mergeBooks: {
    does:
      'Merges rows of tocsin.tally into one row. A write that changes counters appends a row with its ' +
      'changes; the sums of the rows are the counters.',
    sentBy: 'PostgresLedger.forget',
    takes: [TOPIC],
    returns: 'Nothing.',
    text: `WITH rows AS (
         DELETE FROM tocsin.tally WHERE ctid = ANY (ARRAY(
           SELECT ctid FROM tocsin.tally WHERE topic = $1 LIMIT ${MERGED_MAX} FOR UPDATE SKIP LOCKED
         )) RETURNING *
       )
       INSERT INTO tocsin.tally (topic, ${COUNTERS.join(', ')}) SELECT $1, ${SUMS} FROM rows HAVING count(*) > 0`,
  },
  notify: {
    does: 'Sends a message to this process itself, to find out whether LISTEN works on its connection.',
    sentBy: 'Listener',
    takes: [param('channel', 'text'), param('payload', 'text')],
    returns: 'One row.',
    text: 'SELECT pg_notify($1, $2)',
  },
} as const satisfies Record<string, Statement>
