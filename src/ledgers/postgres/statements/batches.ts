/**
 * Parts of SQL about batches (tocsin.ended_batch): tasks of one claim call that ended together, in one row.
 *
 *   ended together ──▶ at least BATCH_MIN tasks of one claim, as most are ──▶ one row of tocsin.ended_batch
 *                  └─▶ the others: retried, tagged, few, cancelled, dead ───▶ a row each in tocsin.ended
 *
 * A row per task and its index entries were a third of the work of a burst. A task in a batch is found by the hash of its
 * key: the index of a cell's batches contains the hashes, so that a search reads the index, and then the few batches whose
 * hashes match. The batches of a page of a list are found by time.
 */
import { DEAD, priorityNumber } from '../../rows.ts'

/**
 * The smallest group of tasks that becomes a batch. A search for a key reads an index entry per batch of the cell, so small
 * batches would cost more than they save.
 */
export const BATCH_MIN = 32

/** The largest group of tasks that becomes one batch. Its hashes must fit into an index entry of 2,704 bytes. */
export const BATCH_TASKS_MAX = 500

/**
 * True for a live row `l` as most are. Only such tasks are in batches, so a batch has no columns for the others. A task whose
 * key has a dead task gets a row: then only rows tell whether a dead task is superseded. No dead task of the key can appear
 * meanwhile, because a key has one live task at a time, and this one ends now.
 */
export const IS_PLAIN = `l.failures = 0 AND l.deliveries = 1 AND l.priority = ${priorityNumber('normal')} AND l.tags IS NULL AND l.error IS NULL
      AND NOT ((SELECT count(*) FROM (SELECT FROM tocsin.ended WHERE topic = $1 AND state = ${DEAD} LIMIT 1) AS d) > 0
        AND EXISTS (SELECT FROM tocsin.ended d WHERE d.topic = $1 AND d.cell = l.cell AND d.key = l.key AND d.state = ${DEAD}))`

/** The hashes of a batch, from its keys. A prefix is hashed with its ':', because it may be a key, too. */
export const HASHES = `array_agg(tocsin.key_hash(key)) || coalesce(
      array_agg(DISTINCT tocsin.key_hash(split_part(key, ':', 1) || ':')) FILTER (WHERE strpos(key, ':') > 0), '{}')`

/** The tasks of the batch `b`, as the relation `x`. */
export const EXPANDED = `unnest(string_to_array(b.keys, E'\\x1e'), b.generations, b.dues_ms, b.created_ms, string_to_array(b.bodies, E'\\x1e'))
        AS x (key, generation, due_ms, created_ms, body)`

/** The columns of the view of an ended task, from a batch `b` and its task `x`. They are those of ENDED_COLUMNS. */
export const BATCHED_COLUMNS = `x.key, x.generation, b.state, b.ended_ms, x.due_ms, ${priorityNumber('normal')} AS priority, 0 AS failures,
  1 AS deliveries, x.created_ms, NULL::text AS error, NULL::text AS cause, NULL::text AS tags, x.body`

/**
 * Returns a FROM clause: the batches `b` of a cell that may contain a key. The inner query reads only the index. `also` is a
 * further condition for the inner query.
 */
export const batchesWith = (topic: string, cell: string, key: string, also = ''): string => `FROM (
      SELECT c.id FROM tocsin.ended_batch c
      WHERE c.topic = ${topic} AND c.cell = ${cell} AND tocsin.key_hash(${key}) = ANY (c.hashes)${also} OFFSET 0
    ) c
    CROSS JOIN LATERAL (SELECT * FROM tocsin.ended_batch b WHERE b.cell = ${cell} AND b.id = c.id OFFSET 0) b`
