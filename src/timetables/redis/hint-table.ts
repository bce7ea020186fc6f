import { ALL_CELLS, CELLS, prefixOf } from '../../values/cell.ts'
import { LAST_INSTANT_MS } from '../../values/instant.ts'
import type {
  CellAddress,
  Claim,
  ClaimRequest,
  Look,
  Place,
  Selection,
  SettleAnswer,
  Settlement,
  Watcher,
} from '../../timetable.ts'
import type { Filling, Frontier, Hint, HintTable } from '../../hint-table.ts'
import { compareFrontiers } from '../../values/list-position.ts'
import { laneLetter } from './body.ts'
import { Packer, packLists } from './packing.ts'
import type { BatchKind } from '../../lib/batcher.ts'
import type { HintScriptName } from './scripts.ts'
import type { RedisParts } from './parts.ts'
import type { Server } from './servers.ts'
import type { RedisTimetable } from './timetable.ts'

const FAILURES_MAX = 999

/**
 * A hint table in Redis, shared by many processes. It holds the key, ring time and lane of each hint. It holds no
 * bodies: the ledger has them. Claims use the scripts of RedisTimetable. Other scripts (lua/hints/) put and remove
 * hints, because the scripts of the timetable need bodies. A hint table needs its own key prefix.
 *
 * All calls may be repeated after a lost reply, because the ledger decides when a task rings.
 */
export class RedisHintTable implements HintTable {
  readonly isShared = true
  /** No limit, because hints in Redis take no memory of this process. */
  readonly residentMax = Number.POSITIVE_INFINITY
  readonly lookMs: number
  readonly #timetable: RedisTimetable
  readonly #parts: RedisParts
  readonly #kindsOf = new Map<string, HintKinds>()

  /** Shares the timetable's parts, for example its connection and its queue for each cell. */
  constructor(timetable: RedisTimetable, parts: RedisParts) {
    this.#timetable = timetable
    this.#parts = parts
    this.lookMs = parts.lookMs
  }

  async put(topic: string, hints: readonly Hint[], mode: 'set' | 'lower'): Promise<number> {
    const changed = await this.#add(hints, this.#kinds(topic)[mode])
    return changed.filter(Boolean).length
  }

  async cancel(topic: string, places: readonly Place[]): Promise<void> {
    await this.#add(places, this.#kinds(topic).cancel)
  }

  async drop(topic: string, places: readonly Place[]): Promise<void> {
    await this.#add(places, this.#kinds(topic).drop)
  }

  has(topic: string, places: readonly Place[]): Promise<boolean[]> {
    return this.#add(places, this.#kinds(topic).has)
  }

  /** Does nothing. The table is shared, and the other processes need the hints of the cells that they pull. */
  keepOnly(): void {}

