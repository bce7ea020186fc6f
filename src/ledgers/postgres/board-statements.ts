/** What board.ts says to PostgreSQL. */
import { CHANGES_KEPT } from '../../board.ts'
import type { SlotBy } from '../../values/cell.ts'
import { BOARD_NEWS, CHANNEL } from './listener.ts'

const RECORD = 'topic, version, slots, slot_by, declared, live, is_paused'
export type RecordRow = [
  topic: string,
  version: number,
  slots: number,
  slotBy: SlotBy,
  declared: string,
  live: string,
  isPaused: boolean,
]

export type BeatRow = [
  id: string,
  beats: number,
  edition: number,
  ageMs: number,
  revision: string,
  nowMs: number,
]

/** At the commit this takes a lock of which the whole server has one: said when there is news, and never by a plain beat. */
const TELL = `pg_notify('${CHANNEL}', '${BOARD_NEWS}')::text`
const ms = (instant: string): string => `floor(extract(epoch FROM ${instant}) * 1000)::bigint`

/**
 * What changes with every creation and every change, whatever the order in which they are committed: the highest number
 * would hide one that got a lower number and was committed later. By what changed, too: after a server went on without
 * its last commits, as many others must not look the same.
 */
const REVISION = `SELECT count(*) || '-' || coalesce(sum(version), 0) || '-' || coalesce(sum(hashtext(concat_ws('/', topic, slots, slot_by, change_id))), 0)
      FROM tocsin.topic_config`

export const BOARD = {
  /**
   * $1 id, $2 edition, $3 card. A row for each node, its own among them. A beat that was thought lost, and comes late, counts,
   * but does not put up an older card again.
   */
  beat: `WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
    former AS (SELECT edition FROM tocsin.node WHERE id = $1),
    mine AS (
      INSERT INTO tocsin.node AS n (id, beats, edition, beat_at, card)
      SELECT $1, 1, $2::bigint, t.now, $3 FROM t
      ON CONFLICT (id) DO UPDATE SET beats = n.beats + 1, beat_at = excluded.beat_at,
        edition = greatest(n.edition, excluded.edition),
        card = CASE WHEN excluded.edition < n.edition THEN n.card ELSE excluded.card END
      RETURNING id, beats, edition
    ),
    told AS (
      SELECT ${TELL} FROM mine WHERE NOT EXISTS (SELECT FROM former WHERE former.edition >= mine.edition)
    ),
    -- As it was before this beat: its own row is above.
    others AS (
      SELECT id, beats, edition, greatest(0, ${ms('t.now')} - ${ms('beat_at')}) AS age_ms
      FROM tocsin.node, t WHERE id <> $1
    )
    SELECT h.*, (${REVISION}), ${ms('t.now')}, (SELECT count(*) FROM told)
    FROM t, (SELECT id, beats, edition, 0::bigint FROM mine UNION ALL SELECT * FROM others) h`,

  cards: 'SELECT card FROM tocsin.node ORDER BY id',

  leave: `WITH gone AS (DELETE FROM tocsin.node WHERE id = $1 RETURNING id) SELECT ${TELL} FROM gone`,

  /** Who is just beating is waited for, and stays. */
  bury: `WITH gone AS (DELETE FROM tocsin.node WHERE id = $1 AND beats = $2 RETURNING id) SELECT ${TELL} FROM gone`,

  records: `SELECT ${RECORD} FROM tocsin.topic_config ORDER BY topic`,

  /** $1 topic, $2 slots, $3 slotBy. No row: somebody else has just created it. */
  create: `WITH made AS (
      INSERT INTO tocsin.topic_config (${RECORD}) SELECT $1, 0, $2::smallint,
        -- Tasks that lie there already have fixed it.
        coalesce((SELECT slot_by FROM tocsin.topic WHERE name = $1 AND is_placed), $3), '{}', '{}', false
      ON CONFLICT (topic) DO NOTHING RETURNING ${RECORD}
    )
    SELECT ${RECORD}, ${TELL} FROM made UNION ALL SELECT ${RECORD}, '' FROM tocsin.topic_config WHERE topic = $1`,

  /**
   * $1 topic, $2 the version that is expected, $3 live, $4 whether it is paused, $5 the id of the change, $6 by, $7 patch,
   * $8 declared.
   */
  change: `WITH changed AS (
      UPDATE tocsin.topic_config SET version = version + 1, declared = $8, live = $3, is_paused = $4, change_id = $5
      WHERE topic = $1 AND version = $2::integer RETURNING ${RECORD}
    ),
    noted AS (
      INSERT INTO tocsin.config_change (topic, version, change_id, changed_at, changed_by, patch)
      SELECT topic, version, $5, clock_timestamp(), $6, $7 FROM changed
    ),
    pruned AS (
      DELETE FROM tocsin.config_change WHERE topic = $1 AND version <= (SELECT version - ${CHANGES_KEPT} FROM changed)
    )
    SELECT true, ${RECORD}, ${TELL} FROM changed
    UNION ALL
    SELECT EXISTS (
        SELECT FROM tocsin.config_change c WHERE c.topic = $1 AND c.version = $2::integer + 1 AND c.change_id = $5
      ), ${RECORD}, ''
    FROM tocsin.topic_config WHERE topic = $1 AND NOT EXISTS (SELECT FROM changed)`,

  history: `SELECT version, ${ms('changed_at')}, changed_by, patch FROM tocsin.config_change
    WHERE topic = $1 ORDER BY version DESC LIMIT $2`,

  tokens: 'SELECT token FROM tocsin.access_token',

  putToken: `INSERT INTO tocsin.access_token (id, token) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET token = excluded.token`,

  dropToken: 'DELETE FROM tocsin.access_token WHERE id = $1 RETURNING id',
} as const
