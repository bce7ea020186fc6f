/** The SQL statements of transitions.ts. */
import { ALONE, DEAD, STARTED_ALONE } from '../rows.ts'
import { IS_SUPERSEDED } from './rows.ts'

const AT = 'topic = ? AND cell = ? AND key = ?'
const FREE = 'session = NULL, stamp = NULL, lease_ms = NULL, started = 0'
const CARRIED = 'topic, cell, key, due_ms, priority, deliveries, created_ms, tags, checksum, body'

export const WRITES = {
  newTopic: 'INSERT INTO tocsin_topic (name) VALUES (?) ON CONFLICT DO NOTHING',
  topic: 'SELECT id FROM tocsin_topic WHERE name = ?',
  generations: `INSERT INTO tocsin_meta (name, value) VALUES ('generations', ?)
      ON CONFLICT (name) DO UPDATE SET value = value + excluded.value RETURNING value`,
  row: `SELECT * FROM tocsin_live WHERE ${AT}`,
  isHeldUnder: `SELECT 1 FROM tocsin_live WHERE ${AT} AND session = ? AND stamp = ?`,
  insert: `INSERT INTO tocsin_live
      (topic, cell, key, generation, due_ms, ring_ms, priority, created_ms, updated_ms, tags, checksum, body)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (topic, cell, key) DO NOTHING`,
  remove: `DELETE FROM tocsin_live WHERE ${AT}`,
  tag: 'INSERT INTO tocsin_tag (topic, tag, cell, key) VALUES (?, ?, ?, ?)',
  untag: 'DELETE FROM tocsin_tag WHERE topic = ? AND tag = ? AND cell = ? AND key = ?',
  mark: `UPDATE tocsin_live SET marked = 1 WHERE ${AT}`,
  move: `UPDATE tocsin_live SET due_ms = ?, ring_ms = ?, updated_ms = ?, failures = 0, lost = 0,
      ${FREE} WHERE ${AT}`,
  take: `UPDATE tocsin_live SET session = ?, stamp = ?, lease_ms = ?, started = ?,
      deliveries = deliveries + 1 WHERE ${AT} AND session IS NULL AND ring_ms <= ? AND lost < ?
      RETURNING generation, key, body, checksum, due_ms, ring_ms, failures, deliveries, tags, priority`,
  begin: `UPDATE tocsin_live SET started = ${STARTED_ALONE} WHERE ${AT} AND started = ${ALONE}`,
  extend: `UPDATE tocsin_live SET lease_ms = ? WHERE ${AT} AND session = ? AND stamp = ?`,
  again: `UPDATE tocsin_live SET ring_ms = ?, failures = ?, error = ?, updated_ms = ?, lost = 0,
      ${FREE} WHERE ${AT}`,
  release: `UPDATE tocsin_live SET ring_ms = ?, lost = ?, updated_ms = ?, ${FREE} WHERE ${AT}`,
  giveBack: `UPDATE tocsin_live SET ${FREE}, deliveries = deliveries - 1 WHERE ${AT}`,
  end: `INSERT INTO tocsin_ended (generation, state, ended_ms, failures, error, ${CARRIED})
      SELECT generation, ?, ?, failures, error, ${CARRIED} FROM tocsin_live
      WHERE ${AT} AND session IS ? AND stamp IS ? RETURNING tags`,
  tagsUnder: `SELECT tags FROM tocsin_live WHERE ${AT} AND session IS ? AND stamp IS ?`,
  bury: `INSERT INTO tocsin_ended (generation, state, ended_ms, failures, error, cause, ${CARRIED})
      SELECT generation, ?, ?, ?, ?, ?, ${CARRIED} FROM tocsin_live WHERE ${AT}`,
  grave: `SELECT *, ${IS_SUPERSEDED} AS is_superseded FROM tocsin_ended e WHERE ${AT} AND state = ${DEAD}`,
  revive: `INSERT INTO tocsin_live (generation, topic, cell, key, due_ms, ring_ms, updated_ms, priority,
      deliveries, created_ms, tags, checksum, body)
      SELECT generation, topic, cell, key, ?, ?, ?, priority, deliveries, created_ms, tags, checksum, body
      FROM tocsin_ended WHERE ${AT} AND state = ${DEAD}`,
  purge: `DELETE FROM tocsin_ended WHERE topic = ? AND cell = ? AND key = ? AND state = ${DEAD}`,
  outrankNewer: `UPDATE tocsin_ended INDEXED BY tocsin_ended_place SET outranked = 1
      WHERE ${AT} AND generation > ?`,
  outrankDeadOf: `UPDATE tocsin_ended SET outranked = 1 WHERE ${AT} AND state = ${DEAD}`,
  // For the dead tasks that the next tasks to sweep supersede.
  outrankDead: `UPDATE tocsin_ended SET outranked = 1 WHERE (topic, cell, key) IN (
      SELECT s.topic, s.cell, s.key FROM (
        SELECT topic, cell, key, generation, outranked FROM tocsin_ended
        WHERE topic = ? AND state = ? AND ended_ms < ? ORDER BY ended_ms, key, generation LIMIT ?
      ) AS s JOIN tocsin_ended d ON d.topic = s.topic AND d.cell = s.cell AND d.key = s.key AND d.state = ${DEAD}
      WHERE d.generation < s.generation AND NOT s.outranked
    ) AND state = ${DEAD}`,
  sweep: `DELETE FROM tocsin_ended WHERE (topic, state, ended_ms, key, generation) IN (
      SELECT topic, state, ended_ms, key, generation FROM tocsin_ended
      WHERE topic = ? AND state = ? AND ended_ms < ? ORDER BY ended_ms, key, generation LIMIT ?)`,
  deadCount: 'SELECT dead FROM tocsin_topic WHERE id = ?',
  oldDead: `SELECT cell, key, ended_ms FROM tocsin_ended
      WHERE topic = ? AND state = ${DEAD} ORDER BY ended_ms LIMIT ?`,
} as const

/** Names of the statements that return only the first column of each row. */
export const PLUCKED: ReadonlySet<string> = new Set(['topic', 'generations', 'end', 'tagsUnder', 'deadCount'])
