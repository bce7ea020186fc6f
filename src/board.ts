/**
 * PORT. What the processes of a cluster tell each other: who is there, by which settings each topic runs, and whose
 * requests its servers answer. It lies where the truth lies: in the ledger, or in Redis where there is none. So whenever a task can be claimed at all, the
 * board can be read. Its adapters stand beside those of timetables and ledgers.
 *
 * A node's card says what it is and what it does. It beats: the board counts, and each reader judges by that counter and
 * by its own monotonic clock who is alive (cluster/sightings.ts). No clock of another machine decides.
 *
 * `beat`, `leave`, `bury`, `create`, `putToken` and `dropToken` may be repeated when their reply is lost: the second call
 * does nothing new that matters. `change` may too: under the version that it expected it finds its own change, and says so by `isOurs`.
 */
import type { SlotBy } from './values/cell.ts'
import type { TopicConfig } from './values/config.ts'
import type { AccessToken } from './values/access-token.ts'

/** So many changes of a topic are kept, at least. */
export const CHANGES_KEPT = 100

export interface NodeCard {
  /** Of one life of one process. */
  readonly id: string
  /** Greater whenever what others go by has changed: `topics`. Figures do not count. */
  readonly edition: number
  readonly name: string
  readonly host: string
  readonly pid: number
  readonly version: string
  /** By the node's own clock: to be shown, not to be judged by. */
  readonly startedMs: number
  /** What it consumes. */
  readonly topics: readonly TopicShare[]
  readonly figures: Figures
}

export interface TopicShare {
  readonly topic: string
  /** How many calls of its handlers may run at a time. */
  readonly capacity: number
  /** Into how many slots it deals the topic's cells: where that is not what we do, it has not heard yet. */
  readonly slots: number
  /** The slots that it pulls, as far as it knows. */
  readonly owned: readonly number[]
}

export interface Figures {
  /** Tasks in its hands: claimed, and not settled yet. */
  readonly inFlight: number
  /** Since its start. */
  readonly handled: number
  /** How far its clock is ahead of the board's; null: not measured yet. */
  readonly clockAheadMs: number | null
}

/** What a beat answers about each node, its sender included. */
export interface Heartbeat {
  readonly id: string
  /** Counted by the board. */
  readonly beats: number
  readonly edition: number
  /** Since its last beat, by the board's clock: good enough for one that was never seen to beat, and for nothing else. */
  readonly ageMs: number
}

export interface BeatReply {
  readonly heartbeats: readonly Heartbeat[]
  /** Another one as soon as a topic was created or changed. */
  readonly revision: string
  /** The board's clock. */
  readonly nowMs: number
}

/** By which settings a topic runs, on every node. */
export interface TopicRecord {
  readonly topic: string
  /** 0 as created, one more with every change. */
  readonly version: number
  /** What the code that created it said: from then on only a live change counts. */
  readonly slots: number
  /** Fixed: it places the tasks. */
  readonly slotBy: SlotBy
  /** What somebody without code declared: the layer of the code, where a node's own code says nothing. {} as created. */
  readonly declared: TopicConfig
  readonly live: TopicConfig
  readonly isPaused: boolean
}

/** What the record is to say from now on, all of it: whoever changes a version knows what stood in it. */
export interface RecordChange {
  readonly declared: TopicConfig
  readonly live: TopicConfig
  readonly isPaused: boolean
  /** What was asked for, for the history. */
  readonly patch: Readonly<Record<string, unknown>>
  /** The node that asked. */
  readonly by: string
  /** Names this change, so that it is recognised when it is repeated. */
  readonly changeId: string
}

export interface ChangeAnswer {
  /** False: the version is another one by now, and nothing was changed. */
  readonly isOurs: boolean
  /** As it is now. Null: there is no such topic. */
  readonly record: TopicRecord | null
}

/** Who changed what, when. */
export interface PastChange {
  readonly version: number
  readonly atMs: number
  readonly by: string
  readonly patch: Readonly<Record<string, unknown>>
}

export interface Board {
  /** False: this process is all there is, and need not beat. */
  readonly isShared: boolean
  /** Puts the card up, in the place of the older one, counts a beat, and answers all heartbeats. */
  beat(card: NodeCard): Promise<BeatReply>
  /** Those that are up, whoever may still be alive. */
  cards(): Promise<NodeCard[]>
  /** Takes a node's card down, and tells the others. */
  leave(id: string): Promise<void>
  /** Takes down the card of a node that is gone, unless it beat since. */
  bury(id: string, beats: number): Promise<void>

  /** Of all topics. */
  records(): Promise<TopicRecord[]>
  /** Answers what is there: this, or what somebody created before. */
  create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord>
  /** Takes the place of version `expected`, which becomes `expected` + 1, and tells the others. */
  change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer>
  /** The last ones, newest first. */
  history(topic: string, limit: number): Promise<PastChange[]>

  /** The oldest first, those that have expired among them. */
  tokens(): Promise<AccessToken[]>
  /** Takes the place of the one with that id. */
  putToken(token: AccessToken): Promise<void>
  /** Whether it was there. One that is asked for again, since its reply was lost, may find that it has dropped it. */
  dropToken(id: string): Promise<boolean>

  /**
   * Tells that a node came, left or took another share (an edition that was not there before), or that a topic was
   * created or changed: time to beat and read. Some are missed. Answers how to end it.
   */
  listen(onChange: () => void): () => void
  close(): Promise<void>
}
