import type { BatchKind, Queue, SendBatch } from '../../lib/batcher.ts'
import { byteSizeOf } from '../../lib/byte-size.ts'
import type { OnConflict } from '../../task.ts'
import type {
  CancelAnswer,
  NewEntry,
  Place,
  Replayable,
  ReplayAnswer,
  RescheduleAnswer,
  ScheduleAnswer,
} from '../../timetable.ts'
import { CELLS } from '../../values/cell.ts'
import type { RingTime } from '../../values/ring-time.ts'
import { createdText } from './body.ts'
import { packLists } from './packing.ts'
import type { RedisParts } from './parts.ts'
import { ScheduleBatch, type ScheduleReply } from './scheduling.ts'
import type { ScriptName } from './scripts.ts'

/**
 * The writes of users: schedule, cancel, reschedule, replay and purge. The writes are batched per cell and keep their
 * order within a cell.
 */
export class UserWrites {
  readonly #parts: RedisParts
  /**
   * The kinds of batches by topic: calls of one kind to one cell are sent together. The kinds are created once, because
   * a program may make hundreds of thousands of single calls.
   */
  readonly #kindsOf = new Map<string, TopicKinds>()

  constructor(parts: RedisParts) {
    this.#parts = parts
  }

  schedule(topic: string, entries: readonly NewEntry[], mergeMs: number): Promise<ScheduleAnswer[]> {
    const { replace, keep } = this.#mergingKinds(topic, mergeMs)
    return this.#add(entries, ({ cell, onConflict }) => (onConflict === 'keep' ? keep : replace)[cell])
  }

  cancel(topic: string, places: readonly Place[]): Promise<CancelAnswer[]> {
    const { cancel } = this.#kinds(topic)
    return this.#add(places, ({ cell }) => cancel[cell])
  }

  reschedule(
    topic: string,
    places: readonly Place[],
    when: RingTime,
    mergeMs: number,
  ): Promise<RescheduleAnswer[]> {
    const { reschedule } = this.#mergingKinds(topic, mergeMs)
    const moves = places.map((place) => ({ ...place, when }))
    return this.#add(moves, ({ cell }) => reschedule[cell])
  }

  replay(topic: string, places: readonly Place[], which: Replayable): Promise<ReplayAnswer[]> {
    const kinds = this.#kinds(topic).replay[which]
    return this.#add(places, ({ cell }) => kinds[cell])
  }

  purge(topic: string, places: readonly Place[]): Promise<PurgeAnswer[]> {
    const { purge } = this.#kinds(topic)
    return this.#add(places, ({ cell }) => purge[cell])
  }

