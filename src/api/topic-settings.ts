import type { SlotBy } from '../values/cell.ts'
import type { TopicRecord } from '../board.ts'
import type { TopicConfigs } from '../cluster/topic-configs.ts'
import {
  type ConfigView,
  checkConfig,
  driftOf,
  effectiveConfig,
  type LiveConfig,
  patchLive,
  type Settings,
  settingsOf,
  type TopicConfig,
} from '../values/config.ts'
import { TocsinError } from '../errors.ts'
import type { Announcer } from '../telemetry/events.ts'
import { WriteQueue } from '../lib/write-queue.ts'
import type { Logger } from '../telemetry/logger.ts'

/**
 * A topic's settings as they are in force: what the code says, under what was set live for the whole cluster. Where the
 * code says nothing, what somebody without code declared for all stands in its place. Who wants to hear when they change
 * is told.
 */
export class TopicSettings {
  readonly #topic: string
  readonly #configs: TopicConfigs
  readonly #announcer: Announcer
  readonly #logger: Logger
  readonly #listeners = new Set<() => void>()
  #code: TopicConfig
  #record: TopicRecord | null
  #settings: Settings
  #drift = ''
  /** The code declares it; a name alone says nothing about how it is to be created. */
  #isDeclared: boolean
  #creating: Promise<void> | null = null
  /** Why it could not be created, when it could not. */
  #createError: Error | null = null
  /** The code and the cluster place keys in different ways: nothing may be written. */
  #conflict: TocsinError | null = null
  /** One after the other: two must not both be about to create it. */
  readonly #declarations = new WriteQueue()
  /** By what is being declared for all, while nobody has created it: whoever writes meanwhile goes by that. */
  #founding: TopicConfig | null = null

