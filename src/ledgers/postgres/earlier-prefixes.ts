/** Tasks that an earlier version stored for a prefix. */
import { TocsinError } from '../../errors.ts'
import type { Schema } from './schema.ts'

/**
 * The name of a row in the table meta. Exists if the ledger was created by a version that keeps each prefix in a schema
 * of its own. Earlier versions kept the tasks of all prefixes in the schema 'tocsin'.
 */
export const ISOLATED = 'isolated'

/** A connection that sends each text unchanged. */
interface Connection {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[] }>
}

/**
 * Throws if the schema of a prefix would be created now, and an earlier version may have stored tasks of this prefix in
 * the schema 'tocsin': these tasks would never ring. If a user has created the schema, the question is answered.
 */
export async function refuseEarlierTasks(
  connection: Connection,
  schema: Schema,
  where: string,
): Promise<void> {
  if (schema.isDefault || schema.prefix === null) return
  // The privileges are checked, too: a role that may not read these tables has no tasks there.
  const { rows: found } = await connection.query(
    `SELECT count(*) = 2 AS is_doubtful FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace
     WHERE nspname = 'tocsin' AND relname IN ('live', 'meta') AND to_regnamespace($1) IS NULL
       AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')`,
    [schema.quoted],
  )
  if (found[0]?.['is_doubtful'] !== true) return
  const { rows } = await connection.query(
    `SELECT EXISTS (SELECT FROM tocsin.live)
       AND NOT EXISTS (SELECT FROM tocsin.meta WHERE name = $1) AS has_earlier_tasks`,
    [ISOLATED],
  )
  if (rows[0]?.['has_earlier_tasks'] !== true) return
  throw new TocsinError(
    'ledger-refused',
    `${where}: an earlier version stored the tasks of all prefixes in the schema tocsin, and it has tasks. To keep using them, leave the prefix out. To begin with the empty schema of the prefix '${schema.prefix}', create it: CREATE SCHEMA ${schema.quoted}`,
    { field: 'prefix' },
  )
}
