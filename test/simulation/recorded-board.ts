import type { Board, TopicRecord } from '../../src/board.ts'
import { durationMs } from '../../src/values/duration.ts'
import type { Content } from './history.ts'
import type { Recorder } from './recorder.ts'
import { overlaid } from './recorded-timetable.ts'
import type { WorldClock } from './world-clock.ts'

/** So many of the last beats of a node are remembered. */
const BEATS_MAX = 8

interface Beating {
  readonly life: string
  /** As the board counts them. */
  beats: number
  /** The last ones, by the simulation's clock. */
  readonly atMs: number[]
}

/** The cards that are up, as the answers of a board tell: one for all its processes. */
export type Beatings = Map<string, Beating>

/** When each process looked last, also one that has left: what it said before may be under way. */
export type Looks = Map<string, number[]>

export interface BoardWitness {
  readonly recorder: Recorder
  readonly world: WorldClock
  readonly beatings: Beatings
  readonly looks: Looks
  readonly topic: string
  /** Whose calls these are. */
  readonly life: string
}

/**
 * A board as one process calls it: what becomes of settings and cards is recorded at the moment at which it is done. It
 * stands on the server's side of the line.
 */
export function recordedBoard(board: Board, witness: BoardWitness): Board {
  const { recorder, world, beatings, looks, topic, life } = witness
  const known = (record: TopicRecord | null) => ({
    version: record?.version ?? null,
    slots: record?.live.slots ?? record?.slots ?? 0,
    isPaused: record?.isPaused ?? false,
    content: record === null ? '' : contentOf(record),
  })
  const remember = (momentsMs: number[]) => {
    momentsMs.push(world.nowMs)
    if (momentsMs.length > BEATS_MAX) momentsMs.shift()
  }
  const took = (phase: 'left' | 'buried', id: string) => {
    const beating = beatings.get(id)
    if (beating === undefined) return
    beatings.delete(id)
    const lastMs = beating.atMs.at(-1) as number
    const looked = (looks.get(life) ?? []).filter((ms) => ms > lastMs).length
    recorder.tell({
      kind: 'card',
      life,
      phase,
      of: beating.life,
      silentMs: world.nowMs - lastMs,
      looks: looked,
    })
  }
  return overlaid<Board>(board, {
    beat: async (card) => {
      const reply = await board.beat(card)
      const beats = reply.heartbeats.find(({ id }) => id === card.id)?.beats ?? 0
      const beating = beatings.get(card.id) ?? { life, beats, atMs: [] }
      beating.beats = beats
      remember(beating.atMs)
      beatings.set(card.id, beating)
      const own = looks.get(life) ?? []
      remember(own)
      looks.set(life, own)
      return reply
    },
    leave: async (id) => {
      await board.leave(id)
      took('left', id)
    },
    bury: async (id, beats) => {
      await board.bury(id, beats)
      if (beatings.get(id)?.beats === beats) took('buried', id)
    },
    create: async (name, slots, slotBy) => {
      const record = await board.create(name, slots, slotBy)
      if (name === topic)
        recorder.tell({ kind: 'record', life, op: 'create', asked: null, isOurs: false, ...known(record) })
      return record
    },
    change: async (name, expected, change) => {
      const asked = {
        expected,
        changeId: change.changeId,
        mark: markOf(change.patch),
        speaksOf: speaksOf(change.patch),
        content: contentOf(change),
      }
      const answer = await board.change(name, expected, change)
      const { isOurs, record } = answer
      if (name === topic)
        recorder.tell({ kind: 'record', life, op: 'change', asked, isOurs, ...known(record) })
      return answer
    },
  })
}

/** Every patch names the call that it comes from, in a setting that changes nothing within a run. */
export function patchMark(call: number): string {
  return `${604_800 + call}s`
}

type Patch = Readonly<Record<string, unknown>>

function markOf(patch: Patch): string | null {
  const { retention } = (patch['declared'] as Patch | undefined) ?? patch
  // However it is written: what is declared is kept as '1w1s'.
  return typeof retention === 'string' ? `${durationMs(retention, 'retention') / 1_000}s` : null
}

function speaksOf(patch: Patch): keyof Content {
  if ('declared' in patch) return 'declared'
  return 'paused' in patch ? 'isPaused' : 'live'
}

function contentOf({
  declared,
  live,
  isPaused,
}: Pick<TopicRecord, 'declared' | 'live' | 'isPaused'>): string {
  const fields = (config: object) => Object.entries(config).toSorted(([a], [b]) => (a < b ? -1 : 1))
  return JSON.stringify({ declared: fields(declared), live: fields(live), isPaused } satisfies Content)
}
