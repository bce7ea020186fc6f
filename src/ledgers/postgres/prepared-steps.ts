/**
 * The statements that nearly every task goes through, kept in the database as functions. To plan one of them takes a
 * millisecond or two, which is more than it takes to carry it out for some dozens of tasks; in a function PostgreSQL
 * plans it once per connection. Prepared statements would do the same, but not behind a pooler.
 *
 * Only statements whose plan does not depend on how large the tables are: it is kept as long as the connection, and may
 * have been made when they were empty.
 *
 * The statement here is the truth: a function is named by what it does, so that two versions of Tocsin on one database
 * do not disturb each other. Where it is not there, because nobody had the right to make it, the statement is said as
 * it is.
 */
import { createHash } from 'node:crypto'
import { WRITES } from './write-statements.ts'

interface Step {
  readonly name: string
  readonly text: string
  /** Tried first, on a condition: quicker, and undone where a key is already there. */
  readonly hopeful?: { readonly text: string; readonly when: string }
  readonly takes: readonly string[]
  readonly gives: readonly string[]
  /** It looks its rows up one by one, and has no other joins: an empty table must not lead the planner to another way. */
  readonly isByPlace?: boolean
}

const PLACES = ['integer', 'smallint[]', 'text[]']

const STEPS: readonly Step[] = [
  {
    name: 'schedule',
    text: WRITES.schedule,
    // What hopes that every key is new is undone where one is not, and then said as it should be.
    hopeful: { text: WRITES.scheduleNew, when: '$14' },
    takes: [
      ...PLACES,
      'bigint[]',
      'boolean[]',
      'smallint[]',
      'text[]',
      'text[]',
      'bigint',
      'integer',
      'text',
      'bigint',
      'text',
      'boolean',
    ],
    gives: ['now_ms float8', 'superseded text', 'written text', 'kept text', 'told text'],
  },
  {
    name: 'claim',
    text: WRITES.claim,
    takes: [...PLACES, 'bigint[]', 'bigint[]', 'bigint[]', 'boolean[]', 'bigint'],
    gives: [
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
    text: WRITES.finish,
    takes: [...PLACES, 'bigint[]', 'smallint[]', 'bigint', 'integer'],
    gives: ['ended text'],
    isByPlace: true,
  },
]

const BY_PLACE = ['seqscan', 'hashjoin', 'mergejoin'].map((way) => `SET enable_${way} = off`).join(' ')

function definitionOf({ text, hopeful, takes, gives, isByPlace = false }: Step, name: string): string {
  const first =
    hopeful === undefined
      ? ''
      : `IF ${hopeful.when} THEN
        BEGIN RETURN QUERY ${hopeful.text}; RETURN; EXCEPTION WHEN unique_violation THEN NULL; END;
      END IF;`
  return `CREATE OR REPLACE FUNCTION tocsin.${name} (${takes.join(', ')})
    RETURNS TABLE (${gives.join(', ')}) LANGUAGE plpgsql
    -- Of arrays of any length one plan is the best; and to compile a plan takes longer than these do.
    SET plan_cache_mode = force_generic_plan SET jit = off ${isByPlace ? BY_PLACE : ''} AS $tocsin$
    #variable_conflict use_column
    BEGIN ${first} RETURN QUERY ${text}; END $tocsin$`
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
    const values = step.takes.map((type, i) => `$${i + 1}::${type}`).join(', ')
    const made = {
      name,
      definition: definitionOf(step, name),
      call: `SELECT * FROM tocsin.${name} (${values})`,
    }
    return [step.text, made]
  }),
)

/** Makes what is missing, inside the transaction that is open. Answers whether all are there. */
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

/** How a statement is said where its function is there. */
export function asStep(text: string): string {
  return BY_TEXT.get(text)?.call ?? text
}
