import {
  CHANGES_KEPT,
  type Board,
  type NodeCard,
  type ChangeAnswer,
  type Heartbeat,
  type PastChange,
  type BeatReply,
  type RecordChange,
  type TopicRecord,
} from '../../board.ts'
import type { SlotBy } from '../../values/cell.ts'
import { byCreation, type AccessToken } from '../../values/access-token.ts'
import type { RedisParts } from './parts.ts'

/**
 * The board of processes that share a Redis and have no ledger. Every write is one script (lua/board/) and uses Redis's
 * clock. All keys have the same hash tag. If Redis loses its data, the board is empty, and the processes create nodes
 * and topics again.
 */
export class RedisBoard implements Board {
  readonly isShared = true
  readonly #parts: RedisParts
  readonly #ends = new Set<() => void>()

  /** Uses the connections of a timetable. Closing the board leaves them open; closing the timetable closes them. */
  constructor(parts: RedisParts) {
    this.#parts = parts
  }

  async beat(card: NodeCard): Promise<BeatReply> {
    const { caller, keys, nodeFormats } = this.#parts
    const args = [card.id, String(card.edition), nodeFormats.cardText(card)]
    const [nowMs, revision, all] = await caller.run<[string, string[]]>('board/beat', keys.board, args)
    const heartbeats: Heartbeat[] = []
    for (let i = 0; i + 1 < all.length; i += 2) heartbeats.push(heartbeatOf(all[i]!, all[i + 1]!, nowMs))
    nodeFormats.beaten(heartbeats.map(({ id }) => id))
    return { heartbeats, revision, nowMs }
  }

  async cards(): Promise<NodeCard[]> {
    const texts = await this.#command(['HVALS', this.#parts.keys.board.cards], 'board/cards')
    return texts.map((text) => this.#parts.nodeFormats.read(text))
  }

  async leave(id: string): Promise<void> {
    const { caller, keys } = this.#parts
    await caller.run('board/leave', keys.board, [id])
  }

  async bury(id: string, beats: number): Promise<void> {
    const { caller, keys } = this.#parts
    await caller.run('board/bury', keys.board, [id, String(beats)])
  }

  async records(): Promise<TopicRecord[]> {
    return (await this.#command(['HVALS', this.#parts.keys.board.topics], 'board/records')).map(recordOf)
  }

  async create(topic: string, slots: number, slotBy: SlotBy): Promise<TopicRecord> {
    const { writer, caller, keys } = this.#parts
    // Read first, because the topic usually exists. A read also succeeds when Redis is out of memory, so that consumers
    // can start and free memory.
    const known = await caller.command(keys.board, ['HGET', keys.board.topics, topic], 'board/create')
    if (typeof known === 'string') return recordOf(known)
    const fixed: Fixed = { topic, slots, slotBy }
    const state: State = { declared: {}, live: {}, isPaused: false }
    const args = [topic, JSON.stringify(fixed), JSON.stringify(state)]
    const [, text] = await writer.run<[string]>('board/create', keys.board, args)
    return recordOf(text)
  }

  async change(topic: string, expected: number, change: RecordChange): Promise<ChangeAnswer> {
    const { writer, keys } = this.#parts
    const { declared, live, isPaused, patch, by, changeId } = change
    const state: State = { declared, live, isPaused }
    const past: Past = { by, patch }
    const texts = [changeId, state, past].map((one) => JSON.stringify(one))
    const args = [topic, String(expected), ...texts, String(CHANGES_KEPT)]
    const [, isOurs, text] = await writer.run<[number, string]>('board/change', keys.boardOf(topic), args)
    return { isOurs: isOurs === 1, record: text === '' ? null : recordOf(text) }
  }

  async history(topic: string, limit: number): Promise<PastChange[]> {
    if (limit <= 0) return []
    const { changes } = this.#parts.keys.boardOf(topic)
    return (await this.#command(['LRANGE', changes, '0', String(limit - 1)], 'board/history')).map(pastOf)
  }

  async tokens(): Promise<AccessToken[]> {
    const texts = await this.#command(['HVALS', this.#parts.keys.board.tokens], 'board/tokens')
    return texts.map((text) => JSON.parse(text) as AccessToken).toSorted(byCreation)
  }

  async putToken(token: AccessToken): Promise<void> {
    const { writer, keys } = this.#parts
    const args = [token.id, JSON.stringify(token)]
    await writer.run('board/put-token', keys.boardOfTokens, args)
  }

  async dropToken(id: string): Promise<boolean> {
    const { writer, keys } = this.#parts
    const [, wasThere] = await writer.run<[number]>('board/drop-token', keys.boardOfTokens, [id])
    return wasThere === 1
  }

  listen(onChange: () => void): () => void {
    const stop = this.#parts.wakes.listen(onChange)
    const end = () => {
      this.#ends.delete(end)
      stop()
    }
    this.#ends.add(end)
    return end
  }

  async close(): Promise<void> {
    for (const end of this.#ends) end()
  }

  async #command(args: readonly string[], doing: string): Promise<string[]> {
    const { caller, keys } = this.#parts
    return (await caller.command(keys.board, args, doing)) as string[]
  }
}

/** The parts of a topic and of a past change that are stored as JSON. */
type Fixed = Pick<TopicRecord, 'topic' | 'slots' | 'slotBy'>
type State = Pick<TopicRecord, 'declared' | 'live' | 'isPaused'>
type Past = Pick<PastChange, 'by' | 'patch'>

/** Parses '<beats> <edition> <ms of the last beat>'. */
function heartbeatOf(id: string, text: string, nowMs: number): Heartbeat {
  const [beats = 0, edition = 0, atMs = 0] = text.split(' ').map(Number)
  // Redis's clock may have been set back since the beat, so the difference may be negative.
  return { id, beats, edition, ageMs: Math.max(0, nowMs - atMs) }
}

/** Parses a topic that `topic_text` of lua/shared/board.lua wrote: version, fixed part, state. */
function recordOf(text: string): TopicRecord {
  const [version, fixed, state] = lines(text)
  // Topics that older releases of Tocsin wrote have no `declared`.
  const none = { declared: {} }
  return {
    ...(JSON.parse(fixed) as Fixed),
    ...none,
    ...(JSON.parse(state) as State),
    version: Number(version),
  }
}

/** Parses an entry of the history that lua/board/change.lua wrote: '<version> <ms>', id of the change, past. */
function pastOf(text: string): PastChange {
  const [head, , past] = lines(text)
  const [version = 0, atMs = 0] = head.split(' ').map(Number)
  return { ...(JSON.parse(past) as Past), version, atMs }
}

/** Splits a text into its three parts. Line ends separate the parts, because JSON.stringify writes no line ends. */
function lines(text: string): [string, string, string] {
  return text.split('\n') as [string, string, string]
}