  constructor(
    topic: string,
    code: TopicConfig,
    isDeclared: boolean,
    configs: TopicConfigs,
    announcer: Announcer,
    logger: Logger,
  ) {
    this.#topic = topic
    this.#configs = configs
    this.#announcer = announcer
    this.#logger = logger
    this.#isDeclared = isDeclared
    this.#code = checkConfig(code, `topic '${topic}'`)
    this.#record = configs.get(topic)
    if (isDeclared) this.#checkPlacing(this.#code.slotBy)
    this.#settings = this.#compute()
    configs.onChange(topic, () => this.#heard())
    this.#announceDrift()
    if (isDeclared) this.create()
  }

  get current(): Settings {
    return this.#settings
  }

  get paused(): boolean {
    return this.#record?.isPaused ?? false
  }

  /** Nobody has created it yet, as far as is known. */
  get isUnknown(): boolean {
    return this.#record === null
  }

  /** Resolves when it is known how the topic was created; null: it is known. Never rejects. */
  get creating(): Promise<void> | null {
    // Nobody else can have created it otherwise where there is nobody else.
    return this.#configs.isShared ? this.#creating : null
  }

  /** Throws also where nobody can say yet how its keys are placed. */
  checkPlaced(): void {
    this.check()
    if (this.#record === null && this.#createError !== null && this.#configs.isShared) throw this.#createError
  }

  /** Throws when keys would be placed otherwise than they are. */
  check(): void {
    if (this.#conflict !== null) throw this.#conflict
  }

  view(): ConfigView {
    const layers = { effective: this.#effective(), live: this.#record?.live ?? {}, code: this.#layer }
    // A copy: what is shown is not a way to change it.
    return { version: this.#record?.version ?? 0, ...structuredClone(layers), paused: this.paused }
  }

  /** What the code says, when it says so after the topic was used by its name alone. */
  declare(code: TopicConfig): void {
    const checked = checkConfig(code, `topic '${this.#topic}'`)
    this.#checkPlacing(checked.slotBy)
    const settings = settingsOf(this.#effective(checked), `topic '${this.#topic}'`, this.#record !== null)
    if (settings.slotBy !== this.#settings.slotBy)
      throw new TocsinError(
        'bad-topic',
        `topic '${this.#topic}' is in use with slotBy '${this.#settings.slotBy}', which places its tasks and is fixed; declare it before its first use`,
        { field: 'slotBy' },
      )
    this.#code = checked
    this.#settings = settings
    this.#isDeclared = true
    for (const listener of this.#listeners) listener()
    this.#announceDrift()
    this.create()
  }

  /**
   * By somebody who has no code in any process of ours, and so cannot say it again with each start: it is kept on the
   * board, and holds wherever the topic is used by its name alone. In full: what it leaves out is as by default.
   */
  async declareForAll(config: unknown): Promise<ConfigView> {
    const declared = checkConfig(config, `topic '${this.#topic}'`)
    settingsOf(declared, `topic '${this.#topic}'`)
    return this.#declarations.run(() => this.#declareForAll(declared), true)
  }

  async #declareForAll(declared: TopicConfig): Promise<ConfigView> {
    // Somebody may be writing to it by its name alone.
    await this.#creating
    this.#checkPlacing(declared.slotBy)
    try {
      this.#foundBy(declared)
      await this.#caughtUp()
    } finally {
      this.#foundBy(null)
    }
    // Somebody else may have been faster, and so is the code of this process, where it has any.
    this.#checkPlacing(declared.slotBy)
    const said = JSON.stringify(declared)
    await this.#configs.change(
      this.#topic,
      (record) => (JSON.stringify(record.declared) === said ? null : { declared, patch: { declared } }),
      undefined,
    )
    return this.view()
  }

  /** All of the patch or nothing of it. */
  async configure(patch: LiveConfig, ifVersion: number | undefined): Promise<ConfigView> {
    const where = `topic '${this.#topic}'`
    const patched = (live: TopicConfig) => {
      const next = patchLive(live, patch, where)
      settingsOf(this.#effective(this.#layer, next), where)
      return next
    }
    // A mistake is refused before anybody is asked.
    patched(this.#record?.live ?? {})
    await this.#created()
    await this.#configs.change(this.#topic, ({ live }) => ({ live: patched(live), patch }), ifVersion)
    return this.view()
  }

  async pause(paused: boolean): Promise<void> {
    await this.#caughtUp()
    if (this.paused === paused) return
    await this.#configs.change(this.#topic, () => ({ isPaused: paused, patch: { paused } }), undefined)
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** What stands in the place of the code: the code itself, where this process has any that speaks of the topic. */
  get #layer(): TopicConfig {
    return this.#isDeclared ? this.#code : (this.#record?.declared ?? this.#founding ?? {})
  }

  #effective(code = this.#layer, live = this.#record?.live ?? {}): TopicConfig {
    // In code these two count when the topic is created, and never again.
    const asCreated = this.#record === null ? {} : { slots: this.#record.slots, slotBy: this.#record.slotBy }
    return effectiveConfig({ ...code, ...asCreated }, live)
  }

  #foundBy(declared: TopicConfig | null): void {
    this.#founding = declared
    this.#settings = this.#compute()
  }

  #compute(): Settings {
    return settingsOf(this.#effective(), `topic '${this.#topic}'`, this.#record !== null)
  }

  /** Created, changed or forgotten, by whichever node. */
  #heard(): void {
    const before = this.#record
    this.#record = this.#configs.get(this.#topic)
    this.#watchPlacing()
    this.#settings = this.#compute()
    for (const listener of this.#listeners) listener()
    if (this.#record !== null && this.#record.version !== (before?.version ?? 0)) {
      const { version, effective, paused } = this.view()
      this.#announcer.emit('config', { topic: this.#topic, version, effective, paused })
    }
    this.#announceDrift()
    if (this.#record === null && this.#isDeclared) this.create()
  }

  /**
   * By the first that declares it, or writes to it by its name alone. Before anybody can go by it: while it is unknown how
   * the topic is placed, writes wait for the answer.
   */
  create(): void {
    if (this.#record !== null || this.#creating !== null) return
    const { slots, slotBy } = this.#settings
    this.#createError = null
    const creating = this.#configs.create(this.#topic, slots, slotBy).then(
      () => {},
      (error: unknown) => {
        this.#createError = error as Error
        this.#logger.warn({ topic: this.#topic, error }, 'the topic could not be created yet')
        this.#announcer.emit('error', { topic: this.#topic, doing: 'create', error })
      },
    )
    this.#creating = creating
    // A turn later: what was called meanwhile comes after what has waited.
    void creating
      .then(() => this.#configs.turn())
      .then(() => {
        if (this.#creating === creating) this.#creating = null
      })
  }

  /** Live settings need a record to be written to. */
  async #created(): Promise<void> {
    await this.#creating
    this.check()
    if (this.#record !== null) return
    const { slots, slotBy } = this.#settings
    await this.#configs.create(this.#topic, slots, slotBy)
    this.check()
  }

  /** Created, and as it is on the board by now. */
  async #caughtUp(): Promise<void> {
    await this.#created()
    // Another node may have changed it just now: what we have not heard yet must not make us believe that all is done.
    await this.#configs.refresh()
  }

  #watchPlacing(): void {
    this.#conflict = null
    if (!this.#isDeclared) return
    try {
      this.#checkPlacing(this.#code.slotBy)
    } catch (error) {
      this.#conflict = error as TocsinError
      this.#logger.error({ topic: this.#topic, error }, 'nothing is written to the topic by this process')
      this.#announcer.emit('error', { topic: this.#topic, doing: 'create', error })
    }
  }

  #checkPlacing(wanted: SlotBy = 'key'): void {
    const placed = this.#record?.slotBy ?? wanted
    if (placed === wanted) return
    throw new TocsinError(
      'bad-topic',
      `topic '${this.#topic}' was created with slotBy '${placed}', which places its tasks and is fixed; here it is declared with '${wanted}'. Declare it with '${placed}', or use another topic`,
      { field: 'slotBy' },
    )
  }

  /** A value that the code asks for and does not get is said aloud, never passed over; once, until it is another one. */
  #announceDrift(): void {
    const rows = driftOf(this.#layer, this.view().effective)
    const drift = JSON.stringify(rows)
    if (drift === this.#drift) return
    this.#drift = drift
    for (const row of rows) {
      this.#logger.warn({ topic: this.#topic, ...row }, 'the live configuration overrides what the code says')
      this.#announcer.emit('drift', { topic: this.#topic, ...row })
    }
  }
}
