/** The statements that are sent in the transactions of callers and handlers, in addition to the writes. */
import { param, SESSION, type Statement, STAMPS, TASKS } from './statement.ts'

export const TRANSACTIONS = {
  currentId: {
    does: 'Returns the id of the current transaction. Outside of a transaction each statement has an id of its own.',
    sentBy: 'CallerTransaction, OpenHandlerTransaction',
    takes: [],
    returns: 'One row: the id, as text.',
    text: 'SELECT pg_current_xact_id()::text AS xid',
  },
  hasLedger: {
    does:
      'Checks whether the database has a ledger. This is a separate statement, because ledger_id would ' +
      'abort the transaction if the table is missing.',
    sentBy: 'CallerTransactions',
    takes: [],
    returns: 'One row: a boolean.',
    text: "SELECT to_regclass('tocsin.meta') IS NOT NULL AS there",
  },
  ledgerId: {
    does: 'Returns the id of the ledger.',
    sentBy: 'CallerTransactions',
    takes: [],
    returns: 'One row: the id.',
    text: "SELECT value FROM tocsin.meta WHERE name = 'id'",
  },
  feed: {
    does:
      'Adds the tasks of a write to the commit feed (tocsin.news). Does nothing if the current ' +
      'transaction has another id.',
    sentBy: 'CallerTransaction',
    takes: [...TASKS, param('transaction_id', 'text')],
    returns: 'A row for each task; none in another transaction.',
    text: `INSERT INTO tocsin.news SELECT $1::integer, unnest($2::smallint[]), unnest($3::text[])
  WHERE $4::text = pg_current_xact_id()::text RETURNING cell`,
  },
  hold: {
    does: 'Locks the tasks that are held under these stamps, by primary key and in order, until the handler commits.',
    sentBy: 'OpenHandlerTransaction.hold',
    takes: [...TASKS, STAMPS, SESSION],
    returns: 'A row for each that is held: key.',
    text: `SELECT l.key FROM (
    SELECT * FROM unnest($2::smallint[], $3::text[], $4::bigint[]) AS i (cell, key, stamp) ORDER BY cell, key
  ) i CROSS JOIN LATERAL (
    SELECT l.key FROM tocsin.live l WHERE l.topic = $1::integer AND l.cell = i.cell AND l.key = i.key
      AND l.session = $5::bigint AND l.stamp = i.stamp FOR UPDATE
  ) l`,
  },
} as const satisfies Record<string, Statement>
