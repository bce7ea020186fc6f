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
} from './config.ts'
import { TocsinError } from './errors.ts'
import type { Announcer } from './events.ts'
import type { Logger } from './logger.ts'

/** A topic's settings as they are in force in this process, and who wants to hear when they change. */
export class TopicSettings {
  readonly #topic: string
  #code: TopicConfig
  readonly #announcer: Announcer
  readonly #logger: Logger
  readonly #listeners = new Set<() => void>()
  #live: TopicConfig = {}
  #version = 0
  #paused = false
  #settings: Settings

  constructor(topic: string, code: TopicConfig, announcer: Announcer, logger: Logger) {
    this.#topic = topic
    this.#code = checkConfig(code, `topic '${topic}'`)
    this.#announcer = announcer
    this.#logger = logger
    this.#settings = settingsOf(effectiveConfig(this.#code, this.#live), `topic '${topic}'`)
  }

  get current(): Settings {
    return this.#settings
  }

  get paused(): boolean {
    return this.#paused
  }

  view(): ConfigView {
    const effective = effectiveConfig(this.#code, this.#live)
    const layers = { effective, live: this.#live, code: this.#code }
    // A copy: what is shown is not a way to change it.
    return { version: this.#version, ...structuredClone(layers), paused: this.#paused }
  }

  /** What the code says, when it says so after the topic was used by its name alone. */
  declare(code: TopicConfig): void {
    const checked = checkConfig(code, `topic '${this.#topic}'`)
    const settings = settingsOf(effectiveConfig(checked, this.#live), `topic '${this.#topic}'`)
    if (settings.slotBy !== this.#settings.slotBy)
      throw new TocsinError(
        'bad-topic',
        `topic '${this.#topic}' is in use with slotBy '${this.#settings.slotBy}', which places its tasks and is fixed; declare it before its first use`,
        { field: 'slotBy' },
      )
    this.#code = checked
    this.#settings = settings
    for (const listener of this.#listeners) listener()
    this.#announceDrift()
  }

  /** All of the patch or nothing of it. */
  configure(patch: LiveConfig, ifVersion: number | undefined): ConfigView {
    if (ifVersion !== undefined && ifVersion !== this.#version)
      throw new TocsinError(
        'version-conflict',
        `topic '${this.#topic}': version ${ifVersion} was expected, ${this.#version} is in force; read config() again`,
        { expected: ifVersion, version: this.#version },
      )
    const live = patchLive(this.#live, patch, `topic '${this.#topic}'`)
    const settings = settingsOf(effectiveConfig(this.#code, live), `topic '${this.#topic}'`)
    this.#live = live
    this.#settings = settings
    this.#changed()
    this.#announceDrift()
    return this.view()
  }

  pause(paused: boolean): void {
    if (this.#paused === paused) return
    this.#paused = paused
    this.#changed()
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #changed(): void {
    this.#version++
    const { version, effective, paused } = this.view()
    for (const listener of this.#listeners) listener()
    this.#announcer.emit('config', { topic: this.#topic, version, effective, paused })
  }

  /** A value that the code asks for and does not get is said aloud, never passed over. */
  #announceDrift(): void {
    for (const row of driftOf(this.#code, this.view().effective)) {
      this.#logger.warn({ topic: this.#topic, ...row }, 'the live configuration overrides what the code says')
      this.#announcer.emit('drift', { topic: this.#topic, ...row })
    }
  }
}
