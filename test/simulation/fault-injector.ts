import type { Chance } from './chance.ts'
import type { Node } from './node.ts'
import type { Composition } from './history.ts'
import type { Fault } from './plan.ts'
import type { Recorder } from './recorder.ts'
import type { Servers } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

const CELLS_CUT = 16
/** A fault that is aimed at an event strikes after this time even if the event does not happen. */
const AIMED_MS = 5_000
/** For this long after a clock was set back, times that it showed before are still accepted. */
const SET_BACK_MS = 30_000

interface FaultInjectorParts {
  readonly composition: Composition
  readonly clock: WorldClock
  readonly recorder: Recorder
  readonly servers: Servers
  readonly nodes: readonly Node[]
  readonly chance: Chance
}

/** Injects the faults of a plan, and ends all of them with `heal()`. */
export class FaultInjector {
  readonly #parts: FaultInjectorParts
  /** Faults in progress. */
  readonly #struck = new Set<Fault>()
  #struckMs = 0
  #setBack = { byMs: 0, untilMs: 0 }
  #isHealed = false

  constructor(parts: FaultInjectorParts) {
    this.#parts = parts
  }

  /** Since when no fault is in progress; Infinity if one is. */
  get quietSinceMs(): number {
    return this.#struck.size > 0 ? Number.POSITIVE_INFINITY : this.#struckMs
  }

  /** By how much a clock that decides what is due was set back lately. Times that it showed before are still accepted. */
  get setBackMs(): number {
    return this.#parts.clock.nowMs < this.#setBack.untilMs ? this.#setBack.byMs : 0
  }

  plan(faults: readonly Fault[]): void {
    for (const fault of faults) this.#parts.clock.after(fault.atMs, () => this.#aim(fault))
  }

  /** Counts a fault that was not planned: a task killed its process. */
  noticed(): void {
    this.#struckMs = this.#parts.clock.nowMs
  }

  /** Restores all links and restarts all processes. */
  heal(): void {
    this.#isHealed = true
    this.#struck.clear()
    this.#struckMs = this.#parts.clock.nowMs
    for (const node of this.#parts.nodes) {
      node.line('timetable', 'open')
      node.line('ledger', 'open')
      node.noise('timetable', null)
      node.noise('ledger', null)
      node.cutCells(null)
      node.process?.clock.goOn()
      node.start()
    }
    this.#parts.recorder.tell({ kind: 'fault', fault: 'all', phase: 'end', life: null })
  }

  /** Strikes at once, or as soon as the event at which the fault is aimed has happened. */
  #aim(fault: Fault): void {
    const name = this.#parts.nodes[fault.node ?? 0]?.process?.name
    if (fault.aim === null || name === undefined) return this.#strike(fault)
    let isStruck = false
    const strike = () => {
      unwatch()
      if (!isStruck && !this.#isHealed) this.#strike(fault)
      isStruck = true
    }
    const unwatch = this.#parts.recorder.watch((event) => {
      if (event.kind !== fault.aim || (fault.kind !== 'crash-ledger' && event.life !== name)) return
      // Soon after: while the claim is being recorded, its other tasks are not yet in the history.
      if (fault.kind === 'crash-ledger') this.#parts.clock.after(fault.byMs / 2, strike)
      else strike()
    })
    this.#parts.clock.after(AIMED_MS, strike)
  }

  #strike(fault: Fault): void {
    const { kind, forMs, byMs, mode, noise } = fault
    const [server] = kind.endsWith('ledger') ? (['ledger'] as const) : (['timetable'] as const)
    const nodes = fault.node === null ? this.#parts.nodes : [this.#parts.nodes[fault.node] as Node]
    const [node] = nodes as [Node]
    const tell = (phase: 'begin' | 'end') => {
      const isEverybody = fault.node === null
      const life = isEverybody ? null : (node.process?.name ?? null)
      this.#parts.recorder.tell({ kind: 'fault', fault: kind, phase, life, isEverybody })
    }
    tell('begin')
    this.#struckMs = this.#parts.clock.nowMs
    const over = (end: () => void) => {
      this.#struck.add(fault)
      this.#parts.clock.after(forMs, () => {
        if (this.#isHealed) return
        this.#struck.delete(fault)
        this.#struckMs = this.#parts.clock.nowMs
        end()
        tell('end')
      })
    }
    switch (kind) {
      case 'crash':
        node.crash()
        return over(() => node.start())
      case 'leave':
        // Restarted after it has closed, however long that takes.
        this.#struck.add(fault)
        void node.leave().then(() =>
          this.#parts.clock.after(forMs, () => {
            this.#struck.delete(fault)
            this.#struckMs = this.#parts.clock.nowMs
            node.start()
          }),
        )
        return
      case 'pause': {
        const { process } = node
        process?.clock.stop()
        return over(() => process?.clock.goOn())
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
        const first = this.#parts.chance.whole(0, 63 - CELLS_CUT)
        const cells = new Set(Array.from({ length: CELLS_CUT }, (_, n) => first + n))
        for (const one of nodes) one.cutCells(cells)
        return over(() => nodes.forEach((one) => one.cutCells(null)))
      }
      case 'crash-ledger':
        this.#parts.servers.crashLedger(byMs)
        for (const one of nodes) one.line('ledger', 'refuses')
        return over(() => nodes.forEach((one) => one.line('ledger', 'open')))
      case 'wipe':
        return this.#parts.servers.table.wipe()
      case 'rollback':
        return this.#parts.servers.table.rollback(byMs)
      case 'restart-timetable':
        return this.#parts.servers.table.restart()
      case 'step-node':
        node.process?.clock.stepWall(byMs)
        return this.#steppedBack(this.#parts.composition === 'embedded' ? byMs : 0)
      case 'step-timetable':
        this.#parts.servers.tableClock.stepWall(byMs)
        return this.#steppedBack(byMs)
      case 'step-ledger':
        this.#parts.servers.ledgerClock.stepWall(byMs)
        return this.#steppedBack(byMs)
    }
  }

  #steppedBack(byMs: number): void {
    if (byMs < 0) this.#setBack = { byMs: -byMs, untilMs: this.#parts.clock.nowMs + SET_BACK_MS }
  }
}
