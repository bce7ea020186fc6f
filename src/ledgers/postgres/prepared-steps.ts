/**
 * The statements that nearly every task goes through, stored in the database as functions. Planning one of them takes a
 * millisecond or two, longer than running it for some dozens of tasks. In a function, PostgreSQL plans it once per
 * connection. Prepared statements would do the same, but not behind a transaction pooler.
 *
 * Only statements whose plan does not depend on the size of the tables: the plan is kept as long as the connection, and
 * may have been made when the tables were empty.
 *
 * A function has a hash of its definition in its name, so that two versions of Tocsin can use one database. If a function
 * is missing, because the role may not create it, the statement itself is sent.
 */
import { createHash } from 'node:crypto'
import { WRITES } from './statements/writes.ts'
import type { Statement } from './statements/statement.ts'

interface Step {
  readonly name: string
  readonly statement: Statement
  /** Statement that is tried first, on a condition: faster, and rolled back where a key has a live task already. */
  readonly fastPath?: { readonly statement: Statement; readonly when: string }
  /** Columns of the result. */
  readonly returns: readonly string[]
  /** Looks its rows up one by one, and has no other joins: on an empty table, the planner must not choose another way. */
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
    ],
    isByPlace: true,
  },
  {
    name: 'finish',
    statement: WRITES.finish,
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

/** Creates the functions that are missing, inside the open transaction. Returns false if the role may not create them. */
export async function makeSteps(connection: {
  query(text: string): Promise<{ rows: Record<string, unknown>[] }>
}): Promise<boolean> {
  const { rows } = await connection.query(
    "SELECT proname FROM pg_proc WHERE pronamespace = 'tocsin'::regnamespace",
  )
  const there = new Set(rows.map(({ proname }) => String(proname)))
  const missing = [...BY_TEXT.values()].filter(({ name }) => !there.has(name))
  if (missing.length === 0) return true
  const { rows: rights } = await connection.query("SELECT has_schema_privilege('tocsin', 'CREATE') AS may")
  if (rights[0]?.['may'] !== true) return false
  for (const { definition } of missing) await connection.query(definition)
  return true
}

/** Returns the call of the statement's function, or the text itself if it has none. */
export function asStep(text: string): string {
  return BY_TEXT.get(text)?.call ?? text
}
