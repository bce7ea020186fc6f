/**
 * I19: a pull returns no more tasks than requested, and a suspect alone. A pulled task is settled and extended only as the
 * client that holds it requested, and the replies to the client are true. L6: every request is answered.
 */
import type { AskEvent, Event, ExtendEvent, SettleEvent, ToldEvent } from '../../history.ts'
import { firstAfter, push } from '../calls.ts'
import type { Findings } from '../findings.ts'
import type { Truth } from '../truth.ts'

/** A request may stay unanswered if its process was closed within this time: the process may never have run again. */
const CLOSED_MS = 20_000

/** The outcomes that each request may have. */
const OUTCOMES: Record<string, readonly SettleEvent['outcome']['kind'][]> = {
  done: ['done'],
  failed: ['retry', 'dead'],
  snooze: ['snooze'],
  dead: ['dead'],
}

export function checkPulling(truth: Truth, findings: Findings): void {
  const { events } = truth.history
  checkPulls(truth, findings)
  const asks = askedOf(events)
  const pulled = new Set<string>()
  for (const { event, claim } of truth.starts) {
    const { token, key, version, life, seq, beside = 0 } = event
    if (token === undefined) continue
    pulled.add(`${token}\0${key}`)
    if (claim?.event.isAlone === true && beside > 0)
      findings.add('I19', seq, `${key} ${version} is a suspect, and ${life} got it with ${beside} others`)
  }
  const seen = new Effects()
  for (const event of events) {
    if (event.kind === 'settle') {
      seen.settled(event)
      const name = `${event.token}\0${event.key}`
      if (event.outcome.kind !== 'lost' && pulled.has(name) && !isAsked(event, asks.get(name) ?? []))
        findings.add(
          'I19',
          event.seq,
          `${event.key} (${event.token}) was settled as ${event.outcome.kind} by ${event.life}, and its client had not requested that`,
        )
    } else if (event.kind === 'extend') {
      seen.extended(event)
      checkExtend(truth, event, pulled, asks, findings)
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
      findings.add('I19', event.seq, `${event.count} tasks were pulled from ${life}, and ${limit} requested`)
    if (event.isGone && event.count > 0)
      findings.add('I19', event.seq, `${event.count} tasks of ${life} went to a client that had disconnected`)
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
  pulled: ReadonlySet<string>,
  asks: ReadonlyMap<string, readonly AskEvent[]>,
  findings: Findings,
): void {
  const wanted = (key: string) =>
    asks.get(`${token}\0${key}`)?.some((ask) => ask.what === 'extend' && ask.seq < seq) ?? false
  // A timetable extends a claim as a whole: the task whose extension was requested may be settled by now.
  if (history.composition === 'redis') return
  for (const key of keys)
    if (pulled.has(`${token}\0${key}`) && !wanted(key))
      findings.add('I19', seq, `${life} extended ${key} (${token}), and its client had not requested that`)
}

/** What the storage did, by claim and key. */
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
            // A timetable extends a claim as a whole, whichever of its tasks are still held.
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