  #add<I extends Place, A>(
    items: readonly I[],
    kindOf: (item: I) => BatchKind<I, A> | undefined,
  ): Promise<A[]> {
    return this.#parts.batcher.add(items, kindOf as (item: I) => BatchKind<I, A>)
  }

  #kinds(topic: string): TopicKinds {
    const known = this.#kindsOf.get(topic)
    if (known !== undefined) return known
    const made: TopicKinds = {
      cancel: this.#cancelKinds(topic),
      replay: {
        any: this.#keyKinds(topic, 'replay', replayAnswer, ['any']),
        newest: this.#keyKinds(topic, 'replay', replayAnswer, ['newest']),
      },
      purge: this.#keyKinds(topic, 'purge', purgeAnswer),
      merging: null,
    }
    this.#kindsOf.set(topic, made)
    return made
  }

  #mergingKinds(topic: string, mergeMs: number): MergingKinds {
    const kinds = this.#kinds(topic)
    if (kinds.merging?.mergeMs !== mergeMs)
      kinds.merging = {
        mergeMs,
        replace: this.#scheduleKinds(topic, 'replace', mergeMs),
        keep: this.#scheduleKinds(topic, 'keep', mergeMs),
        reschedule: this.#rescheduleKinds(topic, mergeMs),
      }
    return kinds.merging
  }

  #scheduleKinds(
    topic: string,
    onConflict: OnConflict,
    mergeMs: number,
  ): CellKinds<NewEntry, ScheduleAnswer> {
    const { writer, keys } = this.#parts
    return this.#queuesOf(topic).map((queue, cell) => {
      const script = (args: (string | Buffer)[], deadlineMs: number): Promise<ScheduleReply> =>
        this.#run('schedule', topic, cell, args, deadlineMs)
      return {
        queue,
        name: `${onConflict}/${mergeMs}`,
        bytesOf: ({ body }) => byteSizeOf(body),
        begin: () => {
          const created = createdText(writer.clockOf(keys.of(topic, cell)).about())
          return new ScheduleBatch(onConflict, mergeMs, created, script)
        },
      }
    })
  }

  #cancelKinds(topic: string): CellKinds<Place, CancelAnswer> {
    return this.#gatheredKinds(topic, 'cancel', async (cell, places, deadlineMs) => {
      const args = [this.#seed(), packLists(places.map(({ key }) => key))]
      const [, row] = await this.#run<[string]>('cancel', topic, cell, args, deadlineMs)
      return places.map((_, i) => (row === '' ? 'cancelled' : cancelAnswer(row[i])))
    })
  }

  #rescheduleKinds(topic: string, mergeMs: number): CellKinds<Move, RescheduleAnswer> {
    return this.#gatheredKinds(topic, `reschedule/${mergeMs}`, async (cell, moves, deadlineMs) => {
      const pairs = moves.flatMap(({ key, when }) => [key, whenArg(when)])
      const args = [this.#seed(), String(mergeMs), ...pairs]
      const [, dues] = await this.#run<[number[]]>('reschedule', topic, cell, args, deadlineMs)
      return dues.map(rescheduleAnswer)
    })
  }

  /** Returns the kinds for a script that takes `options`, then keys, and answers a letter for each key. */
  #keyKinds<A>(
    topic: string,
    name: 'replay' | 'purge',
    answerOf: (letter: string | undefined) => A,
    options: readonly string[] = [],
  ): CellKinds<Place, A> {
    return this.#gatheredKinds(topic, [name, ...options].join('/'), async (cell, places, deadlineMs) => {
      const args = [...options, ...places.map(({ key }) => key)]
      const [, row] = await this.#run<[string]>(name, topic, cell, args, deadlineMs)
      return places.map((_, i) => answerOf(row[i]))
    })
  }

  #gatheredKinds<I, A>(topic: string, name: string, send: SendBatch<I, A>): CellKinds<I, A> {
    return this.#parts.batcher.kindsOf(this.#queuesOf(topic), name, send)
  }

  #queuesOf(topic: string): readonly Queue[] {
    return this.#parts.batcher.queuesOf(topic, 'cells', CELLS)
  }

  #run<A extends readonly unknown[]>(
    name: ScriptName,
    topic: string,
    cell: number,
    args: readonly (string | Buffer)[],
    deadlineMs: number,
  ): Promise<[number, ...A]> {
    const { writer, keys } = this.#parts
    return writer.run<A>(name, keys.of(topic, cell), args, deadlineMs)
  }

  #seed(): string {
    return String(this.#parts.random.fraction())
  }
}

type PurgeAnswer = 'purged' | 'not-found'

/** A kind of batch for each cell of a topic. */
type CellKinds<I, A> = readonly BatchKind<I, A>[]

interface TopicKinds {
  readonly cancel: CellKinds<Place, CancelAnswer>
  readonly replay: Readonly<Record<Replayable, CellKinds<Place, ReplayAnswer>>>
  readonly purge: CellKinds<Place, PurgeAnswer>
  /**
   * The kinds that depend on `mergeMs`, for its last value only, because `mergeMs` seldom changes. Null before the
   * first call.
   */
  merging: MergingKinds | null
}

interface MergingKinds {
  readonly mergeMs: number
  readonly replace: CellKinds<NewEntry, ScheduleAnswer>
  readonly keep: CellKinds<NewEntry, ScheduleAnswer>
  readonly reschedule: CellKinds<Move, RescheduleAnswer>
}

interface Move extends Place {
  readonly when: RingTime
}

function cancelAnswer(letter: string | undefined): CancelAnswer {
  return letter === 'c' ? 'cancelled' : letter === 'f' ? 'in-flight' : 'not-found'
}

const REPLAY_ANSWERS: Readonly<Record<string, ReplayAnswer>> = {
  r: 'replayed',
  l: 'live',
  s: 'superseded',
  n: 'not-found',
}

function replayAnswer(letter: string | undefined): ReplayAnswer {
  return REPLAY_ANSWERS[letter ?? 'n'] ?? 'not-found'
}

function purgeAnswer(letter: string | undefined): PurgeAnswer {
  return letter === 'p' ? 'purged' : 'not-found'
}

function rescheduleAnswer(due: number): RescheduleAnswer {
  if (due === -1) return { outcome: 'in-flight', dueMs: null }
  if (due === -2) return { outcome: 'not-found', dueMs: null }
  return { outcome: 'rescheduled', dueMs: due }
}

/** Returns the argument that `ring_at` of lua/shared/cell.lua reads. */
function whenArg({ kind, ms }: RingTime): string {
  return kind === 'at' ? String(ms) : kind === 'delay' ? `+${ms}` : `~${ms}`
}
