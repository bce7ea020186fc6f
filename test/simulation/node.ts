import { RecordClock } from '../../src/lib/record-clock.ts'
import type { Board } from '../../src/board.ts'
import type { Ledger } from '../../src/ledger.ts'
import { silentLogger } from '../../src/telemetry/logger.ts'
import { type Meter, noMeter } from '../../src/telemetry/meter.ts'
import { ledgerClock } from '../../src/store/ledger-clock.ts'
import { LedgerStore } from '../../src/store/ledger-store.ts'
import type { TaskStore } from '../../src/store.ts'
import { MemoryTimetable } from '../../src/timetables/memory/timetable.ts'
import { Tocsin, type TocsinParts } from '../../src/api/tocsin.ts'
import type { Topic } from '../../src/api/topic.ts'
import { type Chance, engineRandom } from './chance.ts'
import type { Composition } from './history.ts'
import { type Fate, Link, type Noise } from './link.ts'
import type { NodePlan, Plan } from './plan.ts'
import { ProcessClock } from './process-clock.ts'
import type { Payload, Recorder, Told } from './recorder.ts'
import { type Client, type Servers, TOPIC } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

export const ATTEMPTS_MAX = 4
const CALL_TIMEOUT_MS = 1_000
/** A timetable that is filled by looking holds no more than so many of a topic. */
const POLLED_MAX = 200
/** A process that could not open its Tocsin ends, and its supervisor restarts it. */
const RESTART_MS = 1_000

/** Made with a clock and a store of our own. */
class SimulatedTocsin extends Tocsin {
  constructor(parts: TocsinParts) {
    super(parts)
  }

  override join(): Promise<void> {
    return super.join()
  }
}

export interface NodeParts {
  readonly plan: Plan
  readonly node: NodePlan
  readonly world: WorldClock
  readonly servers: Servers
  readonly recorder: Recorder
  readonly chance: Chance
  readonly onFate: (fate: Fate) => void
  /** The process is open: what it does is not the node's business. */
  readonly onStart: (life: Life) => void
}

/** One run of a node's process, which may not be open yet. */
export interface Process {
  readonly name: string
  readonly toc: SimulatedTocsin
  readonly clock: ProcessClock
  /** Undone when it dies. */
  readonly undo: Set<() => void>
  /** Of an embedded one: its own ledger. */
  readonly embedded: Ledger | null
  /** The stored settings, for the checks at the end. */
  readonly board: Board
}

/** One that is open. */
export interface Life extends Process {
  readonly topic: Topic<Payload, Payload>
}

/** A machine with a process on it that dies and is started again. */
export class Node {
  readonly #parts: NodeParts
  readonly #lines = { timetable: [] as (() => void)[], ledger: [] as (() => void)[] }
  #process: Process | null = null
  #life: Life | null = null
  #lives = 0
  #tableLink: Link | null = null
  #ledgerLink: Link | null = null
  #noise: { timetable: Noise | null; ledger: Noise | null } = { timetable: null, ledger: null }
  #state: { timetable: Link['state']; ledger: Link['state'] } = { timetable: 'open', ledger: 'open' }
  #cutCells: ReadonlySet<number> | null = null

  constructor(parts: NodeParts) {
    this.#parts = parts
  }

  get name(): string {
    return this.#parts.node.name
  }

  /** Null while none runs on it. */
  get process(): Process | null {
    return this.#process
  }

  /** Null while none is open. */
  get life(): Life | null {
    return this.#life
  }