  async extent(topic: string): Promise<{ count: number; headMs: number | null }> {
    const cells = await Promise.all(
      ALL_CELLS.map((cell) => this.#run<[number, number]>('hints/extent', topic, cell, [])),
    )
    let count = 0
    let headMs: number | null = null
    for (const [, ofCell, ringMs] of cells) {
      count += ofCell
      if (ringMs >= 0 && (headMs === null || ringMs < headMs)) headMs = ringMs
    }
    return { count, headMs }
  }

  async find(
    { topic, cell }: CellAddress,
    among: 'live' | 'dead',
    what: Selection,
    cursor: string | null,
  ): Promise<{ keys: string[]; cursor: string | null }> {
    // Dead tasks and tags are only in the ledger.
    if (among === 'dead' || 'tag' in what) return { keys: [], cursor: null }
    const [, next, found] = await this.#run<[string, string[]]>('hints/find', topic, cell, [cursor ?? ''])
    const keys = 'prefix' in what ? found.filter((key) => prefixOf(key) === what.prefix) : found
    return { keys, cursor: next === '' ? null : next }
  }

  /**
   * Each server has an epoch and a frontier of its own, in the first cell that it has: a master of a cluster can lose its
   * hints alone. The epoch of the table is all of them, so it also changes when another server has that cell.
   */
  async filling(topic: string): Promise<Filling> {
    const name = this.#parts.random.uniqueId()
    const fillings = await Promise.all(
      this.#firstCells(topic).map(async (cell) => {
        const [, epoch, filled] = await this.#run<[string, string]>('hints/filling', topic, cell, [name])
        return { epoch: `${cell}=${epoch}`, frontier: frontierOf(filled) }
      }),
    )
    const frontiers = fillings.map(({ frontier }) => frontier)
    const known = frontiers.filter((frontier) => frontier !== null)
    // What one server does not have, the table does not have.
    const [first] = known.length < frontiers.length ? [] : known.toSorted(compareFrontiers)
    return { epoch: fillings.map(({ epoch }) => epoch).join(' '), frontier: first ?? null }
  }

  async filledTo(topic: string, epoch: string, { ringMs, cell, key }: Frontier): Promise<boolean> {
    const areSame = await Promise.all(
      epoch.split(' ').map(async (one) => {
        const [, first, ofServer = ''] = /^(\d+)=(.+)$/.exec(one) ?? []
        if (first === undefined) return false
        const args = [ofServer, String(ringMs), String(cell), key]
        const [, isSame] = await this.#run<[number]>('hints/filled-to', topic, Number(first), args)
        return isSame === 1
      }),
    )
    return !areSame.includes(false)
  }

  /** Returns the first cell of the topic on each server. */
  #firstCells(topic: string): number[] {
    const { servers, keys } = this.#parts
    const first = new Map<Server, number>()
    for (const cell of ALL_CELLS) {
      const server = servers.of(keys.of(topic, cell))
      if (!first.has(server)) first.set(server, cell)
    }
    return [...first.values()]
  }

  claim(at: CellAddress, request: ClaimRequest): Promise<Claim> {
    return this.#timetable.claim(at, request)
  }

  look(at: CellAddress): Promise<Look> {
    return this.#timetable.look(at)
  }

  extend(at: CellAddress, req: string, leaseMs: number): Promise<'extended' | 'stale'> {
    return this.#timetable.extend(at, req, leaseMs)
  }

  settle(at: CellAddress, settlements: readonly Settlement[]): Promise<SettleAnswer[]> {
    return this.#timetable.settle(at, settlements)
  }

  /** Asks all servers, because the table is there only if all of them are. Returns the earliest of their times. */
  async nowMs(): Promise<number> {
    const { caller, servers } = this.#parts
    return Math.min(...(await Promise.all(servers.all.map((server) => caller.timeOf(server)))))
  }

  watch(topic: string, watcher: Watcher): () => void {
    return this.#timetable.watch(topic, watcher)
  }

  close(): Promise<void> {
    return this.#timetable.close()
  }

  /** Adds calls to the queues of their cells. A queue keeps the order of its calls. */
  #add<I extends Place, A>(items: readonly I[], kinds: readonly BatchKind<I, A>[]): Promise<A[]> {
    return this.#parts.batcher.add(items, ({ cell }) => kinds[cell] as BatchKind<I, A>)
  }

  #kinds(topic: string): HintKinds {
    const known = this.#kindsOf.get(topic)
    if (known !== undefined) return known
    const { batcher } = this.#parts
    const cells = batcher.queuesOf(topic, 'cells', CELLS)
    const putting = (mode: 'set' | 'lower') =>
      batcher.kindsOf<Hint, boolean>(cells, `put/${mode}`, async (cell, hints, deadlineMs) => {
        const args = putArgs(hints, mode)
        const [, row] = await this.#run<[string]>('hints/put', topic, cell, args, deadlineMs)
        return hints.map((_, i) => row === '' || row[i] === '1')
      })
    const removing = (name: 'hints/cancel' | 'hints/drop') =>
      batcher.kindsOf<Place, null>(cells, name, async (cell, places, deadlineMs) => {
        await this.#run(name, topic, cell, [packKeys(places)], deadlineMs)
        return places.map(() => null)
      })
    const has = batcher.kindsOf<Place, boolean>(cells, 'has', async (cell, places, deadlineMs) => {
      const [, row] = await this.#run<[string]>('hints/has', topic, cell, [packKeys(places)], deadlineMs)
      return places.map((_, i) => row[i] === '1')
    })
    const made = {
      set: putting('set'),
      lower: putting('lower'),
      cancel: removing('hints/cancel'),
      drop: removing('hints/drop'),
      has,
    }
    this.#kindsOf.set(topic, made)
    return made
  }

  #run<A extends readonly unknown[]>(
    name: HintScriptName,
    topic: string,
    cell: number,
    args: readonly (string | Buffer)[],
    deadlineMs?: number,
  ): Promise<[number, ...A]> {
    const { caller, keys } = this.#parts
    return caller.run<A>(name, keys.of(topic, cell), args, deadlineMs)
  }
}

/**
 * The kinds of batches of a topic: calls of one kind to one cell are sent together. Each list has an element for every
 * cell.
 */
interface HintKinds {
  readonly set: readonly BatchKind<Hint, boolean>[]
  readonly lower: readonly BatchKind<Hint, boolean>[]
  readonly cancel: readonly BatchKind<Place, null>[]
  readonly drop: readonly BatchKind<Place, null>[]
  readonly has: readonly BatchKind<Place, boolean>[]
}

function putArgs(hints: readonly Hint[], mode: 'set' | 'lower'): (string | Buffer)[] {
  const packer = new Packer().beginList()
  let letters = ''
  let areNormal = true
  for (const hint of hints) {
    const letter = letterOf(hint)
    if (letter !== 'n') areNormal = false
    letters += letter
    packer.string(hint.key)
  }
  packer.beginList()
  for (const hint of hints) packer.string(scoreText(hint))
  // Send a single letter if all hints are normal, as in most batches.
  return [mode, areNormal ? 'n' : letters, packer.packed()]
}

function letterOf({ priority, isSuspect }: Hint): string {
  return isSuspect ? 's' : laneLetter(priority)
}

/** Returns the score of a hint: ms * 1000 + failures, an exact integer, as in `score_at` of lua/shared/tries.lua. */
function scoreText({ ringMs, failures }: Hint): string {
  const wholeMs = Math.min(Math.max(0, Math.ceil(ringMs)), LAST_INSTANT_MS)
  return String(wholeMs * 1000 + Math.min(failures, FAILURES_MAX))
}

function packKeys(places: readonly Place[]): Buffer {
  return packLists(places.map(({ key }) => key))
}

/** Parses 'ring cell key'. The key may contain spaces and line ends. */
function frontierOf(filled: string): Frontier | null {
  const [, ring, cell, key = ''] = /^(\S+) (\S+) (.*)$/s.exec(filled) ?? []
  return ring === undefined ? null : { ringMs: Number(ring), cell: Number(cell), key }
}
