/**
 * I19: whoever pulls gets no more than was asked for, and a suspect alone; a task that is borne is settled and prolonged as
 * its bearer asked, and in no other way; and what the bearer is told is so. L6: and told it is.
 */
import type { AskEvent, Event, ExtendEvent, SettleEvent, ToldEvent } from '../../history.ts'
import { firstAfter, push } from '../calls.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

/** Who asked a process that was closed so soon after, perhaps without having run again, hears nothing: it is gone. */
const CLOSED_MS = 20_000

/** What becomes of what bearers ask for. */
const OUTCOMES: Record<string, readonly SettleEvent['outcome']['kind'][]> = {
  done: ['done'],
  failed: ['retry', 'dead'],
  snooze: ['snooze'],
  dead: ['dead'],
}

export function checkBearing(truth: Truth, findings: Findings): void {
  const { events } = truth.history
  checkPulls(truth, findings)
  const asks = askedOf(events)
  const borne = new Set<string>()
  for (const { event, claim } of truth.starts) {
    const { token, key, version, life, seq, beside = 0 } = event
    if (token === undefined) continue
    borne.add(`${token}\0${key}`)
    if (claim?.event.isAlone === true && beside > 0)
      findings.add('I19', seq, `${key} ${version} is a suspect, and ${life} got it with ${beside} others`)
  }
  const seen = new Effects()
  for (const event of events) {
    if (event.kind === 'settle') {
      seen.settled(event)
      const name = `${event.token}\0${event.key}`
      if (event.outcome.kind !== 'lost' && borne.has(name) && !isAsked(event, asks.get(name) ?? []))
        findings.add(
          'I19',
          event.seq,
          `${event.key} (${event.token}) was settled as ${event.outcome.kind} by ${event.life}, and its bearer had not asked for that`,
        )
    } else if (event.kind === 'extend') {
      seen.extended(event)
      checkExtend(truth, event, borne, asks, findings)
    }
  }
  checkTold(truth, asks, seen, findings)
}

function checkPulls(truth: Truth, findings: Findings): void {
  const { events } = truth.history
  const open = new Map<number, Extract<Event, { kind: 'pull' }>>()
  for (const event of events) {
    if (event.kind === 'pull') open.set(event.pull, event)
    if (event.kind !== 'pulled') continue
    const { life, limit } = open.get(event.pull) as Extract<Event, { kind: 'pull' }>
    open.delete(event.pull)
    if (event.count > limit)
      findings.add('I19', event.seq, `${event.count} tasks were pulled from ${life}, and ${limit} asked for`)
    if (event.isGone && event.count > 0)
      findings.add('I19', event.seq, `${event.count} tasks of ${life} went to somebody who had hung up`)
  }
  for (const { pull, life, seq, trueMs } of open.values())
    if (!isGone(truth, life, trueMs)) findings.add('L6', seq, `pull ${pull} from ${life} was never answered`)
}

function isGone({ history: { events }, lifeEnds }: Truth, life: string, askedMs: number): boolean {
  const end = events[lifeEnds.get(life) ?? -1]
  return end?.kind === 'life' && (end.phase === 'crashes' || end.trueMs < askedMs + CLOSED_MS)
}

function askedOf(events: readonly Event[]): Map<string, AskEvent[]> {
  const asks = new Map<string, AskEvent[]>()
  for (const event of events) if (event.kind === 'ask') push(asks, `${event.token}\0${event.key}`, event)
  return asks
}

function isAsked({ outcome, seq }: SettleEvent, asks: readonly AskEvent[]): boolean {
  return asks.some((ask) => ask.seq < seq && OUTCOMES[ask.what]?.includes(outcome.kind))
}

function checkExtend(
  { history }: Truth,
  { token, keys, life, seq }: ExtendEvent,
  borne: ReadonlySet<string>,
  asks: ReadonlyMap<string, readonly AskEvent[]>,
  findings: Findings,
): void {
  const wanted = (key: string) =>
    asks.get(`${token}\0${key}`)?.some((ask) => ask.what === 'extend' && ask.seq < seq) ?? false
  // A timetable prolongs a claim as a whole: what is settled of it by now may be what was asked for.
  if (history.composition === 'redis') return
  for (const key of keys)
    if (borne.has(`${token}\0${key}`) && !wanted(key))
      findings.add('I19', seq, `${life} prolonged ${key} (${token}), and its bearer had not asked for that`)
}

/** What the truth did, by claim and key. */
class Effects {
  readonly settles = new Map<string, SettleEvent[]>()
  readonly extends = new Map<string, ExtendEvent[]>()

  settled(event: SettleEvent): void {
    push(this.settles, `${event.token}\0${event.key}`, event)
  }

  extended(event: ExtendEvent): void {
    push(this.extends, event.token, event)
  }
}

function checkTold(
  truth: Truth,
  asks: ReadonlyMap<string, readonly AskEvent[]>,
  effects: Effects,
  findings: Findings,
): void {
  const { history } = truth
  const told = new Map<number, ToldEvent>()
  for (const event of history.events) if (event.kind === 'told') told.set(event.ask, event)
  for (const ask of [...asks.values()].flat()) {
    const { key, token, life, what, seq, trueMs } = ask
    const heard = told.get(ask.ask)
    if (heard === undefined) {
      if (!isGone(truth, life, trueMs))
        findings.add('L6', seq, `${what} of ${key} (${token}) at ${life} was never answered`)
      continue
    }
    if (heard.answer === 'failed') continue
    const between = <E extends { readonly seq: number }>(all: readonly E[]) =>
      all.slice(firstAfter(all, seq), firstAfter(all, heard.seq))
    const isSo =
      what === 'extend'
        ? between(effects.extends.get(token) ?? []).some((event) => {
            // A timetable prolongs a claim as a whole, whatever of it is still held.
            const isHeld = history.composition === 'redis' ? event.keys.length > 0 : event.keys.includes(key)
            return isHeld === (heard.answer === 'extended')
          })
        : between(effects.settles.get(`${token}\0${key}`) ?? []).some(
            (event) => event.answer === heard.answer && OUTCOMES[what]?.includes(event.outcome.kind),
          )
    if (!isSo)
      findings.add(
        'I19',
        heard.seq,
        `${what} of ${key} (${token}) was answered ${heard.answer} by ${life}, and nothing like that happened`,
      )
  }
}
