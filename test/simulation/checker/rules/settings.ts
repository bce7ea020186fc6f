/**
 * I16: versions of a topic's settings follow each other, and each is made by one change of what that change is about. I17: what a change answers is so.
 * I18: a process that knows that the topic is paused claims nothing. L8: all processes have the newest settings within a second.
 */
import type {
  ClaimEvent,
  ConfiguredEvent,
  ConfigureEvent,
  Content,
  Event,
  LifeEvent,
  RecordEvent,
} from '../../history.ts'
import { firstAfter, push } from '../calls.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'
import { Stability } from '../stability.ts'

/** Within this time all processes know a change, latency and rounding included. */
const HEARD_MS = 1_200
/** What was being claimed when the news came may still be under way: a call to each server, a second at most. */
const CLAIM_MS = 2_500
/** A change gives up when others were faster so often. */
const TRIES_MAX = 20

/** The settings after an event. */
interface Version {
  readonly seq: number
  readonly version: number
  readonly content: string
  readonly isPaused: boolean
}

interface Applied {
  readonly seq: number
  readonly expected: number
}

export function checkSettings({ history }: Truth, findings: Findings): void {
  const versions = new Versions(findings)
  const hearing = new Hearing(history.composition, findings)
  for (const event of history.events) {
    if (event.kind === 'record') versions.see(event)
    hearing.see(event, versions.current)
  }
  checkAnswers(history.events, versions, findings)
  const { config } = history.ending
  if (config === null) return
  const { current } = versions
  if (config.version !== current?.version)
    findings.add(
      'I16',
      -1,
      `version ${config.version} is in force, and the changes led to ${current?.version}`,
    )
  if (config.isPaused)
    findings.add('I17', -1, 'the topic is still paused, and all processes report otherwise')
  const past = Array.from({ length: Math.min(100, config.version) }, (_, n) => config.version - n)
  if (config.past.join() !== past.join())
    findings.add('I16', -1, `the history has ${config.past.join()} instead of ${past.join()}`)
  for (const { life, version } of config.seen)
    if (version !== config.version)
      findings.add('L8', -1, `${life} has version ${version}, and ${config.version} is in force`)
}

/** What the board carried out, one after the other. */
class Versions {
  readonly all: Version[] = []
  readonly byMark = new Map<string, Applied[]>()
  readonly #findings: Findings
  readonly #changes = new Map<string, number>()

  constructor(findings: Findings) {
    this.#findings = findings
  }

  get current(): Version | null {
    return this.all.at(-1) ?? null
  }

  see(event: RecordEvent): void {
    const { seq, asked, version, content, isPaused } = event
    const { current } = this
    const tell = (why: string) => this.#findings.add('I16', seq, `${event.op} by ${event.life}: ${why}`)
    const next = asked === null ? this.#created(event) : this.#changed(event, tell)
    if (version !== (next?.version ?? null)) tell(`version ${version} instead of ${next?.version ?? 'none'}`)
    else if (next !== null && content !== next.content) tell(`${content} instead of ${next.content}`)
    // As it says, so that one mistake is told once.
    if (version !== null && (version !== current?.version || content !== current.content))
      this.all.push({ seq, version, content, isPaused })
  }

  #created({ version, content }: RecordEvent): Pick<Version, 'version' | 'content'> | null {
    return this.current ?? { version: 0, content: version === 0 ? content : '' }
  }

  #changed(
    { asked, isOurs, seq }: RecordEvent,
    tell: (why: string) => void,
  ): Pick<Version, 'version' | 'content'> | null {
    const { expected, changeId, mark, speaksOf, content } = asked as NonNullable<RecordEvent['asked']>
    const { current } = this
    const known = this.#changes.get(changeId)
    const isNew = known === undefined && current?.version === expected
    if (isOurs !== (isNew || known === expected + 1))
      tell(
        `of version ${expected}, ${isOurs ? 'taken' : 'refused'} while ${current?.version ?? 'none'} was in force`,
      )
    if (!isOurs || known !== undefined) return current
    this.#changes.set(changeId, expected + 1)
    if (mark !== null) {
      push(this.byMark, mark, { seq, expected })
      if (this.byMark.get(mark)?.length === 2) tell(`what was asked for once (${mark}) was carried out twice`)
    }
    if (current !== null && othersOf(current.content, speaksOf) !== othersOf(content, speaksOf))
      tell(`it spoke of '${speaksOf}' and changed more: ${current.content} to ${content}`)
    return { version: expected + 1, content }
  }
}

function othersOf(content: string, speaksOf: keyof Content): string {
  return JSON.stringify({ ...(JSON.parse(content) as Content), [speaksOf]: null })
}

