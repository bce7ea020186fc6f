import type { Board } from '../../src/board.ts'
import { cellOf } from '../../src/values/cell.ts'
import type { TopicAudit } from '../../src/store.ts'
import { PullClients } from './pull-clients.ts'
import { FaultInjector } from './fault-injector.ts'
import { Callers } from './callers.ts'
import { Chance } from './chance.ts'
import { Handlers } from './handlers.ts'
import type { Ending, FinalState, History } from './history.ts'
import type { Fate } from './link.ts'
import { MissingHintWatch } from './missing-hint-watch.ts'
import { ATTEMPTS_MAX, type Life, Node } from './node.ts'
import { Operators } from './operators.ts'
import type { Plan } from './plan.ts'
import { Recorder, versionOf } from './recorder.ts'
import { Servers, TOPIC } from './servers.ts'
import { WorldClock } from './world-clock.ts'

/** After the last fault, everything that was delayed must be done within this time. */
const HEALING_MS = 50_000
/**
 * The next suspect must start within this time after the one before, whatever that one did: the consumer drains for one
 * lease (4 s) at most, the suspect has it for another, and then other tasks get four times as long.
 */
const SUSPECTS_MS = 45_000
/** Upper bound on the time to recover, however many processes were killed and however many suspects there are. */
const HEALING_MS_MAX = 900_000
const CLOSING_MS = 60_000
/**
 * A task that fell due this long before the end must be done, with leases, retries and rescues included. A poison task kills
 * three processes before it is buried, and each time other processes take over the slots only after five seconds.
 */
const SETTLED_MS = 35_000

export interface Outcome {
  readonly history: History
  /** How many calls were lost, delayed or repeated by a faulty link, by kind. */
  readonly fates: ReadonlyMap<Fate, number>
  readonly simulatedMs: number
}

/** Runs a plan. The same plan always produces the same history, event by event. */
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
  readonly #faultInjector: FaultInjector
  readonly #watch: MissingHintWatch
  /** When the last suspect was claimed. */
  #suspectMs = 0
  /** At the end all processes must run: a poison task kills none any more. */
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
      hasLongTransactions: plan.faults.length > 0,
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
    this.#faultInjector = new FaultInjector({ ...parts, chance: this.#chance })
    this.#recorder.watch((event) => {
      if (event.kind === 'claim' && event.isAlone) this.#suspectMs = event.trueMs
    })
    const lookEveryMs = plan.lookMs / 5
    this.#watch = new MissingHintWatch({ ...parts, faultInjector: this.#faultInjector, everyMs: lookEveryMs })
  }

  async run(): Promise<Outcome> {
    const { spanMs, aheadMs, faults, composition, rate = null, fastClaims = false } = this.#plan
    for (const node of this.#nodes) node.start()
    this.#callers.start()
    this.#operators?.start()
    if (composition === 'center') this.#watch.start()
    this.#faultInjector.plan(faults)
    await this.#clock.run(spanMs)
    this.#faultInjector.heal()
    await this.#clock.run(spanMs + aheadMs + HEALING_MS)
    // A task that kills its process is a fault as well, which ends only when the task is buried as poison.
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
        rate,
        fastClaims,
      },
      fates: this.#fates,
      simulatedMs: this.#clock.nowMs,
    }
  }

  /**
   * When everything that was delayed must be done. After many crashes there are many suspects, which run one by one, so each
   * suspect that runs moves this time back.
   */
  get #healedMs(): number {
    const healedMs = Math.max(this.#faultInjector.quietSinceMs + HEALING_MS, this.#suspectMs + SUSPECTS_MS)
    return Math.min(healedMs, this.#plan.spanMs + this.#plan.aheadMs + HEALING_MS_MAX)
  }

  #consume(life: Life, name: string): void {
    const plan = this.#plan.nodes.find((node) => node.name === name)
    if (plan === undefined || plan.consumes === 'none') return
    if (plan.consumes === 'pull') return this.#pull(life, plan.concurrency)
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
        this.#faultInjector.noticed()
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

  #pull(life: Life, capacity: number): void {
    const { leaseMs, lookMs } = this.#plan
    new PullClients(life, {
      world: this.#clock,
      recorder: this.#recorder,
      // The name of a random stream is part of the seed: another name makes other runs.
      chance: this.#chance.fork(`bearers ${life.name}`),
      lives: () => this.#lives,
      leaseMs,
      lookMs,
      capacity,
      recordMs: () => this.#recordMs(life),
      onDeath: () => this.#faultInjector.noticed(),
    }).start()
  }

  get #lives(): Life[] {
    return this.#nodes.flatMap(({ life }) => life ?? [])
  }

  /** The latest time that any clock which decides what is due has shown. */
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
    return Math.max(...clocks.map((clock) => clock.now())) + this.#faultInjector.setBackMs
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

  /** Advances the clock until the promise settles. */
  async #waitFor<T>(promise: Promise<T>): Promise<T> {
    let isOver = false
    const ended = promise.finally(() => {
      isOver = true
    })
    ended.catch(() => {})
    await this.#clock.run(this.#clock.nowMs + CLOSING_MS, () => isOver)
    if (!isOver) {
      this.#recorder.tell({ kind: 'trouble', what: 'a call at the end of the run never returned' })
      throw new Error('a call at the end of the run never returned')
    }
    return ended
  }

  #node(name: string): Node {
    return this.#nodes.find((node) => node.name === name) as Node
  }
}
