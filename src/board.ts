/**
 * PORT. A board stores what the processes (nodes) of a cluster share: which nodes are alive, the settings of each
 * topic, and the access tokens of the servers. The board is stored with the tasks, so it needs no database of its own:
 * it is in the ledger (of several PostgreSQL databases, in the first), or, without a ledger, in Redis or in memory. The
 * adapters of this port are in boards/, and beside the adapters of timetables and ledgers.
 *
 * Each node publishes a card and sends heartbeats (beats). The board has a counter per node, which every beat of the
 * node increases. From these counters and its own monotonic clock, each reader decides which nodes are alive
 * (cluster/liveness.ts).
 *
 * All calls may be retried when a reply is lost. A second `beat`, `leave`, `bury`, `create`, `putToken` or `dropToken`
 * does no harm. A second `change` recognises by `changeId` that the first call has made the change. It changes nothing,
 * and returns `isOurs` true.
 */
import type { SlotBy } from './values/cell.ts'
import type { TopicConfig } from './values/config.ts'
import type { AccessToken } from './values/access-token.ts'

/** The history of a topic keeps at least this many of its last changes. */
export const CHANGES_KEPT = 100

export interface NodeCard {
  /** Identifies one run of one process. */
  readonly id: string
  /** Incremented whenever `topics` changes, but not when `figures` changes. */
  readonly edition: number
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  /** When the node started, by its own clock. For display only. */
  readonly startedMs: number
  /** The topics that the node consumes. */
  readonly topics: readonly TopicShare[]
  readonly figures: Figures
}

export interface TopicShare {
  readonly topic: string
  /** The maximum number of handler calls of the topic that run at a time in this node. */
  readonly capacity: number
  /** The topic's number of slots, as the node knows it. If two nodes differ, one has not read the new setting yet. */
  readonly slots: number
  /** The slots that the node pulls at present. */
  readonly owned: readonly number[]
}

export interface Figures {
  /** The number of tasks that the node has claimed and not settled. */
  readonly inFlight: number
  /** The number of tasks that the node has handled since it started. */
  readonly handled: number
  /** How far the node's clock is ahead of the board's clock. Null if not measured yet. */
  readonly clockAheadMs: number | null
}

/** The state of one node. A beat returns the heartbeats of all nodes, including the sender. */
export interface Heartbeat {
  readonly id: string
  /** The node's counter. Every beat of the node increases it. The first value is arbitrary. */
  readonly beats: number
  readonly edition: number
  /** The time since the node's last beat, by the board's clock. Used only until the reader has seen `beats` change. */
  readonly ageMs: number
}

export interface BeatReply {
  readonly heartbeats: readonly Heartbeat[]
  /** Changes whenever a topic is created or changed. */
  readonly revision: string
  /** The time of the board's clock. */
  readonly nowMs: number
}

/** The settings of a topic, the same on every node. */
export interface TopicRecord {
  readonly topic: string
  /** 0 when the record is created. Every change increments the version. */
  readonly version: number
  /** The number of slots when the topic was created. Never changes here: `live.slots`, if set, overrides it. */
  readonly slots: number
  /** Never changes, because `slotBy` determines the cell of each task. */
  readonly slotBy: SlotBy
  /** Settings declared over HTTP. They apply to a node whose code does not declare the topic. {} when created. */
  readonly declared: TopicConfig
  readonly live: TopicConfig
  readonly isPaused: boolean
}

/** The new content of a record. It replaces the whole old content, so the writer must have read the current version. */
export interface RecordChange {
  readonly declared: TopicConfig
  readonly live: TopicConfig
  readonly isPaused: boolean
  /** The change that was requested. Only the history uses it. */
  readonly patch: Readonly<Record<string, unknown>>
  /** The node that requested the change. */
  readonly by: string
  /** Identifies the change, so that the board recognises a retry. */
  readonly changeId: string
}

export interface ChangeAnswer {
  /**
   * True if the change was made, by this call or by an earlier try of it. False if nothing was written, because another
   * change came first (the version is not the expected one) or because there is no such topic.
   */
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
  /** False if this process is the only node. Then it does not beat. */
  readonly isShared: boolean
  /** Upserts the node's card, counts a beat of the node, and returns the heartbeats of all nodes. */
  beat(card: NodeCard): Promise<BeatReply>
  /** Returns all cards, including those of nodes that may be dead. */
  cards(): Promise<NodeCard[]>
  /** Deletes a node's card, and notifies the other nodes. */
  leave(id: string): Promise<void>
  /** Deletes the card of a dead node, unless its beat counter differs from `beats`: then the node has beaten again. */
  bury(id: string, beats: number): Promise<void>

  /** Returns the records of all topics. */
  records(): Promise<TopicRecord[]>
  /** Creates the record unless the topic has one. Returns the stored record. */
  create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord>
  /** Writes version `expected` + 1 if the current version is `expected`, and notifies the other nodes. */
  change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer>
  /** Returns the last changes, newest first. */
  history(topic: string, limit: number): Promise<PastChange[]>

  /** Returns all tokens, including expired tokens, oldest first. */
  tokens(): Promise<AccessToken[]>
  /** Upserts the token by its id. */
  putToken(token: AccessToken): Promise<void>
  /** Returns whether the token existed. A retry may return false because the first call deleted the token. */
  dropToken(id: string): Promise<boolean>

  /**
   * Calls `onChange` when a node has joined, left or changed its share (a new edition), or when a topic was created or
   * changed. The listener should then beat, and read what changed. Notifications may be lost. Returns a function that
   * stops listening.
   */
  listen(onChange: () => void): () => void
  close(): Promise<void>
}