/** Who has heard of what. */
class Hearing {
  readonly #stability: Stability
  readonly #findings: Findings
  /** Of processes that are open: which version they have, and since when they know that it is paused. */
  readonly #seen = new Map<string, { version: number; pausedMs: number | null }>()
  #changedMs = 0
  #version = 0
  readonly #told = new Set<string>()
  /** No other process writes there, and there are no notifications: the process that changes it knows by the reply, which a slow file may delay. */
  readonly #isAlone: boolean
  readonly #asking = new Map<number, string>()

  constructor(composition: Truth['history']['composition'], findings: Findings) {
    this.#isAlone = composition === 'embedded'
    this.#stability = new Stability(composition)
    this.#findings = findings
  }

  see(event: Event, current: Version | null): void {
    const { trueMs } = event
    const clearMs = this.#stability.clearSinceMs
    if (trueMs > Math.max(this.#changedMs, clearMs) + HEARD_MS) this.#checkAll(event.seq)
    if (event.kind === 'claim') this.#checkClaim(event, clearMs)
    this.#stability.observe(event)
    if (event.kind === 'record' && current !== null && current.version !== this.#version) {
      this.#version = current.version
      this.#changedMs = trueMs
    }
    if (event.kind === 'life') this.#lives(event)
    if (event.kind === 'configure' && this.#isAlone) this.#asking.set(event.call, event.life)
    if (event.kind === 'configured') this.#asking.delete(event.call)
    if (event.kind !== 'config') return
    const { life, version, isPaused } = event
    const seen = this.#seen.get(life)
    // What one that is being closed still hears does not matter.
    if (seen === undefined) return
    seen.version = version
    seen.pausedMs = isPaused ? (seen.pausedMs ?? trueMs) : null
  }

  #lives({ life, phase }: LifeEvent): void {
    if (phase === 'opens') this.#seen.set(life, { version: -1, pausedMs: null })
    if (phase === 'crashes' || phase === 'closes') this.#seen.delete(life)
  }

  #checkAll(seq: number): void {
    const asking = new Set(this.#asking.values())
    for (const [life, { version }] of this.#seen) {
      if (asking.has(life) || version >= this.#version || this.#told.has(`${life} ${this.#version}`)) continue
      this.#told.add(`${life} ${this.#version}`)
      this.#findings.add('L8', seq, `${life} still has version ${version}, and ${this.#version} is in force`)
    }
  }

  /** A bad line, or a process that was stopped, may hold up what was sent before. */
  #checkClaim({ life, key, seq, trueMs }: ClaimEvent, clearMs: number): void {
    const pausedMs = this.#seen.get(life)?.pausedMs ?? null
    if (pausedMs === null || trueMs < Math.max(pausedMs, clearMs) + CLAIM_MS) return
    this.#findings.add(
      'I18',
      seq,
      `${key} was claimed by ${life}, which has known of the pause since ${pausedMs}`,
    )
  }
}

function checkAnswers(events: readonly Event[], versions: Versions, findings: Findings): void {
  const asked = new Map<number, ConfigureEvent>()
  for (const event of events) {
    if (event.kind === 'configure') asked.set(event.call, event)
    if (event.kind !== 'configured') continue
    const call = asked.get(event.call)
    if (call === undefined) continue
    const what = `${call.op} by ${call.life} (call ${call.call})`
    const tell = (why: string) =>
      findings.add('I17', event.seq, `${what} answered ${event.outcome}, but ${why}`)
    // All that were in force while it was under way.
    const from = Math.max(0, firstAfter(versions.all, call.seq) - 1)
    const inForce = versions.all.slice(from, firstAfter(versions.all, event.seq))
    if (call.op === 'configure' || call.op === 'declare')
      checkConfigured(call, event, inForce, versions, tell)
    else if (event.outcome === 'ok' && !inForce.some(({ isPaused }) => isPaused === (call.op === 'pause')))
      tell(`the topic was ${call.op === 'pause' ? 'never paused' : 'paused'} all the while`)
  }
}

function checkConfigured(
  { mark, ifVersion, seq }: ConfigureEvent,
  { outcome, version, seq: until }: ConfiguredEvent,
  inForce: readonly Version[],
  { byMark }: Versions,
  tell: (why: string) => void,
): void {
  const [applied] = byMark.get(mark ?? '') ?? []
  if (outcome === 'ok') {
    if (applied === undefined || applied.seq < seq || applied.seq > until)
      return tell('it was not carried out')
    if (ifVersion !== null && applied.expected !== ifVersion)
      tell(`it took the place of version ${applied.expected} instead of ${ifVersion}`)
    if (version === null || version <= applied.expected || version > (inForce.at(-1)?.version ?? -1))
      tell(`at version ${version}, and it made ${applied.expected + 1}`)
    return
  }
  if (outcome === 'unknown') return
  if (applied !== undefined) return tell('it was carried out')
  if (outcome === 'failed') return
  if (ifVersion === null) {
    if (inForce.length < TRIES_MAX) tell('it had asked for no version')
  } else if (inForce.every((one) => one.version === ifVersion)) tell(`version ${ifVersion} was in force`)
}
