import { cellOf } from '../../src/cell.ts'
import type { TopicAudit } from '../../src/store.ts'
import { Callers } from './callers.ts'
import { Chance } from './chance.ts'
import { Handlers } from './handlers.ts'
import type { Ending, FinalState, History } from './history.ts'
import type { Fate } from './link.ts'
import { ATTEMPTS_MAX, type Life, Node, TOPIC } from './node.ts'
import type { Fault, Plan } from './plan.ts'
import { Recorder, versionOf } from './recorder.ts'
import { Servers } from './servers.ts'
import { WorldClock } from './world-clock.ts'

/** After the last fault everything that was held up has this long to come right, and then all is to be done. */
const HEALING_MS = 30_000
const CLOSING_MS = 60_000
/** What fell due this long before the end had its time: leases, retries and rescues included. */
const SETTLED_MS = 20_000
const CELLS_CUT = 16
/** A fault that finds nothing to strike at strikes after this. */
const AIMED_MS = 5_000
/** So long after the last fault, the timetable has all that rings soon. */
const FILLED_MS = 6_000
/** What rings within this is looked at. */
const SOON_MS = { from: 1_000, to: 8_000 }
const TOLD_MS = 2_000

export interface Outcome {
  readonly history: History
  /** What became of calls on bad lines. */
  readonly fates: ReadonlyMap<Fate, number>
  readonly simulatedMs: number
}

/** Carries out a plan. The same plan has the same history, event by event. */
export async function simulate(plan: Plan): Promise<Outcome> {
  return new World(plan).run()
}

class World {
  readonly #plan: Plan
  readonly #clock = new WorldClock()
  readonly #recorder = new Recorder(this.#clock)
  readonly #servers: Servers
  readonly #nodes: Node[]
  readonly #callers: Callers
  readonly #fates = new Map<Fate, number>()
  readonly #chance: Chance
  /** A clock that rings was set back: until then, what it had shown before may still count. */
  #setBack = { byMs: 0, untilMs: 0 }
  /** Faults that last, and when the last one began or ended. */
  readonly #struck = new Set<Fault>()
  #struckMs = 0
  /** When each process died. */
  readonly #deaths = new Map<string, number>()
  #isHealed = false
  /** Whoever looks at the end wants everybody to be there. */
  #isEnding = false

