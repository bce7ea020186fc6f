/**
 * The statements for topics. They read and store the ids of topics, and how the keys of a topic are assigned to cells.
 */
import { param, type Statement, TOPIC } from './statement.ts'

const NAME = [param('name', 'text')] as const
const PLACING = [TOPIC, param('slot_by', 'text', "'key' or 'prefix'"), param('merge_ms', 'bigint')] as const

export const TOPICS = {
  list: {
    does: 'Returns the names of all topics.',
    sentBy: 'PostgresLedger.topics',
    takes: [],
    returns: 'A row for each topic: name.',
    text: 'SELECT name FROM tocsin.topic ORDER BY name',
  },
  find: {
    does: 'Looks up the id of a topic.',
    sentBy: 'Topics.seen',
    takes: NAME,
    returns: 'One row: id. None if there is no such topic.',
    text: 'SELECT id FROM tocsin.topic WHERE name = $1',
  },
  create: {
    does: 'Creates a topic if it is not there.',
    sentBy: 'Topics.made',
    takes: NAME,
    returns: 'Nothing.',
    text: 'INSERT INTO tocsin.topic (name) VALUES ($1) ON CONFLICT DO NOTHING',
  },
  place: {
    does: 'Stores the placing of a topic and makes slot_by final. Skips the row if another transaction has locked it.',
    sentBy: 'Topics.placed',
    takes: PLACING,
    returns: 'One row if the placing was stored. None if another slot_by is final, or if the row is locked.',
    text: `UPDATE tocsin.topic SET slot_by = $2, merge_ms = $3, is_placed = true
  WHERE id = (SELECT id FROM tocsin.topic WHERE id = $1 FOR UPDATE SKIP LOCKED) AND (NOT is_placed OR slot_by = $2)
  RETURNING id`,
  },
  announce: {
    does:
      'Stores the placing of a topic without making slot_by final. As long as slot_by is not final, ' +
      "'prefix' replaces 'key', because 'key' is the default. Skips the row if another transaction has " +
      'locked it.',
    sentBy: 'Topics.announce',
    takes: PLACING,
    returns: 'One row if it was stored.',
    text: `UPDATE tocsin.topic SET slot_by = $2, merge_ms = $3
  WHERE id = (SELECT id FROM tocsin.topic WHERE id = $1 FOR UPDATE SKIP LOCKED)
    AND (slot_by IS NULL OR slot_by = $2 OR (NOT is_placed AND slot_by = 'key')) RETURNING id`,
  },
  slotBy: {
    does:
      'Returns the stored slot_by of a topic, and whether it is final. Waits for a transaction that may change ' +
      'slot_by, and not for one that only makes it final.',
    sentBy: 'Topics.placed',
    takes: [TOPIC],
    returns: 'One row: slot_by, a boolean.',
    text: 'SELECT slot_by, is_placed FROM tocsin.topic WHERE id = $1 FOR KEY SHARE',
  },
  fixedSlotBy: {
    does: 'Returns the slot_by of a topic if it is final.',
    sentBy: 'Topics.agreed',
    takes: [TOPIC],
    returns: 'One row: slot_by. None if slot_by is not final.',
    text: 'SELECT slot_by FROM tocsin.topic WHERE id = $1 AND is_placed',
  },
} as const satisfies Record<string, Statement>
