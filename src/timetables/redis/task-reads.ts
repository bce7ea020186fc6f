import type {
  Books,
  CellAddress,
  Counts,
  EntryView,
  ListQuery,
  Looks,
  Place,
  Selection,
} from '../../timetable.ts'
import { ALL_CELLS } from '../../values/cell.ts'
import { type ListPosition, positionOf } from '../../values/list-position.ts'
import { type Candidate, type CandidatePage, listPage } from './listing.ts'
import type { RedisParts } from './parts.ts'
import type { ScriptName } from './scripts.ts'
import { type FoundTask, ringMsOf, viewOf } from './views.ts'

/** Reads and counts tasks with read-only scripts. Each script reads one cell. */
export class TaskReads implements Looks {
  readonly #parts: RedisParts

  constructor(parts: RedisParts) {
    this.#parts = parts
  }

  async get(topic: string, { key, cell }: Place): Promise<EntryView | null> {
    const [, [found]] = await this.#run<[FoundTask[]]>('get', topic, cell, ['0', key])
    return found === undefined ? null : viewOf(topic, key, found)
  }

  list(topic: string, query: ListQuery): Promise<EntryView[]> {
    return listPage(
      {
        cells: ALL_CELLS,
        next: (cell, asked, from, limit) => this.#candidates(topic, cell, asked, from, limit),
        views: (candidates) => this.#views(topic, candidates, query.state === 'dead'),
      },
      query,
    )
  }

  async find(
    { topic, cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    const [kind, wanted] =
      'tag' in what ? ['tag', what.tag] : 'prefix' in what ? ['prefix', what.prefix] : ['all', '']
    const args = [among, kind, wanted, cursor ?? '']
    const [, next, keys] = await this.#run<[string, string[]]>('find', topic, cell, args)
    return { keys, cursor: next === '' ? null : next }
  }

  async counts(topic: string): Promise<Counts> {
    const [pending, due, claimed, dead] = await this.#sums(topic)
    return { pending, due, claimed, dead }
  }

  async books(topic: string): Promise<Books> {
    const [pending, , claimed, dead, scheduled, done, cancelled, obsolete, purged] = await this.#sums(topic)
    return { pending, claimed, dead, scheduled, done, cancelled, obsolete, purged }
  }

  async forecast(topic: string, fromMs: number, toMs: number, stepMs: number): Promise<number[]> {
    const args = [fromMs, toMs, stepMs].map(String)
    const cells = await Promise.all(
      ALL_CELLS.map((cell) => this.#run<[number[]]>('forecast', topic, cell, args)),
    )
    const steps = new Array<number>(Math.ceil((toMs - fromMs) / stepMs)).fill(0)
    for (const [, counts] of cells) for (const [i, due] of counts.entries()) steps[i] = (steps[i] ?? 0) + due
    return steps
  }

  async #candidates(
    topic: string,
    cell: number,
    query: ListQuery,
    from: ListPosition | null,
    limit: number,
  ): Promise<CandidatePage> {
    const { state, tag, prefix, dueFromMs } = query
    if (tag !== null) return this.#candidatesOf(topic, cell, { tag }, query)
    if (prefix !== null) return this.#candidatesOf(topic, cell, { prefix }, query)
    // A task never rings before it is due, so tasks that ring before `dueFromMs` can be skipped.
    const start = from ?? { ringMs: state === 'dead' ? 0 : dueFromMs, failures: 0, key: '' }
    const args = [
      state === 'pending' || state === null ? '1' : '0',
      state === 'claimed' || state === null ? '1' : '0',
      state === 'dead' ? '1' : '0',
      String(limit),
      String(start.ringMs * 1000 + Math.min(start.failures, 999)),
      start.key,
    ]
    const [, pairs, endScore, endKey] = await this.#run<[string[], string, string]>('list', topic, cell, args)
    const candidates: Candidate[] = []
    for (let i = 0; i < pairs.length; i += 2) candidates.push(candidate(cell, pairs[i], pairs[i + 1]))
    return { candidates, completeTo: endScore === '' ? null : candidate(cell, endKey, endScore) }
  }

  /** Returns all tasks with a tag or prefix at once, because no index has them in the order of a listing. */
  async #candidatesOf(
    topic: string,
    cell: number,
    what: Selection,
    { state }: ListQuery,
  ): Promise<CandidatePage> {
    const candidates: Candidate[] = []
    let cursor: string | null = null
    do {
      const page = await this.find({ topic, cell }, state === 'dead' ? 'dead' : 'live', what, cursor)
      const views = await this.#viewsOfCell(topic, cell, page.keys, state === 'dead')
      for (const view of views) if (view !== null) candidates.push({ ...positionOf(view), cell })
      cursor = page.cursor
    } while (cursor !== null)
    const distinct = new Map(candidates.map((one) => [one.key, one]))
    return { candidates: [...distinct.values()], completeTo: null }
  }

  async #views(
    topic: string,
    candidates: readonly Candidate[],
    areDead: boolean,
  ): Promise<(EntryView | null)[]> {
    const byCell = new Map<number, string[]>()
    for (const { cell, key } of candidates) byCell.set(cell, [...(byCell.get(cell) ?? []), key])
    const groups = [...byCell].map(([cell, keys]) => this.#viewsOfCell(topic, cell, keys, areDead))
    return (await Promise.all(groups)).flat()
  }

  async #viewsOfCell(
    topic: string,
    cell: number,
    keys: readonly string[],
    areDead: boolean,
  ): Promise<(EntryView | null)[]> {
    if (keys.length === 0) return []
    const [, found] = await this.#run<[FoundTask[]]>('get', topic, cell, [areDead ? '1' : '0', ...keys])
    return found.map((one, i) => viewOf(topic, keys[i] ?? '', one))
  }

  async #sums(topic: string): Promise<CellSums> {
    const cells = await Promise.all(ALL_CELLS.map((cell) => this.#run<CellSums>('counts', topic, cell, [])))
    const sums: CellSums = [0, 0, 0, 0, 0, 0, 0, 0, 0]
    for (const [, ...numbers] of cells)
      for (const [i, number] of numbers.entries()) sums[i] = (sums[i] ?? 0) + number
    return sums
  }

  #run<A extends readonly unknown[]>(
    name: ScriptName,
    topic: string,
    cell: number,
    args: readonly string[],
  ): Promise<[number, ...A]> {
    const { caller, keys } = this.#parts
    return caller.run<A>(name, keys.of(topic, cell), args)
  }
}

type CellSums = [
  pending: number,
  due: number,
  claimed: number,
  dead: number,
  scheduled: number,
  done: number,
  cancelled: number,
  obsolete: number,
  purged: number,
]

function candidate(cell: number, key = '', score = '0'): Candidate {
  const ring = ringMsOf(score)
  return { cell, key, ringMs: ring, failures: Number(score) - ring * 1000 }
}