  constructor(plan: Plan) {
    this.#plan = plan
    this.#chance = new Chance(`run ${plan.seed}`)
    this.#servers = new Servers(plan, this.#clock, this.#recorder, this.#chance.fork('servers'))
    this.#nodes = plan.nodes.map(
      (node) =>
        new Node({
          plan,
          node,
          world: this.#clock,
          servers: this.#servers,
          recorder: this.#recorder,
          chance: this.#chance.fork(node.name),
          onFate: (fate) => this.#fates.set(fate, (this.#fates.get(fate) ?? 0) + 1),
          onStart: (life) => this.#consume(life, node.name),
        }),
    )
    this.#callers = new Callers({
      world: this.#clock,
      recorder: this.#recorder,
      chance: this.#chance.fork('callers'),
      servers: this.#servers,
      lives: () => this.#nodes.flatMap(({ life }) => life ?? []),
      canTransact: plan.composition === 'center' || plan.composition === 'alone',
      callEveryMs: plan.callEveryMs,
      aheadMs: plan.aheadMs,
      cells: plan.cells,
      untilMs: plan.spanMs,
    })
  }

  async run(): Promise<Outcome> {
    const { spanMs, aheadMs, faults, composition } = this.#plan
    this.#recorder.watch((event) => {
      if (event.kind === 'life' && event.phase === 'crashes') this.#deaths.set(event.life, event.trueMs)
    })
    for (const node of this.#nodes) node.start()
    this.#callers.start()
    if (composition === 'center') this.#lookForMissing(new Map())
    for (const fault of faults) this.#clock.after(fault.atMs, () => this.#aim(fault))
    await this.#clock.run(spanMs)
    this.#heal()
    await this.#clock.run(spanMs + aheadMs + HEALING_MS)
    const ending = await this.#end()
    this.#servers.close()
    return {
      history: {
        composition,
        events: this.#recorder.events,
        ending,
        hasHandlers: true,
        attemptsMax: ATTEMPTS_MAX,
      },
      fates: this.#fates,
      simulatedMs: this.#clock.nowMs,
    }
  }

  #consume(life: Life, name: string): void {
    const plan = this.#plan.nodes.find((node) => node.name === name)
    if (plan === undefined || plan.consumes === 'none') return
    const node = this.#node(name)
    const handlers = new Handlers(life, {
      world: this.#clock,
      recorder: this.#recorder,
      chance: this.#chance.fork(`handlers ${life.name}`),
      leaseMs: this.#plan.leaseMs,
      recordMs: () => this.#recordMs(life),
      writeIn: (of, tx) => this.#callers.writeIn(of, tx),
      crash: () => {
        if (node.life !== life || this.#isEnding) return
        node.crash()
        this.#struckMs = this.#clock.nowMs
        this.#clock.after(500, () => node.start())
      },
    })
    const { concurrency } = plan
    if (plan.consumes === 'batch')
      life.topic.consumeBatch((tasks) => handlers.batch(tasks), { concurrency: Math.min(4, concurrency) })
    else if (plan.consumes === 'transaction')
      life.topic.consume((task, { tx }) => handlers.one(task, { tx }), { concurrency, transaction: true })
    else life.topic.consume((task) => handlers.one(task), { concurrency })
  }

  /** The latest moment that any clock that may ring has shown. */
  #recordMs(life: Life): number {
    const { composition } = this.#plan
    const { tableClock, ledgerClock } = this.#servers
    const clocks =
      composition === 'embedded'
        ? [life.clock]
        : composition === 'redis'
          ? [tableClock]
          : composition === 'alone'
            ? [ledgerClock]
            : [tableClock, ledgerClock]
    const setBackMs = this.#clock.nowMs < this.#setBack.untilMs ? this.#setBack.byMs : 0
    return Math.max(...clocks.map((clock) => clock.now())) + setBackMs
  }

  /** When its moment comes: at once, or as soon as what it is aimed at has happened. */
  #aim(fault: Fault): void {
    const name = this.#nodes[fault.node ?? 0]?.life?.name
    if (fault.aim === null || name === undefined) return this.#strike(fault)
    let isStruck = false
    const strike = () => {
      unwatch()
      if (!isStruck && !this.#isHealed) this.#strike(fault)
      isStruck = true
    }
    const unwatch = this.#recorder.watch((event) => {
      if (event.kind === fault.aim && event.life === name) strike()
    })
    this.#clock.after(AIMED_MS, strike)
  }

  #strike(fault: Fault): void {
    const { kind, forMs, byMs, mode, noise } = fault
    const [server] = kind.endsWith('ledger') ? (['ledger'] as const) : (['timetable'] as const)
    const nodes = fault.node === null ? this.#nodes : [this.#nodes[fault.node] as Node]
    const [node] = nodes as [Node]
    this.#recorder.tell({ kind: 'fault', fault: kind, phase: 'begin', life: node.life?.name ?? null })
    this.#struckMs = this.#clock.nowMs
    const over = (end: () => void) => {
      this.#struck.add(fault)
      this.#clock.after(forMs, () => {
        if (this.#isHealed) return
        this.#struck.delete(fault)
        this.#struckMs = this.#clock.nowMs
        end()
        this.#recorder.tell({ kind: 'fault', fault: kind, phase: 'end', life: node.life?.name ?? null })
      })
    }
    switch (kind) {
      case 'crash':
        node.crash()
        return over(() => node.start())
      case 'leave':
        // However long it takes: somebody starts it again.
        this.#struck.add(fault)
        void node.leave().then(() =>
          this.#clock.after(forMs, () => {
            this.#struck.delete(fault)
            this.#struckMs = this.#clock.nowMs
            node.start()
          }),
        )
        return
      case 'pause': {
        const { life } = node
        life?.clock.stop()
        return over(() => life?.clock.goOn())
      }
      case 'noise-timetable':
      case 'noise-ledger':
        for (const one of nodes) one.noise(server, noise)
        return over(() => nodes.forEach((one) => one.noise(server, null)))
      case 'cut-timetable':
      case 'cut-ledger':
        for (const one of nodes) one.line(server, mode)
        return over(() => nodes.forEach((one) => one.line(server, 'open')))
      case 'cut-cells': {
        const first = this.#chance.whole(0, 63 - CELLS_CUT)
        const cells = new Set(Array.from({ length: CELLS_CUT }, (_, n) => first + n))
        for (const one of nodes) one.cutCells(cells)
        return over(() => nodes.forEach((one) => one.cutCells(null)))
      }
      case 'wipe':
        return this.#servers.table.wipe()
      case 'rollback':
        return this.#servers.table.rollback(byMs)
      case 'restart-timetable':
        return this.#servers.table.restart()
      case 'step-node':
        node.life?.clock.stepWall(byMs)
        return this.#steppedBack(this.#plan.composition === 'embedded' ? byMs : 0)
      case 'step-timetable':
        this.#servers.tableClock.stepWall(byMs)
        return this.#steppedBack(byMs)
      case 'step-ledger':
        this.#servers.ledgerClock.stepWall(byMs)
        return this.#steppedBack(byMs)
    }
  }

  #steppedBack(byMs: number): void {
    if (byMs < 0) this.#setBack = { byMs: -byMs, untilMs: this.#clock.nowMs + 30_000 }
  }

  /** All lines are good, all processes run. */
  #heal(): void {
    this.#isHealed = true
    this.#struck.clear()
    this.#struckMs = this.#clock.nowMs
    for (const node of this.#nodes) {
      node.line('timetable', 'open')
      node.line('ledger', 'open')
      node.noise('timetable', null)
      node.noise('ledger', null)
      node.cutCells(null)
      node.life?.clock.goOn()
      node.start()
    }
    this.#recorder.tell({ kind: 'fault', fault: 'all', phase: 'end', life: null })
  }

  /**
   * With a ledger and a shared timetable: whether the one knows what the other is to ring. Looked at again and again, for
   * as long as all has been quiet; what is missing twice is not just on its way.
   */
  #lookForMissing(before: ReadonlyMap<string, number>): void {
    const look = async () => {
      if (this.#isEnding) return
      const isQuiet = this.#struck.size === 0 && this.#clock.nowMs > this.#struckMs + FILLED_MS
      const found = isQuiet ? await this.#missing() : new Map<string, number>()
      for (const [key, ringMs] of found)
        if (before.get(key) === ringMs) this.#recorder.tell({ kind: 'missing', key, ringMs })
      this.#lookForMissing(found)
    }
    this.#clock.after(this.#plan.lookMs / 5, () => void look())
  }

  async #missing(): Promise<Map<string, number>> {
    const { ledger, table, ledgerClock } = this.#servers
    const nowMs = ledgerClock.now()
    const soon = ledger
      .snapshot(TOPIC)
      .live.filter(
        ({ session, ring_ms }) =>
          session === null && ring_ms >= nowMs + SOON_MS.from && ring_ms <= nowMs + SOON_MS.to,
      )
    const sure = soon.filter(({ key, ring_ms }) => this.#isToldOf(key, ring_ms))
    const isThere = await table.face.has(TOPIC, sure)
    return new Map(sure.filter((_, i) => !isThere[i]).map(({ key, ring_ms }) => [key, ring_ms]))
  }

  /**
   * Who wrote it lived on to tell the timetable; otherwise it is found when it is overdue, and not before. What a
   * transaction wrote is told by whoever reads the news, who may have died as well.
   */
  #isToldOf(key: string, ringMs: number): boolean {
    const told = this.#callers.acknowledged.get(key)
    if (told?.dueMs !== ringMs) return false
    if (told.isInTransaction) return told.atMs > this.#struckMs
    const diedMs = this.#deaths.get(told.life)
    return diedMs === undefined || diedMs > told.atMs + TOLD_MS
  }

  async #end(): Promise<Ending> {
    this.#isEnding = true
    for (const node of this.#nodes) node.start()
    const recordMs = Math.max(
      ...this.#nodes.flatMap(({ life }) => (life === null ? [] : [this.#recordMs(life)])),
    )
    const [first] = this.#nodes.flatMap(({ life }) => life ?? [])
    if (first === undefined) throw new Error('no process is left')
    const audit = this.#plan.composition === 'redis' ? null : await this.#audit(first)
    const truth = this.#servers.truth(this.#plan, first.embedded)
    const keys = await this.#waitFor(
      Promise.all(
        this.#callers.keys.map(async (key): Promise<FinalState> => {
          const view = await truth.get(TOPIC, { key, cell: cellOf(key, 'key') })
          return {
            key,
            state: view?.state ?? 'none',
            version: view === null ? null : versionOf(view.body),
            deadCause: view?.deadCause ?? null,
            failures: view?.failures ?? 0,
            dueMs: view?.dueMs ?? null,
          }
        }),
      ),
    )
    const books = await this.#waitFor(truth.books(TOPIC))
    const timersLeft = await this.#close()
    return {
      trueMs: this.#clock.nowMs,
      recordMs,
      settledBeforeMs: recordMs - SETTLED_MS,
      keys,
      books,
      audit,
      timersLeft,
    }
  }

  async #audit({ toc }: Life): Promise<Ending['audit']> {
    const topics = await this.#waitFor(toc.audit())
    const [found] = topics.filter(({ topic }: TopicAudit) => topic === TOPIC)
    if (found === undefined) return { balances: true, missing: 0, orphaned: 0 }
    const { balances, missing, orphaned } = found
    return { balances, missing, orphaned }
  }

  async #close(): Promise<number> {
    const lives = this.#nodes.flatMap(({ life }) => life ?? [])
    const left = this.#nodes.map((node) => node.leave())
    await this.#waitFor(Promise.all(left))
    await this.#clock.run(this.#clock.nowMs + 1)
    return lives.reduce((sum, { clock }) => sum + clock.timerCount, 0)
  }

  /** Lets time pass until it is there. */
  async #waitFor<T>(promise: Promise<T>): Promise<T> {
    let isOver = false
    const ended = promise.finally(() => {
      isOver = true
    })
    ended.catch(() => {})
    await this.#clock.run(this.#clock.nowMs + CLOSING_MS, () => isOver)
    if (!isOver) {
      this.#recorder.tell({ kind: 'trouble', what: 'something at the end never ended' })
      throw new Error('something at the end never ended')
    }
    return ended
  }

  #node(name: string): Node {
    return this.#nodes.find((node) => node.name === name) as Node
  }
}
