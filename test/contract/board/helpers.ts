/** The words in which the cases of boards are written. */
import { setTimeout as wait } from 'node:timers/promises'
import { expect } from 'vitest'
import type {
  Board,
  NodeCard,
  ChangeAnswer,
  Heartbeat,
  BeatReply,
  RecordChange,
  TopicRecord,
} from '../../../src/board.ts'
import type { AccessToken } from '../../../src/values/access-token.ts'

/** What a case gets: a board of its own, empty. */
export interface BoardHarness {
  readonly board: Board
  /** The same board, as another process sees it; the only one there is, where there are no others. */
  readonly another: () => Promise<Board>
  /** The board's clock moves on by at least `ms`: virtually, or by waiting. */
  readonly advance: (ms: number) => Promise<void>
  /** Closes all of them. */
  readonly close: () => Promise<void>
}

export interface BoardCase {
  readonly name: string
  run(harness: BoardHarness): Promise<void>
}

/** Cases are told apart by their theme and their name. */
export function theme(title: string, cases: readonly BoardCase[]): readonly BoardCase[] {
  return cases.map((one) => ({ ...one, name: `${title}: ${one.name}` }))
}

export function card(id: string, changed: Partial<NodeCard> = {}): NodeCard {
  return {
    id,
    edition: 1,
    name: `name of ${id}`,
    host: 'host',
    pid: 4321,
    version: '0.1.0',
    startedMs: Date.UTC(2026, 0, 1),
    topics: [{ topic: 'order.unpaid', capacity: 10, slots: 16, owned: [0, 1, 2] }],
    figures: { inFlight: 3, handled: 12_345, clockAheadMs: null },
    ...changed,
  }
}

export function token(id: string, changed: Partial<AccessToken> = {}): AccessToken {
  return {
    id,
    name: `name of ${id}`,
    hash: 'c0de'.repeat(16),
    scopes: ['read', 'schedule'],
    topicPrefix: 'order.',
    createdMs: Date.UTC(2026, 0, 1),
    expiresMs: Date.UTC(2027, 0, 1),
    rate: { limit: 100, perMs: 1_000 },
    bodyBytesMax: 65_536,
    ...changed,
  }
}

let changes = 0

/** Another one at each call. */
export function change(changed: Partial<RecordChange> = {}): RecordChange {
  changes += 1
  return {
    declared: {},
    live: { lease: `${changes}s` },
    isPaused: false,
    patch: { lease: `${changes}s` },
    by: 'a node',
    changeId: `change-${changes}`,
    ...changed,
  }
}

export async function heartbeats(board: Board, id = 'reader'): Promise<Map<string, Heartbeat>> {
  return byId(await board.beat(card(id)))
}

export function byId({ heartbeats: all }: BeatReply): Map<string, Heartbeat> {
  const found = new Map(all.map((one) => [one.id, one]))
  expect(found.size, 'one heartbeat for each node').toBe(all.length)
  return found
}

/** Of a node that is there. */
export function heartbeatOf(reply: BeatReply, id: string): Heartbeat {
  const found = byId(reply).get(id)
  expect(found, `a heartbeat of ${id}`).toBeDefined()
  return found!
}

export async function cardIds(board: Board): Promise<string[]> {
  return (await board.cards()).map(({ id }) => id).toSorted()
}

export async function recordsOf(board: Board): Promise<Record<string, TopicRecord>> {
  const all = await board.records()
  const found = Object.fromEntries(all.map((one) => [one.topic, one]))
  expect(Object.keys(found), 'one record for each topic').toHaveLength(all.length)
  return found
}

export async function revision(board: Board, id = 'reader'): Promise<string> {
  return (await board.beat(card(id))).revision
}

/** One that has to be ours. */
export async function changed(
  board: Board,
  topic: string,
  expected: number,
  by: RecordChange = change(),
): Promise<TopicRecord> {
  const answer: ChangeAnswer = await board.change(topic, expected, by)
  expect(answer).toMatchObject({ isOurs: true, record: { topic, version: expected + 1 } })
  return answer.record!
}

/** News take their time, on the busiest machine no longer than this; the wait ends when they are there. */
const NEWS_MS_MAX = 10_000
/** Real time: if no notification arrives for so long, all that were sent have arrived. */
const QUIET_MS = 100
const LOOK_EVERY_MS = 5

let words = 0

/** Counts the news, on a board that begins to listen when it can. */
export class Ears {
  readonly stop: () => void
  readonly #said: Board
  #heard = 0

  private constructor(hearing: Board, said: Board) {
    this.#said = said
    this.stop = hearing.listen(() => {
      this.#heard += 1
    })
  }

  /** Whoever listens may need a moment until it hears, and may be told then that it missed something. */
  static async open(hearing: Board, said: Board): Promise<Ears> {
    const ears = new Ears(hearing, said)
    const untilMs = performance.now() + NEWS_MS_MAX
    do await ears.#say()
    while (!(await ears.#hears(0, QUIET_MS)) && performance.now() < untilMs)
    await ears.#quiet()
    return ears
  }

  async expectNews(what: string, act: () => Promise<unknown>): Promise<void> {
    const before = this.#heard
    await act()
    expect(await this.#hears(before, NEWS_MS_MAX), `news of ${what}`).toBe(true)
    await this.#quiet()
  }

  async expectSilence(what: string, act: () => Promise<unknown>): Promise<void> {
    const before = this.#heard
    await act()
    await this.#quiet()
    expect(this.#heard, `no news of ${what}`).toBe(before)
  }

  /** Deaf ears hear nothing, and that would look like silence. */
  async expectHearing(): Promise<void> {
    await this.expectNews('a new topic', () => this.#say())
  }

  async #say(): Promise<void> {
    words += 1
    await this.#said.create(`word-${words}`, 16, 'key')
  }

  async #hears(before: number, withinMs: number): Promise<boolean> {
    const untilMs = performance.now() + withinMs
    while (this.#heard === before && performance.now() < untilMs) await wait(LOOK_EVERY_MS)
    return this.#heard > before
  }

  async #quiet(): Promise<void> {
    for (let before = -1; before !== this.#heard;) {
      before = this.#heard
      await wait(QUIET_MS)
    }
  }
}
