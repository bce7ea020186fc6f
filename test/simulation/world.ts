import type { Board } from '../../src/board.ts'
import { cellOf } from '../../src/values/cell.ts'
import type { TopicAudit } from '../../src/store.ts'
import { Bearers } from './bearers.ts'
import { Calamities } from './calamities.ts'
import { Callers } from './callers.ts'
import { Chance } from './chance.ts'
import { Handlers } from './handlers.ts'
import type { Ending, FinalState, History } from './history.ts'
import type { Fate } from './link.ts'
import { MissingWatch } from './missing-watch.ts'
import { ATTEMPTS_MAX, type Life, Node } from './node.ts'
import { Operators } from './operators.ts'
import type { Plan } from './plan.ts'
import { Recorder, versionOf } from './recorder.ts'
import { Servers, TOPIC } from './servers.ts'
import { WorldClock } from './world-clock.ts'

/** After the last fault everything that was held up has this long to come right, and then all is to be done. */
const HEALING_MS = 50_000
/** Between two suspects no more than this passes, whatever the one before did. */
const SUSPECTS_MS = 20_000
/** However often processes are taken down, and however many suspects there are. */
const HEALING_MS_MAX = 900_000
const CLOSING_MS = 60_000
/**
 * What fell due this long before the end had its time: leases, retries and rescues included. A task that kills takes three
 * processes down before it is found out, and each time five seconds pass until others pull what that one did.
 */
const SETTLED_MS = 35_000

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
  readonly #operators: Operators | null
  readonly #fates = new Map<Fate, number>()
  readonly #chance: Chance
  readonly #calamities: Calamities
  readonly #watch: MissingWatch
  /** When the last one was claimed by itself. */
  #suspectMs = 0
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
    const lives = () => this.#lives
    this.#callers = new Callers({
      world: this.#clock,
      recorder: this.#recorder,
      chance: this.#chance.fork('callers'),
      servers: this.#servers,
      lives,
      canTransact: plan.composition === 'center' || plan.composition === 'alone',
      callEveryMs: plan.callEveryMs,
      aheadMs: plan.aheadMs,
      cells: plan.cells,
      untilMs: plan.spanMs,
    })
    const { configEveryMs: everyMs = null } = plan
    this.#operators =
      everyMs === null
        ? null
        : new Operators({
            world: this.#clock,
            recorder: this.#recorder,
            chance: this.#chance.fork('operators'),
            lives,
            everyMs,
            untilMs: plan.spanMs,
          })
    const parts = {
      composition: plan.composition,
      clock: this.#clock,
      recorder: this.#recorder,
      servers: this.#servers,
      nodes: this.#nodes,
      callers: this.#callers,
    }
    this.#calamities = new Calamities({ ...parts, chance: this.#chance })
    this.#recorder.watch((event) => {
      if (event.kind === 'claim' && event.isAlone) this.#suspectMs = event.trueMs
    })
    const lookEveryMs = plan.lookMs / 5
    this.#watch = new MissingWatch({ ...parts, calamities: this.#calamities, everyMs: lookEveryMs })
  }

  async run(): Promise<Outcome> {
    const { spanMs, aheadMs, faults, composition } = this.#plan
    for (const node of this.#nodes) node.start()
    this.#callers.start()
    this.#operators?.start()
    if (composition === 'center') this.#watch.start()
    this.#calamities.plan(faults)
    await this.#clock.run(spanMs)
    this.#calamities.heal()
    await this.#clock.run(spanMs + aheadMs + HEALING_MS)
    // A task that takes its process down is a fault, too, and not healed before it is found out.
    while (this.#clock.nowMs < this.#healedMs) await this.#clock.run(this.#healedMs)
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

  /**
   * What was held up has come right by then. After many deaths there are many suspects, which run one by one: while they do,
   * the others have their turn yet.
   */
  get #healedMs(): number {
    const healedMs = Math.max(this.#calamities.quietSinceMs + HEALING_MS, this.#suspectMs + SUSPECTS_MS)
    return Math.min(healedMs, this.#plan.spanMs + this.#plan.aheadMs + HEALING_MS_MAX)
  }

  #consume(life: Life, name: string): void {
    const plan = this.#plan.nodes.find((node) => node.name === name)
    if (plan === undefined || plan.consumes === 'none') return
    if (plan.consumes === 'pull') return this.#bear(life, plan.concurrency)
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
        this.#calamities.noticed()
        this.#clock.after(500, () => node.start())
      },
    })
    const concurrency = plan.consumes === 'batch' ? Math.min(4, plan.concurrency) : plan.concurrency
    this.#recorder.tell({ kind: 'consume', life: life.name, capacity: concurrency })
    if (plan.consumes === 'batch') life.topic.consumeBatch((tasks) => handlers.batch(tasks), { concurrency })
    else if (plan.consumes === 'transaction')
      life.topic.consume((task, { tx }) => handlers.one(task, { tx }), { concurrency, transaction: true })
    else life.topic.consume((task) => handlers.one(task), { concurrency })
  }

  #bear(life: Life, capacity: number): void {
    const { leaseMs, lookMs } = this.#plan
    new Bearers(life, {
      world: this.#clock,
      recorder: this.#recorder,
      chance: this.#chance.fork(`bearers ${life.name}`),
      lives: () => this.#lives,
      leaseMs,
      lookMs,
      capacity,
      recordMs: () => this.#recordMs(life),
      onDeath: () => this.#calamities.noticed(),
    }).start()
  }

  get #lives(): Life[] {
    return this.#nodes.flatMap(({ life }) => life ?? [])
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
    return Math.max(...clocks.map((clock) => clock.now())) + this.#calamities.setBackMs
  }

  async #end(): Promise<Ending> {
    this.#isEnding = true
    this.#watch.stop()
    for (const node of this.#nodes) node.start()
    await this.#clock.run(this.#clock.nowMs + CLOSING_MS, () =>
      this.#nodes.every(({ life }) => life !== null),
    )
    const recordMs = Math.max(
      ...this.#nodes.flatMap(({ life }) => (life === null ? [] : [this.#recordMs(life)])),
    )
    const [first] = this.#lives
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
    const config = await this.#config(first.board)
    const timersLeft = await this.#close()
    return {
      trueMs: this.#clock.nowMs,
      recordMs,
      settledBeforeMs: recordMs - SETTLED_MS,
      keys,
      books,
      audit,
      config,
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

  async #config(board: Board): Promise<Ending['config']> {
    const records = await this.#waitFor(board.records())
    const record = records.find(({ topic }) => topic === TOPIC)
    if (record === undefined) return null
    const past = await this.#waitFor(board.history(TOPIC, 100))
    const lives = this.#lives
    return {
      version: record.version,
      isPaused: record.isPaused,
      past: past.map(({ version }) => version),
      seen: await this.#waitFor(
        Promise.all(
          lives.map(async ({ name, topic }) => ({ life: name, version: (await topic.config()).version })),
        ),
      ),
    }
  }

  async #close(): Promise<number> {
    const lives = this.#lives
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
