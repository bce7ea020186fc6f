/** The statements of the board: node cards, settings of topics, and access tokens. */
import { CHANGES_KEPT } from '../../../board.ts'
import type { SlotBy } from '../../../values/cell.ts'
import { BOARD_CHANGED, CHANNEL } from '../channel.ts'
import { param, type Statement } from './statement.ts'

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

/**
 * The expression that sends a NOTIFY. At the commit, NOTIFY takes a lock that all databases of the server share. So a
 * NOTIFY is sent only for changes, never for a beat that changes nothing.
 */
const NOTIFY = `pg_notify('${CHANNEL}', '${BOARD_CHANGED}')::text`
const ms = (instant: string): string => `floor(extract(epoch FROM ${instant}) * 1000)::bigint`

/**
 * A query for a text that differs after every creation and every change, in whatever order these commit. The highest
 * version alone would not be enough, because a later commit may have a lower version. The hash is for a failover in
 * which the server loses its last commits. If the same number of other changes follows, count and sum are the same as
 * before the failover, and only the hash differs.
 */
const REVISION = `SELECT count(*) || '-' || coalesce(sum(version), 0) || '-' || coalesce(sum(hashtext(concat_ws('/', topic, slots, slot_by, change_id))), 0)
      FROM tocsin.topic_config`

const NODE = param('id', 'text', 'id of the node')
const TOPIC = param('topic', 'text', 'name of the topic')
const TOKEN_ID = param('id', 'text', 'id of the token')

