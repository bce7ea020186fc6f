/**
 * The statements that run for nearly every task, stored in the database as functions. Planning such a statement takes
 * one or two milliseconds, longer than running it for some dozens of tasks. PostgreSQL plans the statement of a
 * function only once per connection. Prepared statements would save the same time, but do not work behind a transaction
 * pooler.
 *
 * A statement may be stored as a function only if its best plan does not depend on the size of the tables. PostgreSQL
 * keeps the plan as long as the connection, and may have made the plan while the tables were empty.
 *
 * The name of a function contains a hash of its definition, so that two versions of Tocsin can use one database. If the
 * functions are missing because the role may not create them, the ledger sends the statements themselves.
 */
import { createHash } from 'node:crypto'
import { WRITES } from './statements/writes.ts'
import type { Statement } from './statements/statement.ts'

interface Step {
  readonly name: string
  readonly statement: Statement
  /**
   * A faster statement that is tried first if the SQL condition `when` is true. If a key already has a live task,
   * PostgreSQL rolls this statement back, and `statement` runs instead.
   */
  readonly fastPath?: { readonly statement: Statement; readonly when: string }
  /** The columns of the result. */
  readonly returns: readonly string[]
  /**
   * True if the statement only looks up single rows. Then the function forbids sequential scans, hash joins and merge
   * joins, which the planner would prefer while the table is empty.
   */
  readonly isByPlace?: boolean
}

const STEPS: readonly Step[] = [
  {
    name: 'schedule',
    statement: WRITES.schedule,
    fastPath: { statement: WRITES.scheduleNew, when: '$14' },
    returns: ['now_ms float8', 'superseded text', 'written text', 'kept text', 'told text'],
  },
  {
    name: 'claim_groups',
    statement: WRITES.claimGroups,
    returns: [
      'n integer',
      'keys text',
      'generations text',
      'dues_ms text',
      'others text',
      'bodies text',
      'ctids text',
    ],
    isByPlace: true,
  },
  {
    name: 'claim',
    statement: WRITES.claim,
    returns: [
      'n text',
      'generation text',
      'due_ms text',
      'ring_ms text',
      'failures text',
      'deliveries text',
      'priority text',
      'tags text',
      'body text',
      'left_out text',
    ],
    isByPlace: true,
  },
  {
    name: 'finish',
    statement: WRITES.finish,
    returns: ['ended text'],
    isByPlace: true,
  },
  {
    name: 'finish_unkept',
    statement: WRITES.finishUnkept,
    returns: ['ended text'],
    isByPlace: true,
  },
]

const BY_PLACE = ['seqscan', 'hashjoin', 'mergejoin'].map((way) => `SET enable_${way} = off`).join(' ')

const typesOf = ({ takes }: Statement): string[] => takes.map(({ type }) => type)

function definitionOf({ statement, fastPath, returns, isByPlace = false }: Step, name: string): string {
  const first =
    fastPath === undefined
      ? ''
      : `IF ${fastPath.when} THEN
        BEGIN RETURN QUERY ${fastPath.statement.text}; RETURN; EXCEPTION WHEN unique_violation THEN NULL; END;
      END IF;`
  return `CREATE OR REPLACE FUNCTION tocsin.${name} (${typesOf(statement).join(', ')})
    RETURNS TABLE (${returns.join(', ')}) LANGUAGE plpgsql
    -- One generic plan is the best for arrays of any length, and JIT compilation takes longer than these statements do.
    SET plan_cache_mode = force_generic_plan SET jit = off ${isByPlace ? BY_PLACE : ''} AS $tocsin$
    #variable_conflict use_column
    BEGIN ${first} RETURN QUERY ${statement.text}; END $tocsin$`
}

interface Made {
  readonly name: string
  readonly definition: string
  readonly call: string
}

const BY_TEXT: ReadonlyMap<string, Made> = new Map(
  STEPS.map((step) => {
    const body = definitionOf(step, 'f')
    const name = `${step.name}_${createHash('sha256').update(body).digest('hex').slice(0, 12)}`
    const values = typesOf(step.statement)
      .map((type, i) => `$${i + 1}::${type}`)
      .join(', ')
    const made = {
      name,
      definition: definitionOf(step, name),
      call: `SELECT * FROM tocsin.${name} (${values})`,
    }
    return [step.statement.text, made]
  }),
)

/** Creates the missing functions, in the open transaction. Returns false if the role may not create them. */
export async function makeSteps(connection: {
  query(text: string): Promise<{ rows: Record<string, unknown>[] }>
}): Promise<boolean> {
  const { rows } = await connection.query(
    "SELECT proname FROM pg_proc JOIN pg_namespace n ON n.oid = pronamespace WHERE nspname = 'tocsin'",
  )
  const there = new Set(rows.map(({ proname }) => String(proname)))
  const missing = [...BY_TEXT.values()].filter(({ name }) => !there.has(name))
  if (missing.length === 0) return true
  const { rows: rights } = await connection.query("SELECT has_schema_privilege('tocsin', 'CREATE') AS may")
  if (rights[0]?.['may'] !== true) return false
  for (const { definition } of missing) await connection.query(definition)
  return true
}

/** Returns a call of the statement's function, or the text itself if the statement has no function. */
export function asStep(text: string): string {
  return BY_TEXT.get(text)?.call ?? text
}
