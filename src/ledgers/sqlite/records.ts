/** Stores the settings of topics in rows. The caller of a method that writes begins and commits the transaction. */
import type { Database, Statement } from 'better-sqlite3'
import {
  CHANGES_KEPT,
  type ChangeAnswer,
  type PastChange,
  type RecordChange,
  type TopicRecord,
} from '../../board.ts'
import type { SlotBy } from '../../values/cell.ts'
import type { TopicConfig } from '../../values/config.ts'
import type { StepTime } from './step-time.ts'

const STATEMENTS = {
  all: 'SELECT * FROM tocsin_config ORDER BY topic',
  one: 'SELECT * FROM tocsin_config WHERE topic = ?',
  revision: "SELECT count(*) || '-' || coalesce(sum(version), 0) FROM tocsin_config",
  history: 'SELECT * FROM tocsin_config_change WHERE topic = ? ORDER BY version DESC LIMIT ?',
  create: `INSERT INTO tocsin_config (topic, version, slots, slot_by, live, is_paused)
      VALUES (?, 0, ?, ?, '{}', 0) ON CONFLICT DO NOTHING`,
  change: `UPDATE tocsin_config SET version = version + 1, declared = ?, live = ?, is_paused = ?
      WHERE topic = ? AND version = ?`,
  note: `INSERT INTO tocsin_config_change (topic, version, change_id, changed_ms, changed_by, patch)
      VALUES (?, ?, ?, ?, ?, ?)`,
  noted: 'SELECT change_id FROM tocsin_config_change WHERE topic = ? AND version = ?',
  prune: 'DELETE FROM tocsin_config_change WHERE topic = ? AND version <= ?',
} as const

interface RecordRow {
  readonly topic: string
  readonly version: number
  readonly slots: number
  readonly slot_by: SlotBy
  readonly declared: string
  readonly live: string
  readonly is_paused: number
}

interface ChangeRow {
  readonly version: number
  readonly changed_ms: number
  readonly changed_by: string
  readonly patch: string
}

export class Records {
  readonly #statements: Record<keyof typeof STATEMENTS, Statement>

  constructor(database: Database) {
    // safeIntegers(false): the connection may belong to the user, who may have set it to return BigInts.
    const prepared = Object.entries(STATEMENTS).map(([name, sql]) => [
      name,
      database.prepare(sql).safeIntegers(false),
    ])
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof STATEMENTS, Statement>
    this.#statements.revision.pluck()
    this.#statements.noted.pluck()
  }

  all(): TopicRecord[] {
    return (this.#statements.all.all() as RecordRow[]).map((row) => recordOf(row))
  }

  /**
   * Returns a text that differs after every creation and every change: a creation increases the number of records, a
   * change increases the sum of the versions.
   */
  revision(): string {
    return this.#statements.revision.get() as string
  }

  history(topic: string, limit: number): PastChange[] {
    return (this.#statements.history.all(topic, limit) as ChangeRow[]).map((row) => ({
      version: row.version,
      atMs: row.changed_ms,
      by: row.changed_by,
      patch: JSON.parse(row.patch) as PastChange['patch'],
    }))
  }

  createRecord(
    topic: string,
    slots: number,
    slotBy: SlotBy,
    _time: StepTime,
  ): { record: TopicRecord; isNew: boolean } {
    const { changes } = this.#statements.create.run(topic, slots, slotBy)
    return { record: this.#record(topic) as TopicRecord, isNew: changes > 0 }
  }

  changeRecord(
    topic: string,
    expected: number,
    change: RecordChange,
    { nowMs }: StepTime,
  ): ChangeAnswer & { isNew: boolean } {
    const { isPaused, patch, by, changeId } = change
    const version = expected + 1
    const [declared, live] = [change.declared, change.live].map((config) => JSON.stringify(config))
    const { changes } = this.#statements.change.run(declared, live, isPaused ? 1 : 0, topic, expected)
    if (changes > 0) {
      this.#statements.note.run(topic, version, changeId, nowMs, by, JSON.stringify(patch))
      this.#statements.prune.run(topic, version - CHANGES_KEPT)
    }
    // If this call repeats a call whose answer was lost, the history already has the change, even if other changes
    // followed.
    const isOurs = changes > 0 || this.#statements.noted.get(topic, version) === changeId
    return { isOurs, record: this.#record(topic), isNew: changes > 0 }
  }

  #record(topic: string): TopicRecord | null {
    const row = this.#statements.one.get(topic) as RecordRow | undefined
    return row === undefined ? null : recordOf(row)
  }
}

function recordOf({ topic, version, slots, slot_by, declared, live, is_paused }: RecordRow): TopicRecord {
  return {
    topic,
    version,
    slots,
    slotBy: slot_by,
    declared: JSON.parse(declared) as TopicConfig,
    live: JSON.parse(live) as TopicConfig,
    isPaused: is_paused === 1,
  }
}
