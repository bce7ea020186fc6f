import type { ConfigView, LiveConfig } from '../../src/values/config.ts'
import { TocsinError } from '../../src/errors.ts'
import type { Chance } from './chance.ts'
import type { ConfiguredEvent, ConfigureEvent } from './history.ts'
import type { Life } from './node.ts'
import { patchMark } from './recorded-board.ts'
import type { Recorder } from './recorder.ts'
import { TOPIC } from './servers.ts'
import type { WorldClock } from './world-clock.ts'

interface OperatorsParts {
  readonly world: WorldClock
  readonly recorder: Recorder
  readonly chance: Chance
  /** Processes that run now. */
  readonly lives: () => readonly Life[]
  readonly everyMs: number
  readonly untilMs: number
}

const CHANGES = { slots: 6, batchSize: 2, lease: 2, back: 1, pause: 2, declare: 2 }
const RESUME_AGAIN_MS = 1_000

/** Operators who change the settings of the running topic: one alone, or several at once, on different nodes. */
export class Operators {
  readonly #parts: OperatorsParts
  readonly #lingers: Chance
  #marks = 0
  #isPaused = false
  #isResuming = false

  constructor(parts: OperatorsParts) {
    this.#parts = parts
    this.#lingers = parts.chance.fork('lingers')
    parts.recorder.watch((event) => {
      if (event.kind !== 'record') return
      this.#isPaused = event.isPaused
      // However late a pause takes effect, some operator resumes.
      if (event.isPaused) this.#resumeIn(parts.chance.between(500, 5_000))
    })
  }

  start(): void {
    const { world, chance, everyMs, untilMs } = this.#parts
    const inMs = -Math.log(1 - chance.fraction()) * everyMs
    if (world.nowMs + inMs > untilMs) return
    world.after(inMs, () => {
      this.#act()
      this.start()
    })
  }

  #act(): void {
    const { chance, lives } = this.#parts
    const all = [...lives()]
    for (let n = chance.is(0.4) ? chance.whole(2, 3) : 1; n > 0 && all.length > 0; n--) {
      const life = chance.pick(all)
      // The same one twice, now and then.
      if (chance.is(0.8)) all.splice(all.indexOf(life), 1)
      this.#change(life)
    }
  }

  /** `of`: a version that was read elsewhere. */
  #change(life: Life, of: number | null = null): void {
    const { chance } = this.#parts
    const kind = chance.weighted(CHANGES)
    if (kind === 'pause' && of === null)
      return this.#ask(life, 'pause', null, 'any', () => life.topic.pause())
    const mark = patchMark(++this.#marks)
    const retention = mark as `${number}s`
    if (kind === 'declare' && of === null)
      return this.#ask(life, 'declare', mark, 'any', () =>
        life.toc.handle(TOPIC).declareForAll({ batchSize: chance.pick([1, 5, 20, 100]), retention }),
      )
    const patch: LiveConfig = {
      ...this.#patch(kind === 'pause' || kind === 'declare' ? 'back' : kind),
      retention,
    }
    const expects = of ?? chance.weighted({ any: 5, known: 4, older: 1 })
    this.#ask(life, 'configure', mark, expects, (ifVersion) =>
      life.topic.configure(patch, ifVersion === null ? {} : { ifVersion }),
    )
  }

  #patch(kind: 'slots' | 'batchSize' | 'lease' | 'back'): LiveConfig {
    const { chance } = this.#parts
    if (kind === 'slots') return { slots: chance.pick([1, 4, 16, 64]) }
    if (kind === 'batchSize')
      return { batchSize: chance.pick([1, 5, 20, 100]), linger: this.#lingers.pick([0, 5, 200, 2_000]) }
    if (kind === 'lease') return { lease: chance.pick(['2s', '3s', '4s']) }
    return { slots: null, batchSize: null, linger: null, lease: null }
  }

  /** Continues from a version that was read elsewhere, at a process that perhaps does not know it yet. */
  #goOnFrom(version: number): void {
    const { world, chance, lives, untilMs } = this.#parts
    const all = lives()
    if (world.nowMs < untilMs && all.length > 0 && chance.is(0.2)) this.#change(chance.pick(all), version)
  }

  #resumeIn(ms: number): void {
    if (this.#isResuming) return
    this.#isResuming = true
    const { world, chance, lives } = this.#parts
    world.after(ms, () => {
      this.#isResuming = false
      if (!this.#isPaused) return
      const all = lives()
      if (all.length > 0) {
        const life = chance.pick(all)
        this.#ask(life, 'resume', null, 'any', () => life.topic.resume())
      }
      this.#resumeIn(RESUME_AGAIN_MS)
    })
  }

  #ask(life: Life, op: ConfigureEvent['op'], mark: string | null, expects: Expects, work: Work): void {
    life.clock.reach(() => void this.#carryOut(life, op, mark, expects, work))
  }

  async #carryOut(
    life: Life,
    op: ConfigureEvent['op'],
    mark: string | null,
    expects: Expects,
    work: Work,
  ): Promise<void> {
    const { recorder } = this.#parts
    const { version: known } = await life.topic.config().catch(() => ({ version: 0 }))
    const ifVersion = versionOf(expects, known)
    const call = recorder.nextCall()
    recorder.tell({ kind: 'configure', call, life: life.name, op, mark, ifVersion })
    const answered = (outcome: ConfiguredEvent['outcome'], inForce: number | null, error: string | null) =>
      recorder.tell({ kind: 'configured', call, outcome, version: inForce, error })
    try {
      const version = (await work(ifVersion))?.version ?? null
      answered('ok', version, null)
      if (version !== null) this.#goOnFrom(version)
    } catch (error) {
      const code = TocsinError.is(error) ? error.code : `thrown: ${String(error)}`
      const outcomes = { 'version-conflict': 'conflict', 'unknown-outcome': 'unknown' } as const
      answered(code in outcomes ? outcomes[code as keyof typeof outcomes] : 'failed', null, code)
    }
  }
}

/** Which version a change names: none, the one that its process knows, one that was read some time ago, or elsewhere. */
type Expects = 'any' | 'known' | 'older' | number

function versionOf(expects: Expects, known: number): number | null {
  if (expects === 'any') return null
  if (expects === 'older') return Math.max(0, known - 1)
  return expects === 'known' ? known : expects
}

type Work = (ifVersion: number | null) => Promise<ConfigView | void>
