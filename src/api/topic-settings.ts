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
 * The settings of a topic that are in force. For each field, the live configuration of the cluster overrides the code
 * of this process, and the code overrides the default. If the code does not declare the topic, the configuration that a
 * server stored on the board (`declareForAll`) takes the place of the code. Listeners are called after every change.
 *
 * The board has one record per topic. The node that creates the record fixes `slotBy`, which decides the cell of every
 * key:
 *
 *                 create()                        record arrives, created by any node
 *   UNKNOWN ────────────────────▶ CREATING ──────────────────────────────────▶ CREATED
 *   no record                     writes wait                                  writes go on
 *      ▲                           │       ▲                                    │   │   ▲
 *      │             board fails   ▼       │ next schedule()        code has    │   │   │ record changes,
 *      │                          FAILED ──┘                        another     │   ▼   │ slotBy agrees
 *      │                          schedule() throws #createError    slotBy      │  CONFLICT
 *      │                                                                        │  all calls throw #conflict
 *      └───────────────────────── the record is gone from the board ────────────┘
 *
 * If the code declares the topic, the constructor and `declare` call create(). If only the name of the topic is used,
 * the first schedule() calls create(). On a board that is not shared, no other node can choose another `slotBy`, so
 * writes do not wait.
 */
export class TopicSettings {
  readonly #topic: string
  readonly #configs: TopicConfigs
  readonly #announcer: Announcer
  readonly #logger: Logger
  readonly #defaults: TopicConfig
  readonly #listeners = new Set<() => void>()
  #code: TopicConfig
  #record: TopicRecord | null
  #settings: Settings
  #drift = ''
  /** True if the code of this process declares the topic; false if the code uses only its name. */
  #isDeclared: boolean
  #creating: Promise<void> | null = null
  /** The error of the last attempt to create the topic; null if the attempt did not fail. */
  #createError: Error | null = null
  /** Not null while the code and the record differ in `slotBy`: a write would put its task into the wrong cell. */
  #conflict: TocsinError | null = null
  /** Runs `declareForAll` calls one by one, because two calls must not create the topic at the same time. */
  readonly #declarations = new WriteQueue()
  /**
   * The configuration that `declareForAll` is about to store; null if there is none. It is in force while
   * `declareForAll` creates the topic, so that the topic is created with the declared `slotBy`.
   */
  #pendingDeclaration: TopicConfig | null = null

