/**
 * PORT. A board holds what the processes (nodes) of a cluster share about themselves: which nodes are alive, the settings
 * of each topic, and the access tokens of the servers. It is stored with the tasks: in the ledger, or in Redis without a
 * ledger. So whenever a task can be claimed, the board can be read. Its adapters are in boards/ and beside those of
 * timetables and ledgers.
 *
 * Each node publishes a card and beats. The board counts the beats, and each reader decides by that counter and its own
 * monotonic clock which nodes are alive (cluster/liveness.ts). No decision depends on the clock of another machine.
 *
 * `beat`, `leave`, `bury`, `create`, `putToken` and `dropToken` may be retried when their reply is lost: the second call
 * changes nothing that matters. So may `change`: the retry finds its own change by `changeId`, and returns `isOurs` true.
 */
import type { SlotBy } from './values/cell.ts'
import type { TopicConfig } from './values/config.ts'
import type { AccessToken } from './values/access-token.ts'

/** The least number of changes of a topic that are kept. */
export const CHANGES_KEPT = 100

export interface NodeCard {
  /** Unique to one run of one process. */
  readonly id: string
  /** Incremented whenever `topics` changes. Changed figures do not count. */
  readonly edition: number
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  /** By the node's own clock: for display only. */
  readonly startedMs: number
  /** The topics that the node consumes. */
  readonly topics: readonly TopicShare[]
  readonly figures: Figures
}

export interface TopicShare {
  readonly topic: string
  /** How many handler calls may run at a time. */
  readonly capacity: number
  /** The number of slots that the node uses for the topic. If ours differs, one of the two has not read the new setting yet. */
  readonly slots: number
  /** The slots that the node pulls at present. */
  readonly owned: readonly number[]
}

export interface Figures {
  /** Tasks that the node has claimed and not settled. */
  readonly inFlight: number
  /** Since the node started. */
  readonly handled: number
  /** How far the node's clock is ahead of the board's. Null if not measured yet. */
  readonly clockAheadMs: number | null
}

/** What a beat returns about each node, the sender included. */
export interface Heartbeat {
  readonly id: string
  /** Counted by the board. */
  readonly beats: number
  readonly edition: number
  /** Time since the last beat, by the board's clock. Used only for a node that this reader has not seen beat yet. */
  readonly ageMs: number
}

export interface BeatReply {
  readonly heartbeats: readonly Heartbeat[]
  /** Changes whenever a topic is created or changed. */
  readonly revision: string
  /** The board's clock. */
  readonly nowMs: number
}

/** The settings of a topic, the same on every node. */
export interface TopicRecord {
  readonly topic: string
  /** 0 when created, incremented by every change. */
  readonly version: number
  /** Set by the code that created the topic. Later only a live change can alter it. */
  readonly slots: number
  /** Never changes: it determines the cell of each task. */
  readonly slotBy: SlotBy
  /** Settings declared over HTTP. They take the place of settings in code where a node's code sets none. {} when created. */
  readonly declared: TopicConfig
  readonly live: TopicConfig
  readonly isPaused: boolean
}

/** The complete new record. The writer has read the version that it replaces. */
export interface RecordChange {
  readonly declared: TopicConfig
  readonly live: TopicConfig
  readonly isPaused: boolean
  /** The requested change, for the history. */
  readonly patch: Readonly<Record<string, unknown>>
  /** The node that requested the change. */
  readonly by: string
  /** Identifies the change, so that a retry is recognised. */
  readonly changeId: string
}

export interface ChangeAnswer {
  /** False if the version had changed, and nothing was written. */
  readonly isOurs: boolean
  /** The current record. Null if there is no such topic. */
  readonly record: TopicRecord | null
}

/** One entry of a topic's history. */
export interface PastChange {
  readonly version: number
  readonly atMs: number
  readonly by: string
  readonly patch: Readonly<Record<string, unknown>>
}

export interface Board {
  /** False if this process is the only node, and need not beat. */
  readonly isShared: boolean
  /** Upserts the node's card, counts a beat, and returns all heartbeats. */
  beat(card: NodeCard): Promise<BeatReply>
  /** Returns all cards, including those of nodes that may be dead. */
  cards(): Promise<NodeCard[]>
  /** Deletes a node's card, and notifies the other nodes. */
  leave(id: string): Promise<void>
  /** Deletes the card of a dead node, unless the node has beaten since `beats`. */
  bury(id: string, beats: number): Promise<void>

  /** Returns the records of all topics. */
  records(): Promise<TopicRecord[]>
  /** Creates the record unless it exists. Returns the record that is stored. */
  create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord>
  /** Replaces version `expected` by `expected` + 1, and notifies the other nodes. */
  change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer>
  /** Returns the last changes, newest first. */
  history(topic: string, limit: number): Promise<PastChange[]>

  /** Returns all tokens, oldest first, expired ones included. */
  tokens(): Promise<AccessToken[]>
  /** Upserts the token by its id. */
  putToken(token: AccessToken): Promise<void>
  /** Returns whether the token existed. A retry after a lost reply may return false although the first call deleted it. */
  dropToken(id: string): Promise<boolean>

  /**
   * Calls `onChange` when a node joined, left or changed its share (a new edition), or a topic was created or changed: the
   * reader should beat and read. Notifications may be lost. Returns a function that stops listening.
   */
  listen(onChange: () => void): () => void
  close(): Promise<void>
}
