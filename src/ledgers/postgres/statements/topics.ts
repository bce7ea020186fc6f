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
    does: 'Fixes how the keys of a topic are placed, with its first task. Skips a row that another transaction holds.',
    sentBy: 'Topics.placed',
    takes: PLACING,
    returns: 'One row if it is placed so; none if it is placed otherwise, or locked.',
    text: `UPDATE tocsin.topic SET slot_by = $2, merge_ms = $3, is_placed = true
  WHERE id = (SELECT id FROM tocsin.topic WHERE id = $1 FOR UPDATE SKIP LOCKED) AND (NOT is_placed OR slot_by = $2)
  RETURNING id`,
  },
  announce: {
    does: "Stores how the keys of a topic will be placed, as long as it has no task. 'key' is also the default, so a program that sets 'prefix' replaces it. Skips a row that another transaction holds.",
    sentBy: 'Topics.announce',
    takes: PLACING,
    returns: 'One row if it was stored.',
    text: `UPDATE tocsin.topic SET slot_by = $2, merge_ms = $3
  WHERE id = (SELECT id FROM tocsin.topic WHERE id = $1 FOR UPDATE SKIP LOCKED)
    AND (slot_by IS NULL OR slot_by = $2 OR (NOT is_placed AND slot_by = 'key')) RETURNING id`,
  },
  slotBy: {
    does: 'Returns how the keys of a topic are placed, or will be.',
    sentBy: 'Topics.placed',
    takes: [TOPIC],
    returns: 'One row: slot_by.',
    text: 'SELECT slot_by FROM tocsin.topic WHERE id = $1',
  },
  fixedSlotBy: {
    does: 'Returns how the keys of a topic are placed, once that is fixed.',
    sentBy: 'Topics.agreed',
    takes: [TOPIC],
    returns: 'One row: slot_by. None if it may still change.',
    text: 'SELECT slot_by FROM tocsin.topic WHERE id = $1 AND is_placed',
  },
} as const satisfies Record<string, Statement>