  constructor(
    topic: string,
    code: TopicConfig,
    isDeclared: boolean,
    configs: TopicConfigs,
    announcer: Announcer,
    logger: Logger,
    defaults: TopicConfig = {},
  ) {
    this.#topic = topic
    this.#configs = configs
    this.#announcer = announcer
    this.#logger = logger
    this.#defaults = defaults
    this.#isDeclared = isDeclared
    this.#code = checkConfig(code, `topic '${topic}'`)
    this.#record = configs.get(topic)
    if (isDeclared) this.#checkSlotBy(this.#code.slotBy)
    this.#settings = this.#compute()
    configs.onChange(topic, () => this.#onRecordChange())
    this.#announceDrift()
    if (isDeclared) this.create()
  }

  get current(): Settings {
    return this.#settings
  }

  get paused(): boolean {
    return this.#record?.isPaused ?? false
  }

  /** True if this process knows no record of the topic. */
  get isUnknown(): boolean {
    return this.#record === null
  }

  /**
   * Resolves when the current attempt to create the topic has ended, with success or not. Never rejects. Null if writes
   * need not wait: no attempt is under way, or the board is not shared.
   */
  get creating(): Promise<void> | null {
    return this.#configs.isShared ? this.#creating : null
  }

  /**
   * Throws if the code's `slotBy` conflicts with the record. On a shared board, also throws if the topic could not be
   * created: then another node may create the topic with another `slotBy`.
   */
  checkCreated(): void {
    this.check()
    if (this.#record === null && this.#createError !== null && this.#configs.isShared) throw this.#createError
  }

  /** Throws if the code's `slotBy` conflicts with the record. */
  check(): void {
    if (this.#conflict !== null) throw this.#conflict
  }

  view(): ConfigView {
    const layers = { effective: this.#effective(), live: this.#record?.live ?? {}, code: this.#layer }
    // Return a copy, so that callers cannot change the settings.
    return { version: this.#record?.version ?? 0, ...structuredClone(layers), paused: this.paused }
  }

  /** Declares a topic that was used only by its name until now. */
  declare(code: TopicConfig): void {
    const checked = checkConfig(code, `topic '${this.#topic}'`)
    this.#checkSlotBy(checked.slotBy)
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
   * Declares the topic for all processes, on behalf of a client whose code runs in none of these processes. The
   * declaration is stored on the board. It is in force in every process whose code uses only the topic's name. It
   * replaces the earlier declaration as a whole: omitted fields get their defaults.
   */
  async declareForAll(config: unknown): Promise<ConfigView> {
    const declared = checkConfig(config, `topic '${this.#topic}'`)
    settingsOf(declared, `topic '${this.#topic}'`)
    return this.#declarations.run(() => this.#declareForAll(declared), true)
  }

  async #declareForAll(declared: TopicConfig): Promise<ConfigView> {
    // Wait: a write that uses only the topic's name may be creating the topic with the default slotBy.
    await this.#creating
    this.#checkSlotBy(declared.slotBy)
    try {
      this.#setPendingDeclaration(declared)
      await this.#ensureCurrent()
    } finally {
      this.#setPendingDeclaration(null)
    }
    // Check again: another node, or the code of this process, may have created the topic in the meantime.
    this.#checkSlotBy(declared.slotBy)
    const wanted = JSON.stringify(declared)
    await this.#configs.change(
      this.#topic,
      (record) => (JSON.stringify(record.declared) === wanted ? null : { declared, patch: { declared } }),
      undefined,
    )
    return this.view()
  }

  /** Applies the whole patch, or throws and changes nothing. */
  async configure(patch: LiveConfig, ifVersion: number | undefined): Promise<ConfigView> {
    const where = `topic '${this.#topic}'`
    const patched = (live: TopicConfig) => {
      const next = patchLive(live, patch, where)
      settingsOf(this.#effective(this.#layer, next), where)
      return next
    }
    // Reject an invalid patch before any call to the board.
    patched(this.#record?.live ?? {})
    await this.#ensureCreated()
    await this.#configs.change(this.#topic, ({ live }) => ({ live: patched(live), patch }), ifVersion)
    return this.view()
  }

  async pause(paused: boolean): Promise<void> {
    await this.#ensureCurrent()
    if (this.paused === paused) return
    await this.#configs.change(this.#topic, () => ({ isPaused: paused, patch: { paused } }), undefined)
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  /** The code layer: the configuration that the code declares, else the configuration declared for all processes. */
  get #layer(): TopicConfig {
    return this.#isDeclared ? this.#code : (this.#record?.declared ?? this.#pendingDeclaration ?? {})
  }

  #effective(code = this.#layer, live = this.#record?.live ?? {}): TopicConfig {
    // The code's `slots` and `slotBy` count only when the topic is created. After that, the record's values count.
    const asCreated = this.#record === null ? {} : { slots: this.#record.slots, slotBy: this.#record.slotBy }
    return effectiveConfig({ ...this.#defaults, ...code, ...asCreated }, live)
  }

  #setPendingDeclaration(declared: TopicConfig | null): void {
    this.#pendingDeclaration = declared
    this.#settings = this.#compute()
  }

  #compute(): Settings {
    return settingsOf(this.#effective(), `topic '${this.#topic}'`, this.#record !== null)
  }

  /** Called after any node created, changed or removed the record. */
  #onRecordChange(): void {
    const before = this.#record
    this.#record = this.#configs.get(this.#topic)
    this.#detectConflict()
    this.#settings = this.#compute()
    for (const listener of this.#listeners) listener()
    if (this.#record !== null && this.#record.version !== (before?.version ?? 0)) {
      const { version, effective, paused } = this.view()
      this.#announcer.emit('config', { topic: this.#topic, version, effective, paused })
    }
    this.#announceDrift()
    if (this.#record === null && this.#isDeclared) this.create()
  }

  /** Starts to create the topic, unless it exists or is being created. The node that creates it fixes `slotBy`. */
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
    // Clear #creating one turn later: writes that waited must reach the store before later writes.
    void creating
      .then(() => this.#configs.turn())
      .then(() => {
        if (this.#creating === creating) this.#creating = null
      })
  }

  /** Creates the topic if it does not exist, because live settings are stored in its record. */
  async #ensureCreated(): Promise<void> {
    await this.#creating
    this.check()
    if (this.#record !== null) return
    const { slots, slotBy } = this.#settings
    await this.#configs.create(this.#topic, slots, slotBy)
    this.check()
  }

  /** Creates the topic if it does not exist, and reads its record from the board. */
  async #ensureCurrent(): Promise<void> {
    await this.#ensureCreated()
    // Read the record again: another node may have just changed it. The caller compares the wanted values with the
    // record, and would skip a needed change if the copy of the record were old.
    await this.#configs.refresh()
  }

  #detectConflict(): void {
    this.#conflict = null
    if (!this.#isDeclared) return
    try {
      this.#checkSlotBy(this.#code.slotBy)
    } catch (error) {
      this.#conflict = error as TocsinError
      this.#logger.error(
        { topic: this.#topic, error },
        'writes to the topic are refused: its slotBy is another one',
      )
      this.#announcer.emit('error', { topic: this.#topic, doing: 'create', error })
    }
  }

  #checkSlotBy(wanted: SlotBy = 'key'): void {
    const placed = this.#record?.slotBy ?? wanted
    if (placed === wanted) return
    throw new TocsinError(
      'bad-topic',
      `topic '${this.#topic}' was created with slotBy '${placed}', which places its tasks and is fixed; here it is declared with '${wanted}'. Declare it with '${placed}', or use another topic`,
      { field: 'slotBy' },
    )
  }

  /**
   * Logs a warning and emits 'drift' for each code value that is not in force. Does nothing if these values are the
   * same as at the last call.
   */
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