  start(): void {
    if (this.#process !== null) return
    const { node, world, recorder, plan } = this.#parts
    const name = `${node.name}/${++this.#lives}`
    const clock = new ProcessClock(world, node.skewMs, node.driftPpm)
    const chance = this.#parts.chance.fork(`life ${this.#lives}`)
    const undo = new Set<() => void>()
    const recordClocks = { timetable: new RecordClock(clock), ledger: new RecordClock(clock) }
    const link = (server: 'timetable' | 'ledger') =>
      new Link({
        world,
        clock,
        chance: chance.fork(server),
        server,
        // A file is not left half-way: what it has begun it answers, however late.
        callTimeoutMs: plan.composition === 'embedded' ? Number.POSITIVE_INFINITY : CALL_TIMEOUT_MS,
        onFate: this.#parts.onFate,
        serverNow: () =>
          server === 'ledger' ? this.#parts.servers.ledgerClock.now() : this.#parts.servers.tableClock.now(),
        recordClock: recordClocks[server],
      })
    const tableLink = link('timetable')
    const ledgerLink = link('ledger')
    this.#tableLink = tableLink
    this.#ledgerLink = ledgerLink
    this.#lines.timetable = []
    this.#lines.ledger = []
    this.#applyLines()
    const client: Client = {
      life: name,
      clock,
      tableLink,
      ledgerLink,
      ledgerClock: recordClocks.ledger,
      onDeath: (one) => undo.add(one),
      onReturn: (server, hear) => this.#lines[server].push(() => clock.reach(hear)),
    }
    const random = engineRandom(chance.fork('engine'), name)
    const meter: Meter = {
      ...noMeter,
      caught: (_topic, net, count) => {
        if (!clock.isDead) recorder.tell({ kind: 'net', life: name, net, count })
      },
    }
    const { store, board, embedded, truth } = this.#stores(plan.composition, client, random, meter)
    const toc = new SimulatedTocsin({ store, board, node: name, clock, random, logger: silentLogger, meter })
    this.#process = { name, toc, clock, undo, embedded, board: truth }
    recorder.tell({ kind: 'life', life: name, phase: 'starts' })
    void this.#open(this.#process)
  }

  /** As Tocsin.open does; then the program goes on. */
  async #open(process: Process): Promise<void> {
    const { plan, recorder, world, onStart } = this.#parts
    const { name, toc, clock } = process
    try {
      await toc.join()
    } catch {
      await toc.close()
      if (this.#process !== process) return
      this.#ended(process)
      world.after(RESTART_MS, () => this.start())
      return
    }
    if (this.#process !== process) return
    const topic = toc.topic<Payload>(TOPIC, {
      lease: plan.leaseMs,
      fastClaims: plan.fastClaims === true,
      timeout: 8_000,
      resident: 15_000,
      slots: plan.slots,
      batchSize: 20,
      retry: { maxAttempts: ATTEMPTS_MAX, min: 200, max: 1_500 },
      rate: plan.rate === undefined ? undefined : { limit: plan.rate.limit, per: plan.rate.perMs },
    }) as Topic<Payload, Payload>
    const tell = (told: Told) => {
      if (!clock.isDead) recorder.tell(told)
    }
    toc.on('dead', ({ key, cause }) => tell({ kind: 'dead', life: name, key, cause }))
    // By what is in force at this moment they are dealt.
    toc.on('slots', async ({ owned }) => {
      const { effective } = await topic.config()
      tell({ kind: 'slots', life: name, owned, slots: effective.slots as number })
    })
    const sawConfig = (version: number, isPaused: boolean) =>
      tell({ kind: 'config', life: name, version, isPaused })
    toc.on('config', ({ version, paused }) => sawConfig(version, paused))
    const { version, paused } = await topic.config()
    if (this.#process !== process) return
    this.#life = { ...process, topic }
    tell({ kind: 'life', life: name, phase: 'opens' })
    sawConfig(version, paused)
    onStart(this.#life)
  }

  /** kill -9, or the power goes. What it has sent is on its way. */
  crash(): void {
    const process = this.#process
    if (process === null) return
    this.#process = null
    this.#life = null
    process.clock.die()
    for (const undo of process.undo) undo()
    this.#parts.recorder.tell({ kind: 'life', life: process.name, phase: 'crashes' })
  }

  /** It closes, and is gone when it says so. */
  async leave(): Promise<void> {
    const life = this.#life
    // Before it is open, it has no signal handler: it ends at once.
    if (life === null) return this.crash()
    const { recorder } = this.#parts
    recorder.tell({ kind: 'life', life: life.name, phase: 'closes' })
    await life.toc.close({ timeout: '2s' })
    // It may have been killed meanwhile; then this is never reached.
    this.#ended(life)
  }

  #ended({ name, undo }: Process): void {
    this.#parts.recorder.tell({ kind: 'life', life: name, phase: 'closed' })
    for (const one of undo) one()
    if (this.#process?.name !== name) return
    this.#process = null
    this.#life = null
  }

  noise(server: 'timetable' | 'ledger', noise: Noise | null): void {
    this.#noise[server] = noise
    this.#applyLines()
    if (noise === null) this.#returned(server)
  }

  line(server: 'timetable' | 'ledger', state: Link['state']): void {
    this.#state[server] = state
    this.#applyLines()
    if (state === 'open') this.#returned(server)
  }

  cutCells(cells: ReadonlySet<number> | null): void {
    this.#cutCells = cells
    this.#applyLines()
    if (cells === null) this.#returned('timetable')
  }

  #returned(server: 'timetable' | 'ledger'): void {
    for (const hear of this.#lines[server]) hear()
  }

  #applyLines(): void {
    if (this.#tableLink === null || this.#ledgerLink === null) return
    this.#tableLink.noise = this.#noise.timetable
    this.#tableLink.state = this.#state.timetable
    this.#tableLink.cutCells = this.#cutCells
    this.#ledgerLink.noise = this.#noise.ledger
    this.#ledgerLink.state = this.#state.ledger
  }

  #stores(
    composition: Composition,
    client: Client,
    random: ReturnType<typeof engineRandom>,
    meter: Meter,
  ): { store: TaskStore; board: Board; embedded: Ledger | null; truth: Board } {
    const { servers, plan } = this.#parts
    const { clock } = client
    const around = { clock, random, logger: silentLogger, meter }
    if (composition === 'embedded') {
      const { ledger, board, truth } = servers.embeddedFor(client)
      const table = new MemoryTimetable(clock, random, plan.lookMs)
      return { store: new LedgerStore({ ...around, ledger, table }), board, embedded: ledger, truth }
    }
    const server = composition === 'redis' ? 'timetable' : 'ledger'
    const board = servers.boardFor(client, server)
    const shared = { board, embedded: null, truth: servers.board }
    if (composition === 'redis') return { store: servers.timetableFor(client), ...shared }
    const ledger = servers.ledgerFor(client, composition === 'alone')
    const makeSpare = () =>
      new MemoryTimetable(ledgerClock(ledger, clock), random, plan.lookMs, plan.polledMax ?? POLLED_MAX)
    const store =
      composition === 'alone'
        ? new LedgerStore({ ...around, ledger, table: makeSpare() })
        : new LedgerStore({ ...around, ledger, table: servers.hintsFor(client), makeSpare })
    return { store, ...shared }
  }
}