export const BOARD = {
  beat: {
    does:
      'Counts a beat of a node, stores its card, and sends a NOTIFY if the card is new. A delayed beat ' +
      'counts, but does not replace a newer card.',
    sentBy: 'PostgresBoard.beat',
    takes: [NODE, param('edition', 'bigint', 'number of the card'), param('card', 'text', 'as JSON')],
    returns:
      'A row for each node, its own included: id, beats, edition, milliseconds since its beat; revision of the board, now_ms.',
    text: `WITH t AS MATERIALIZED (SELECT clock_timestamp() AS now),
    former AS (SELECT edition FROM tocsin.node WHERE id = $1),
    mine AS (
      INSERT INTO tocsin.node AS n (id, beats, edition, beat_at, card, reads_batches)
      SELECT $1, 1, $2::bigint, t.now, $3, true FROM t
      ON CONFLICT (id) DO UPDATE SET beats = n.beats + 1, beat_at = excluded.beat_at,
        edition = greatest(n.edition, excluded.edition),
        card = CASE WHEN excluded.edition < n.edition THEN n.card ELSE excluded.card END
      RETURNING id, beats, edition
    ),
    told AS (
      SELECT ${NOTIFY} FROM mine WHERE NOT EXISTS (SELECT FROM former WHERE former.edition >= mine.edition)
    ),
    -- This query does not see the row that "mine" has just written. So the node's own row is taken from "mine".
    others AS (
      SELECT id, beats, edition, greatest(0, ${ms('t.now')} - ${ms('beat_at')}) AS age_ms
      FROM tocsin.node, t WHERE id <> $1
    )
    SELECT h.*, (${REVISION}), ${ms('t.now')}, (SELECT count(*) FROM told)
    FROM t, (SELECT id, beats, edition, 0::bigint FROM mine UNION ALL SELECT * FROM others) h`,
  },

  cards: {
    does: 'Returns the cards of all nodes.',
    sentBy: 'PostgresBoard.cards',
    takes: [],
    returns: 'A row for each node: card, as JSON.',
    text: 'SELECT card FROM tocsin.node ORDER BY id',
  },

  readsBatches: {
    does: 'Returns whether all nodes read batches of ended tasks (tocsin.ended_batch).',
    sentBy: 'PostgresBoard.readsBatches',
    takes: [],
    returns: 'One row: a boolean.',
    text: 'SELECT NOT EXISTS (SELECT FROM tocsin.node WHERE NOT reads_batches)',
  },
  leave: {
    does: 'Removes a node that shuts down.',
    sentBy: 'PostgresBoard.leave',
    takes: [NODE],
    returns: 'One row if it was there.',
    text: `WITH gone AS (DELETE FROM tocsin.node WHERE id = $1 RETURNING id) SELECT ${NOTIFY} FROM gone`,
  },

  bury: {
    does: 'Removes a dead node, unless its count of beats has changed. Waits for a concurrent beat.',
    sentBy: 'PostgresBoard.bury',
    takes: [NODE, param('beats', 'bigint', 'the count of beats when the node was found dead')],
    returns: 'One row if it was removed.',
    text: `WITH gone AS (DELETE FROM tocsin.node WHERE id = $1 AND beats = $2 RETURNING id) SELECT ${NOTIFY} FROM gone`,
  },

  records: {
    does: 'Returns the settings of all topics.',
    sentBy: 'PostgresBoard.records',
    takes: [],
    returns: `A row for each topic: ${RECORD}.`,
    text: `SELECT ${RECORD} FROM tocsin.topic_config ORDER BY topic`,
  },

  create: {
    does:
      'Creates the settings of a topic if they do not exist. If the slot_by of the topic is already ' +
      'final, the settings get that slot_by.',
    sentBy: 'PostgresBoard.create',
    takes: [TOPIC, param('slots', 'smallint'), param('slot_by', 'text', "'key' or 'prefix'")],
    returns: `One row: ${RECORD}. None if another process has just created them: send it again.`,
    text: `WITH made AS (
      INSERT INTO tocsin.topic_config (${RECORD}) SELECT $1, 0, $2::smallint,
        coalesce((SELECT slot_by FROM tocsin.topic WHERE name = $1 AND is_placed), $3), '{}', '{}', false
      ON CONFLICT (topic) DO NOTHING RETURNING ${RECORD}
    )
    SELECT ${RECORD}, ${NOTIFY} FROM made UNION ALL SELECT ${RECORD}, '' FROM tocsin.topic_config WHERE topic = $1`,
  },

  change: {
    does: 'Changes the settings of a topic if they have the expected version, and notes the change in the history.',
    sentBy: 'PostgresBoard.change',
    takes: [
      TOPIC,
      param('expected', 'integer', 'version before the change'),
      param('live', 'text', 'as JSON'),
      param('is_paused', 'boolean'),
      param('change_id', 'text', 'id by which a repeated change is recognized'),
      param('changed_by', 'text'),
      param('patch', 'text', 'as JSON'),
      param('declared', 'text', 'as JSON'),
    ],
    returns: `One row: whether this change made the next version, ${RECORD}. None if there is no such topic.`,
    text: `WITH changed AS (
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
    SELECT true, ${RECORD}, ${NOTIFY} FROM changed
    UNION ALL
    SELECT EXISTS (
        SELECT FROM tocsin.config_change c WHERE c.topic = $1 AND c.version = $2::integer + 1 AND c.change_id = $5
      ), ${RECORD}, ''
    FROM tocsin.topic_config WHERE topic = $1 AND NOT EXISTS (SELECT FROM changed)`,
  },

  history: {
    does: 'Returns the last changes of the settings of a topic, the newest first.',
    sentBy: 'PostgresBoard.history',
    takes: [TOPIC, param('limit', 'bigint')],
    returns: 'A row for each change: version, when in Unix milliseconds, by whom, patch as JSON.',
    text: `SELECT version, ${ms('changed_at')}, changed_by, patch FROM tocsin.config_change
    WHERE topic = $1 ORDER BY version DESC LIMIT $2`,
  },

  tokens: {
    does: 'Returns all access tokens.',
    sentBy: 'PostgresBoard.tokens',
    takes: [],
    returns: 'A row for each token, as JSON.',
    text: 'SELECT token FROM tocsin.access_token',
  },

  putToken: {
    does: 'Stores an access token.',
    sentBy: 'PostgresBoard.putToken',
    takes: [TOKEN_ID, param('token', 'text', 'as JSON')],
    returns: 'Nothing.',
    text: `INSERT INTO tocsin.access_token (id, token) VALUES ($1, $2)
    ON CONFLICT (id) DO UPDATE SET token = excluded.token`,
  },

  dropToken: {
    does: 'Deletes an access token.',
    sentBy: 'PostgresBoard.dropToken',
    takes: [TOKEN_ID],
    returns: 'One row if it was there.',
    text: 'DELETE FROM tocsin.access_token WHERE id = $1 RETURNING id',
  },
} as const satisfies Record<string, Statement>
